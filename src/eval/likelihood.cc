#include "eval/likelihood.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "model/device.h"
#include "model/packed_tokens.h"
#include "ssa/check.h"

namespace ssa {
namespace {

// Logits of 512 tokens of a vocabulary of 50 257 are 103 MB.
constexpr std::size_t kTokensPerForward = 4096, kScoredPerForward = 512;

class LikelihoodScorer {
 public:
  explicit LikelihoodScorer(Model& model) : model_(model) {}

  void add(std::size_t number, const LikelihoodRequest& request, std::int64_t max_positions) {
    std::vector<TokenId> ids = request.context;
    ids.insert(ids.end(), request.continuation.begin(), request.continuation.end());
    const auto size = static_cast<std::int64_t>(ids.size());
    auto first = static_cast<std::int64_t>(request.context.size());
    while (first < size) {  // more than once where the continuation is longer than a window
      const std::int64_t end = std::min(size, first + max_positions);
      const std::int64_t begin = std::max<std::int64_t>(0, end - 1 - max_positions);
      packed_.tokens.insert(packed_.tokens.end(), ids.begin() + begin, ids.begin() + end - 1);
      packed_.end_sequence();
      const auto place = static_cast<std::int64_t>(packed_.tokens.size()) - end + 1;
      for (; first < end; ++first) {
        packed_.wanted.push_back(place + first - 1);
        packed_.targets.push_back(ids[static_cast<std::size_t>(first)]);
        owners_.push_back(number);
      }
    }
  }

  bool full() const {
    return packed_.tokens.size() >= kTokensPerForward || owners_.size() >= kScoredPerForward;
  }

  void forward(std::vector<Likelihood>& results) {
    if (owners_.empty()) return;
    const torch::Tensor logits = model_.forward(packed_.input()).to(torch::kFloat32);
    const torch::Tensor targets = on_device(packed_.target_ids(), logits.device());
    const torch::Tensor losses = torch::cross_entropy_loss(logits, targets, {}, at::Reduction::None)
                                     .to(torch::kCPU, torch::kFloat64);
    const torch::Tensor likeliest = (logits.argmax(1) == targets).cpu();
    for (std::size_t i = 0; i < owners_.size(); ++i) {
      Likelihood& result = results[owners_[i]];
      const double loss = losses.const_data_ptr<double>()[i];
      result.log_probability -= loss;
      result.of_tokens.push_back(static_cast<float>(-loss));
      result.greedy = result.greedy && likeliest.const_data_ptr<bool>()[i];
    }
    packed_ = {};
    owners_.clear();
  }

 private:
  Model& model_;
  PackedTokens packed_;
  std::vector<std::size_t> owners_;  ///< the request of each wanted token
};

}  // namespace

std::vector<Likelihood> log_likelihoods(
    Model& model, std::int64_t max_positions, const std::vector<LikelihoodRequest>& requests,
    const std::function<void(std::int64_t done, std::int64_t all)>& report) {
  const torch::NoGradGuard no_gradient;
  model.eval();
  std::vector<Likelihood> results(requests.size(), {.greedy = true});
  LikelihoodScorer scorer(model);
  for (std::size_t number = 0; number < requests.size(); ++number) {
    const LikelihoodRequest& request = requests[number];
    SSA_CHECK(!request.context.empty(), "a context of at least one token is needed");
    scorer.add(number, request, max_positions);
    if (!scorer.full() && number + 1 < requests.size()) continue;
    scorer.forward(results);
    if (report)
      report(static_cast<std::int64_t>(number) + 1, static_cast<std::int64_t>(requests.size()));
  }
  for (const Likelihood& result : results) {
    if (!std::isfinite(result.log_probability)) {
      throw std::runtime_error(fmt::format("the log-likelihood of request {} is not finite",
                                           &result - results.data() + 1));
    }
  }
  return results;
}

}  // namespace ssa
