#include "tasks/icl_errors.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ssa {
namespace {

/// Positions [first, last) under the name that its metrics end in.
struct Part {
  std::string suffix;
  std::int64_t first, last;
};

std::vector<Part> parts(std::int64_t first, std::int64_t points,
                        std::optional<std::int64_t> planted) {
  std::vector<Part> found;
  if (planted) {
    TORCH_CHECK(*planted >= 0 && *planted < points, "planted position ", *planted,
                " is outside of the ", points, " points");
    found = {{"-before", first, *planted},
             {"-at", std::max(first, *planted), *planted + 1},
             {"-after", std::max(first, *planted + 1), points}};
  } else {
    found = {{"", first, points}};
  }
  std::erase_if(found, [](const Part& part) { return part.first >= part.last; });
  return found;
}

/// Standard error of the mean of `values` (sequences), double.
double standard_error(const torch::Tensor& values) {
  const auto count = static_cast<double>(values.size(0));
  if (count < 2) return std::numeric_limits<double>::quiet_NaN();
  return values.std(/*unbiased=*/true).item<double>() / std::sqrt(count);
}

std::vector<double> position_means(const torch::Tensor& errors) {
  const torch::Tensor means = errors.mean(0).contiguous();
  return {means.data_ptr<double>(), means.data_ptr<double>() + means.size(0)};
}

/// How many of `errors` (0 or 1) are 1.
std::int64_t count_of(const torch::Tensor& errors) {
  return std::llround(errors.sum().item<double>());
}

/// Mean of `errors` (sequences, points) over a part.
Figure mean_error(const std::string& name, const torch::Tensor& errors, const Part& part) {
  const torch::Tensor inside = errors.slice(1, part.first, part.last);
  const torch::Tensor by_sequence = inside.mean(1);
  Figure figure{name + part.suffix,
                by_sequence.mean().item<double>(),
                standard_error(by_sequence),
                inside.numel(),
                {},
                {}};
  // The curve belongs to the part that looks ahead: of a planted sequence it says what came after.
  if (part.suffix.empty() || part.suffix == "-after") figure.per_position = position_means(errors);
  return figure;
}

/// Σ errors / Σ scale over a part. Standard error of a ratio of two means to first order (delta
/// method): that of the mean of errors_k − ratio·scale_k, divided by the mean of scale_k.
Figure relative_error(const std::string& name, const torch::Tensor& errors,
                      const torch::Tensor& scale, const Part& part) {
  const torch::Tensor inside = errors.slice(1, part.first, part.last);
  const torch::Tensor error_k = inside.mean(1);
  const torch::Tensor scale_k = scale.slice(1, part.first, part.last).mean(1);
  const double mean_scale = scale_k.mean().item<double>();
  const double ratio = error_k.mean().item<double>() / mean_scale;
  return {name + part.suffix, ratio, standard_error(error_k - ratio * scale_k) / mean_scale,
          inside.numel(),     {},    {}};
}

void check_shapes(const torch::Tensor& predictions, const torch::Tensor& targets) {
  TORCH_CHECK(
      predictions.dim() == 2 && predictions.sizes() == targets.sizes() && predictions.numel() > 0,
      "predictions and targets must have one shape (sequences, points), not ", predictions.sizes(),
      " and ", targets.sizes());
}

}  // namespace

std::vector<Figure> quantifier_figures(const torch::Tensor& predictions,
                                       const torch::Tensor& targets,
                                       std::optional<std::int64_t> planted) {
  check_shapes(predictions, targets);
  const torch::Tensor wrong =
      (predictions.sign() * targets <= 0).logical_or(predictions.isnan()).to(torch::kDouble);
  std::vector<Figure> figures;
  for (const Part& part : parts(0, targets.size(1), planted)) {
    figures.push_back(mean_error("wrong", wrong, part));
    figures.back().wrong = count_of(wrong.slice(1, part.first, part.last));
    const torch::Tensor any = wrong.slice(1, part.first, part.last).amax(1);
    figures.push_back({"sequence-wrong" + part.suffix,
                       any.mean().item<double>(),
                       standard_error(any),
                       any.size(0),
                       count_of(any),
                       {}});
  }
  return figures;
}

std::vector<Figure> linear_figures(const torch::Tensor& predictions, const torch::Tensor& targets,
                                   std::optional<std::int64_t> planted) {
  check_shapes(predictions, targets);
  constexpr std::int64_t kFirstDetermined = 2;
  const torch::Tensor y = targets.to(torch::kDouble);
  const torch::Tensor squared = (predictions.to(torch::kDouble) - y).square();
  std::vector<Figure> figures;
  for (const Part& part : parts(kFirstDetermined, y.size(1), planted)) {
    figures.push_back(mean_error("squared-error", squared, part));
    figures.push_back(relative_error("relative-error", squared, y.square(), part));
  }
  return figures;
}

}  // namespace ssa
