// Times products of few rows (ssa/few_rows.h) against torch.mm and torch.nn.functional.linear, with
// the weights of the paper's 114 M decoder, on one thread:
//
//     ninja -C build/release bench_few_rows && build/release/bin/bench_few_rows [ROUNDS
//     [MEGABYTES]]
//
// Weights come from memory: each call has another copy of them, MEGABYTES together. A round times
// each way once, in turn, in seconds of this process's CPU; ratios are taken within a round, and
// their median is shown with the least and the largest. "reading" is torch.sum over as many bytes.
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "ssa/few_rows.h"

namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Way {
  std::string name;
  std::function<void(const torch::Tensor& weight)> call;
  bool narrow;  ///< takes the bfloat16 copy
  std::vector<double> seconds;
};

void compare(bool is_table, std::int64_t count, std::int64_t inputs, std::int64_t outputs,
             int rounds, double bytes) {
  const auto copies = std::max<std::int64_t>(1, std::llround(bytes / 4 / (inputs * outputs)));
  std::vector<torch::Tensor> weights, halves;
  for (std::int64_t c = 0; c < copies; ++c) {
    weights.push_back(
        torch::randn(is_table ? std::vector{outputs, inputs} : std::vector{inputs, outputs}));
    halves.push_back(weights.back().to(torch::kBFloat16));
  }
  const torch::Tensor rows = torch::randn({count, inputs}), out = torch::empty({count, outputs});
  const auto ours = [&](const auto* weight) {
    const auto call = [&](auto&&... all) {
      is_table ? ssa::few_rows_product_with_table(all...) : ssa::few_rows_product(all...);
    };
    call(rows.const_data_ptr<float>(), count, weight, inputs, outputs, nullptr,
         out.mutable_data_ptr<float>(), ssa::serial());
  };
  std::vector<Way> ways = {
      {"torch float32",
       [&](const auto& w) { is_table ? torch::linear(rows, w) : torch::mm(rows, w); },
       false,
       {}},
      {"ours float32", [&](const auto& w) { ours(w.template const_data_ptr<float>()); }, false, {}},
      {"ours bfloat16",
       [&](const auto& w) { ours(static_cast<const ssa::BFloat16*>(w.const_data_ptr())); },
       true,
       {}},
      {"reading float32", [](const auto& w) { w.sum(); }, false, {}}};
  for (int round = 0; round <= rounds; ++round) {  // the first one fills caches
    for (Way& way : ways) {
      const double start = cpu_seconds();
      for (const torch::Tensor& weight : way.narrow ? halves : weights) way.call(weight);
      if (round > 0) {
        way.seconds.push_back((cpu_seconds() - start) / static_cast<double>(copies));
      }
    }
  }
  for (const Way& way : ways) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < way.seconds.size(); ++i) {
      ratios.push_back(way.seconds[i] / ways[0].seconds[i]);
    }
    const auto [least, largest] = std::ranges::minmax(ratios);
    const double rate =
        static_cast<double>(inputs * outputs) * (way.narrow ? 2 : 4) / median(way.seconds);
    std::printf("| %lld · %lld x %lld%s | %s | %.2f | %.2f (%.2f–%.2f) | %.1f |\n",
                static_cast<long long>(count), static_cast<long long>(inputs),
                static_cast<long long>(outputs), is_table ? ", table" : "", way.name.c_str(),
                1e3 * median(way.seconds), median(ratios), least, largest, rate / 1e9);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 9;
  const double bytes = 1e6 * (count > 2 ? std::atof(arguments[2]) : 150);
  if (rounds < 1 || bytes <= 0) {
    std::fprintf(stderr, "bench_few_rows: ROUNDS and MEGABYTES must be more than 0\n");
    return 2;
  }
  torch::set_num_threads(1);
  torch::manual_seed(0);
  const torch::NoGradGuard no_gradient;
  std::printf("| rows · weights | way | ms | ratio to torch | GB/s of weights |\n");
  std::printf("|---|---|---|---|---|\n");
  for (const std::int64_t rows : {1, 2, 4, 8, 16}) {
    compare(false, rows, 768, 3072, rounds, bytes);
    compare(false, rows, 3072, 768, rounds, bytes);
    compare(true, rows, 768, bytes < 1e8 ? 1000 : 50257, rounds, bytes);
  }
  return 0;
}
