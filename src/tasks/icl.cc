#include "tasks/icl.h"

#include <torch/types.h>

#include <cmath>
#include <limits>

#include "ssa/check.h"

namespace ssa {
namespace {

// Word 0 of the counter: which draw of a sequence. Blocks of four points count up from 0.
constexpr std::uint32_t kPerSequence = 0x80000000;

/// The counter of one batch; word 0 and the sequence are still open.
struct Draws {
  std::uint64_t seed;
  std::uint32_t index;
  RandomStream stream;

  PhiloxWords counter(std::uint32_t draw, std::uint32_t sequence) const {
    return {draw, sequence, index, static_cast<std::uint32_t>(stream)};
  }
};

void check_spec(const IclSpec& spec) {
  SSA_CHECK(spec.points >= 1 && spec.points < kPerSequence,
            "icl: points = " << spec.points << " must be at least 1");
  SSA_CHECK(spec.sequences >= 1 && spec.sequences <= std::numeric_limits<std::uint32_t>::max(),
            "icl: sequences = " << spec.sequences << " must be at least 1");
  SSA_CHECK(spec.sigma_x > 0 && std::isfinite(spec.sigma_x),
            "icl: sigma_x = " << spec.sigma_x << " must be a number above 0");
  SSA_CHECK(spec.sigma_coefficients > 0 && std::isfinite(spec.sigma_coefficients),
            "icl: sigma_coefficients = " << spec.sigma_coefficients << " must be a number above 0");
  if (spec.planted) {
    SSA_CHECK(spec.planted->position >= 0 && spec.planted->position < spec.points,
              "icl: planted position " << spec.planted->position << " is outside of " << spec.points
                                       << " points");
    SSA_CHECK(std::isfinite(spec.planted->value), "icl: the planted value is not finite");
  }
}

/// Number of points before the answer flips, in [0, points]: points means never.
std::int64_t draw_flip(const PhiloxWords& words, std::int64_t points) {
  const std::uint32_t kind = words[0] >> 30;
  // One point has no position in between: the answer is constant, either way equally often.
  if (points == 1 || kind < 2) return kind % 2 == 0 ? points : 0;
  const auto between = static_cast<std::uint64_t>(points - 1);
  return 1 + static_cast<std::int64_t>((words[1] * between) >> 32);
}

/// One row of x at σ = 1: standard normal, its signs as the sampler wants them.
void draw_row(const IclSpec& spec, const Draws& draws, std::uint32_t sequence, double* x) {
  for (std::int64_t i = 0; i < spec.points; i += 4) {
    const auto four =
        normal_deviates(draws.seed, draws.counter(static_cast<std::uint32_t>(i / 4), sequence));
    for (std::int64_t j = i; j < std::min(i + 4, spec.points); ++j) x[j] = four[j - i];
  }
  if (spec.task == IclTask::linear || spec.sampler == IclSampler::plain) return;
  const std::int64_t flip =
      draw_flip(philox4x32(draws.seed, draws.counter(kPerSequence, sequence)), spec.points);
  const double sign_before = spec.task == IclTask::every ? 1 : -1;
  for (std::int64_t i = 0; i < flip; ++i) x[i] = std::copysign(x[i], sign_before);
  if (flip < spec.points) x[flip] = std::copysign(x[flip], -sign_before);
}

}  // namespace

IclTask icl_task(TaskName name) {
  switch (name) {
    case TaskName::icl_every:
      return IclTask::every;
    case TaskName::icl_some:
      return IclTask::some;
    case TaskName::icl_linear:
      return IclTask::linear;
    case TaskName::lm:
    case TaskName::mlm:
      break;
  }
  SSA_CHECK(false, "task " << name_of(name) << " is not one of numbers: icl-every, icl-some or "
                           << "icl-linear");
  return IclTask::linear;
}

torch::Tensor quantifier_answers(IclTask task, const torch::Tensor& x) {
  SSA_CHECK(task != IclTask::linear, "quantifier_answers: a linear function is no quantifier");
  const bool every = task == IclTask::every;
  // "some" is the negation of "every" for the negated predicate.
  const torch::Tensor as_asked = every ? x > 0 : x <= 0;
  const torch::Tensor all_so_far = as_asked.cumprod(1, x.scalar_type());
  return every ? 2 * all_so_far - 1 : 1 - 2 * all_so_far;
}

IclSequences make_icl_sequences(const IclSpec& spec, std::uint64_t seed, RandomStream stream,
                                std::int64_t index, std::int64_t slice) {
  check_spec(spec);
  SSA_CHECK(index >= 0 && index <= std::numeric_limits<std::uint32_t>::max(),
            "icl: index " << index << " is outside [0, 2^32)");
  constexpr std::int64_t kSequences = std::int64_t{1} << 32;
  SSA_CHECK(slice >= 0 && slice < kSequences / spec.sequences,
            "icl: slice " << slice << " of " << spec.sequences
                          << " sequences is outside the 2^32 sequences of a step");
  const std::int64_t first = slice * spec.sequences;
  const Draws draws{seed, static_cast<std::uint32_t>(index), stream};
  const bool linear = spec.task == IclTask::linear;

  IclSequences out;
  out.x = torch::empty({spec.sequences, spec.points});
  if (linear) {
    out.coefficients = torch::empty({spec.sequences, 2});
    out.y = torch::empty_like(out.x);
  }
  at::parallel_for(0, spec.sequences, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> row(spec.points);
    for (std::int64_t s = begin; s < end; ++s) {
      const auto sequence = static_cast<std::uint32_t>(first + s);
      float* x = out.x.mutable_data_ptr<float>() + s * spec.points;
      draw_row(spec, draws, sequence, row.data());
      for (std::int64_t i = 0; i < spec.points; ++i) {
        x[i] = static_cast<float>(spec.sigma_x * row[i]);
      }
      if (spec.planted) x[spec.planted->position] = static_cast<float>(spec.planted->value);
      if (!linear) continue;
      const auto drawn = normal_deviates(seed, draws.counter(kPerSequence, sequence));
      float* coefficients = out.coefficients.mutable_data_ptr<float>() + 2 * s;
      for (int c = 0; c < 2; ++c) {
        coefficients[c] = static_cast<float>(spec.sigma_coefficients * drawn[c]);
      }
      float* y = out.y.mutable_data_ptr<float>() + s * spec.points;
      for (std::int64_t i = 0; i < spec.points; ++i) {
        // The product of two floats is exact in double: one rounding, then one to float.
        y[i] = static_cast<float>(double{coefficients[0]} * x[i] + coefficients[1]);
      }
    }
  });
  if (!linear) out.y = quantifier_answers(spec.task, out.x);
  return out;
}

torch::Tensor icl_tokens(const torch::Tensor& x, const torch::Tensor& y) {
  return torch::stack({x, y}, 2).view({x.size(0), 2 * x.size(1), 1});
}

torch::Tensor icl_predictions(const torch::Tensor& output) {
  SSA_CHECK(output.dim() == 3 && output.size(1) % 2 == 0 && output.size(2) == 1,
            "icl: output of shape (sequences, 2 * points, 1) expected, not " << output.sizes());
  return output.view({output.size(0), output.size(1) / 2, 2}).select(2, 0);
}

}  // namespace ssa
