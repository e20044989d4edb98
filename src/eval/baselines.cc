#include "eval/baselines.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace ssa {
namespace {

using Row = std::span<const double>;

/// predict(x, y, out) for each sequence.
template <class Predict>
torch::Tensor for_each_sequence(const torch::Tensor& x, const torch::Tensor& y, Predict&& predict) {
  TORCH_CHECK(x.dim() == 2 && x.sizes() == y.sizes() && x.scalar_type() == torch::kDouble &&
                  y.scalar_type() == torch::kDouble,
              "baselines take x and y of one shape (sequences, points) in double, not ", x.sizes(),
              " ", x.scalar_type(), " and ", y.sizes(), " ", y.scalar_type());
  const torch::Tensor from_x = x.contiguous(), from_y = y.contiguous();
  torch::Tensor out = torch::empty_like(from_x);
  const auto points = static_cast<std::size_t>(x.size(1));
  for (std::int64_t k = 0; k < x.size(0); ++k) {
    const std::int64_t start = k * x.size(1);
    predict(Row{from_x.data_ptr<double>() + start, points},
            Row{from_y.data_ptr<double>() + start, points},
            std::span{out.data_ptr<double>() + start, points});
  }
  return out;
}

/// Means and centred moments of the pairs seen so far, updated as Welford does: sums of squares
/// would lose the digits that one x of 1000 among N(0,1) needs.
struct RunningLine {
  double count = 0, mean_x = 0, mean_y = 0, xx = 0, xy = 0;

  void add(double x, double y) {
    count += 1;
    const double from_mean = x - mean_x;
    mean_x += from_mean / count;
    mean_y += (y - mean_y) / count;
    xx += from_mean * (x - mean_x);
    xy += from_mean * (y - mean_y);
  }
  double predict(double x) const {
    if (xx > 0) return mean_y + xy / xx * (x - mean_x);
    // One x so far: the smallest (a, b) with a·mean_x + b = mean_y. Without pairs mean_y is 0.
    return mean_y * (mean_x * x + 1) / (mean_x * mean_x + 1);
  }
};

}  // namespace

torch::Tensor constant_answer(const torch::Tensor& y) {
  return torch::full_like(y, y.sum().item<double>() >= 0 ? 1.0 : -1.0);
}

torch::Tensor answer_by_position(const torch::Tensor& y) {
  return torch::where(y.sum(0, true) >= 0, 1.0, -1.0).to(y.scalar_type()).expand_as(y);
}

torch::Tensor least_squares(const torch::Tensor& x, const torch::Tensor& y) {
  return for_each_sequence(x, y, [](Row x, Row y, std::span<double> out) {
    RunningLine line;
    for (std::size_t i = 0; i < x.size(); ++i) {
      out[i] = line.predict(x[i]);
      line.add(x[i], y[i]);
    }
  });
}

torch::Tensor nearest_neighbours(const torch::Tensor& x, const torch::Tensor& y,
                                 std::int64_t count) {
  TORCH_CHECK(count >= 1, "nearest_neighbours: count must be at least 1, not ", count);
  return for_each_sequence(x, y, [count](Row x, Row y, std::span<double> out) {
    std::vector<std::pair<double, std::size_t>> nearest;  // (distance, pair), ascending
    for (std::size_t i = 0; i < x.size(); ++i) {
      nearest.clear();
      for (std::size_t j = 0; j < i; ++j) {
        const std::pair candidate{std::abs(x[j] - x[i]), j};
        const bool full = nearest.size() == static_cast<std::size_t>(count);
        if (full && !(candidate < nearest.back())) continue;
        if (full) nearest.pop_back();
        nearest.insert(std::upper_bound(nearest.begin(), nearest.end(), candidate), candidate);
      }
      double sum = 0;
      for (const auto& [distance, j] : nearest) sum += y[j];
      out[i] = nearest.empty() ? 0.0 : sum / static_cast<double>(nearest.size());
    }
  });
}

torch::Tensor averaging(const torch::Tensor& x, const torch::Tensor& y) {
  return for_each_sequence(x, y, [](Row x, Row y, std::span<double> out) {
    double xy = 0, sum_y = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      out[i] = i == 0 ? 0.0 : (xy * x[i] + sum_y) / static_cast<double>(i);
      xy += x[i] * y[i];
      sum_y += y[i];
    }
  });
}

std::vector<Baseline> baselines(bool linear, const torch::Tensor& x, const torch::Tensor& y) {
  if (!linear) return {{"constant", constant_answer(y)}, {"position", answer_by_position(y)}};
  return {{"least-squares", least_squares(x, y)},
          {"3-nearest", nearest_neighbours(x, y, 3)},
          {"average", averaging(x, y)}};
}

}  // namespace ssa
