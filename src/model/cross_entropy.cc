#include "model/cross_entropy.h"

#include <ATen/autocast_mode.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>

#include "model/autocast.h"
#include "model/device.h"
#include "model/product.h"
#include "model/token_input.h"
#include "ssa/check.h"

namespace ssa {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kRowsAtATime = 512;  // logits of 50 257 ids: 51 MB in bfloat16
constexpr std::int64_t kRowsInCache = 16;   // of those in float32: 3.2 MB

struct Result {
  torch::Tensor losses;
  torch::Tensor d_hidden, d_embeddings;  ///< of the sum of the losses; undefined if not asked for
};

/// Writes the losses and, if asked, in place of the logits the gradients of their sum: softmax,
/// less 1 at the target. On the CPU a few rows at a time, which the caches hold from one operation
/// to the next.
void softmax_losses(const torch::Tensor& logits, const torch::Tensor& targets,
                    const torch::Tensor& losses, bool with_gradients) {
  const std::int64_t at_a_time = logits.is_cpu() ? kRowsInCache : kRowsAtATime;
  for (std::int64_t begin = 0; begin < logits.size(0); begin += at_a_time) {
    const std::int64_t count = std::min(at_a_time, logits.size(0) - begin);
    const torch::Tensor some = logits.narrow(0, begin, count);
    const torch::Tensor target = targets.narrow(0, begin, count).unsqueeze(1);
    torch::Tensor logarithms = torch::log_softmax(some.to(losses.scalar_type()), 1);
    losses.narrow(0, begin, count).copy_(-logarithms.gather(1, target).squeeze(1));
    if (!with_gradients) continue;
    torch::Tensor gradient = logarithms.exp_();
    gradient.scatter_add_(1, target, torch::full_like(target, -1, gradient.options()));
    some.copy_(gradient);
  }
}

Result cross_entropy(const torch::Tensor& hidden, const torch::Tensor& embeddings,
                     const torch::Tensor& targets, bool with_gradients) {
  const bool narrow = autocast_precision(hidden.device()) == Precision::bfloat16;
  const auto type = hidden.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  // What follows says its types itself.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const torch::Tensor rows = narrow ? rounded_factor(hidden) : hidden;
  const torch::Tensor table =
      narrow ? rounded_factor(embeddings) : embeddings.to(hidden.scalar_type());

  Result result;
  result.losses = torch::empty({hidden.size(0)}, hidden.options().dtype(type));
  if (with_gradients) {
    result.d_hidden = torch::empty_like(hidden);
    result.d_embeddings = torch::zeros_like(embeddings);
  }
  for (std::int64_t begin = 0; begin < hidden.size(0); begin += kRowsAtATime) {
    const std::int64_t count = std::min(kRowsAtATime, hidden.size(0) - begin);
    const torch::Tensor part = rows.narrow(0, begin, count);
    const torch::Tensor logits = torch::mm(part, table.t());
    softmax_losses(logits, targets.narrow(0, begin, count), result.losses.narrow(0, begin, count),
                   with_gradients);
    if (!with_gradients) continue;
    result.d_hidden.narrow(0, begin, count).copy_(torch::mm(logits, table));
    if (table.scalar_type() == embeddings.scalar_type()) {
      result.d_embeddings.addmm_(logits.t(), part);
    } else {
      result.d_embeddings.add_(torch::mm(logits.t(), part));
    }
  }
  return result;
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& hidden,
                               const torch::Tensor& embeddings, const torch::Tensor& targets,
                               bool with_gradients) {
    const Result result = cross_entropy(hidden, embeddings, targets, with_gradients);
    context->save_for_backward({result.d_hidden, result.d_embeddings});
    context->saved_data["used"] = false;
    return result.losses;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::Tensor& rows = gradients[0];
    variable_list saved = context->get_saved_variables();
    if (rows.numel() == 0) return {saved[0], saved[1], {}, {}};  // zeros as they are
    const torch::Tensor same = (rows == rows[0]).all();
    // Other devices are not asked, for that would wait for them: there such gradients are NaN.
    SSA_CHECK(!rows.is_cpu() || same.item<bool>(),
              "linear_cross_entropy: its rows can be summed or averaged only, but their gradients "
              "differ");
    const torch::Tensor scale =
        rows.is_cpu() ? rows[0]
                      : rows[0].masked_fill(~same, std::numeric_limits<float>::quiet_NaN());
    // In place, for the embeddings' is the largest tensor of a step: 154 MB at 50 257 ids of width
    // 768.
    SSA_CHECK(!context->saved_data["used"].toBool(),
              "linear_cross_entropy: its backward pass can run once");
    context->saved_data["used"] = true;
    return {saved[0].mul_(scale), saved[1].mul_(scale), {}, {}};
  }
};

}  // namespace

torch::Tensor linear_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& embeddings,
                                   const torch::Tensor& targets) {
  SSA_CHECK(targets.dim() == 1 && targets.scalar_type() == torch::kLong &&
                targets.size(0) == hidden.size(0),
            "model: targets must be int64, one for each of "
                << hidden.size(0) << " tokens, not " << targets.scalar_type() << " of shape "
                << targets.sizes());
  check_range("target", targets, embeddings.size(0), "model.vocabulary");
  const bool with_gradients =
      torch::GradMode::is_enabled() && (hidden.requires_grad() || embeddings.requires_grad());
  return LinearCrossEntropy::apply(hidden, embeddings, on_device(targets, hidden.device()),
                                   with_gradients);
}

}  // namespace ssa
