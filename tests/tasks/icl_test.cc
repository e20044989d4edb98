#include "tasks/icl.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <set>

namespace ssa {
namespace {

constexpr std::uint64_t kSeed = 5;

IclSequences draw(const IclSpec& spec, std::int64_t index = 0,
                  RandomStream stream = RandomStream::evaluation, std::uint64_t seed = kSeed,
                  std::int64_t slice = 0) {
  return make_icl_sequences(spec, seed, stream, index, slice);
}

bool same(const IclSequences& left, const IclSequences& right) {
  return torch::equal(left.x, right.x) && torch::equal(left.y, right.y);
}

/// y by the words of the definition.
torch::Tensor plain_answers(IclTask task, const torch::Tensor& x) {
  auto y = torch::empty_like(x);
  for (std::int64_t s = 0; s < x.size(0); ++s) {
    bool all = true, any = false;
    for (std::int64_t i = 0; i < x.size(1); ++i) {
      const bool positive = x[s][i].item<float>() > 0;
      all = all && positive;
      any = any || positive;
      y[s][i] = (task == IclTask::every ? all : any) ? 1.0F : -1.0F;
    }
  }
  return y;
}

TEST(IclSequences, AnswersFollowTheDefinition) {
  for (const IclTask task : {IclTask::every, IclTask::some}) {
    for (const IclSampler sampler : {IclSampler::balanced, IclSampler::plain}) {
      IclSpec spec{.task = task, .sampler = sampler, .points = 9, .sequences = 50};
      spec.planted = PlantedValue{4, -100.0};
      const auto drawn = draw(spec);
      EXPECT_TRUE(torch::equal(drawn.y, plain_answers(task, drawn.x)));
    }
    const auto edges =
        torch::tensor({{0.0F, 1.0F, -0.0F}, {1.0F, 0.0F, 1.0F}, {-1.0F, 0.0F, 1.0F}});
    EXPECT_TRUE(torch::equal(quantifier_answers(task, edges), plain_answers(task, edges)));
  }
}

TEST(IclSequences, LinearFunctionsAreLinear) {
  IclSpec spec{.task = IclTask::linear, .points = 13, .sequences = 40};
  spec.planted = PlantedValue{3, 1000.0};
  const auto drawn = draw(spec);
  const auto x = drawn.x.to(torch::kFloat64), c = drawn.coefficients.to(torch::kFloat64);
  EXPECT_TRUE(torch::equal(
      drawn.y,
      (c.select(1, 0).unsqueeze(1) * x + c.select(1, 1).unsqueeze(1)).to(torch::kFloat32)));
  EXPECT_FALSE(draw({}).coefficients.defined());
}

// Each share within five standard errors of what the sampler promises.
TEST(IclSequences, BalancedSharesArePromised) {
  constexpr std::int64_t kPoints = 11, kSequences = 40000;
  for (const IclTask task : {IclTask::every, IclTask::some}) {
    const auto drawn = draw({.task = task, .points = kPoints, .sequences = kSequences});
    // The answer before the flip: +1 for every, −1 for some.
    const auto before = task == IclTask::every ? drawn.y > 0 : drawn.y < 0;
    const auto flips = before.sum(1);  // number of points before the flip
    for (std::int64_t flip = 0; flip <= kPoints; ++flip) {
      const double wanted = flip == 0 || flip == kPoints ? 0.25 : 0.5 / (kPoints - 1);
      const double share = (flips == flip).to(torch::kFloat64).mean().item<double>();
      EXPECT_NEAR(share, wanted, 5 * std::sqrt(wanted * (1 - wanted) / kSequences)) << flip;
    }
    for (std::int64_t i = 0; i < kPoints; ++i) {
      const double wanted = 0.25 + 0.5 * (kPoints - 1 - i) / (kPoints - 1.0);
      const double share = before.select(1, i).to(torch::kFloat64).mean().item<double>();
      EXPECT_NEAR(share, wanted, 5 * std::sqrt(wanted * (1 - wanted) / kSequences)) << i;
    }
  }
}

TEST(IclSequences, BalancingTouchesSignsOnly) {
  IclSpec spec{.points = 20, .sequences = 500};
  const auto balanced = draw(spec);
  spec.sampler = IclSampler::plain;
  const auto plain = draw(spec);
  EXPECT_TRUE(torch::equal(balanced.x.abs(), plain.x.abs()));
  EXPECT_FALSE(torch::equal(balanced.x, plain.x));
  // After the flip nothing is touched at all.
  const auto flipped_earlier = torch::roll(balanced.y, 1, 1) < 0;
  flipped_earlier.select(1, 0).zero_();
  EXPECT_TRUE(torch::equal(balanced.x.masked_select(flipped_earlier),
                           plain.x.masked_select(flipped_earlier)));
}

TEST(IclSequences, PlainInputsAreStandardNormal) {
  const auto x = draw({.sampler = IclSampler::plain, .points = 41, .sequences = 5000})
                     .x.to(torch::kFloat64)
                     .flatten();
  const auto count = static_cast<double>(x.numel());
  EXPECT_NEAR(x.mean().item<double>(), 0, 5 / std::sqrt(count));
  EXPECT_NEAR(x.var().item<double>(), 1, 5 * std::sqrt(2 / count));
  // Half of N(0,1) lies within 0.6744898.
  EXPECT_NEAR((x.abs() < 0.6744898).to(torch::kFloat64).mean().item<double>(), 0.5,
              5 * 0.5 / std::sqrt(count));
  const auto drawn = draw({.task = IclTask::linear, .points = 2, .sequences = 20000});
  const auto c = drawn.coefficients.to(torch::kFloat64);
  EXPECT_NEAR(c.var().item<double>(), 1, 5 * std::sqrt(2 / 40000.0));
  EXPECT_NEAR((c.select(1, 0) * c.select(1, 1)).mean().item<double>(), 0, 5 / std::sqrt(20000.0));
}

TEST(IclSequences, AShiftChangesNothingElse) {
  for (const IclTask task : {IclTask::every, IclTask::some, IclTask::linear}) {
    const IclSpec spec{.task = task, .points = 12, .sequences = 30};
    const auto base = draw(spec);
    IclSpec scaled = spec;
    scaled.sigma_x = 4;  // a power of two, so that scaling is exact
    scaled.sigma_coefficients = 8;
    EXPECT_TRUE(torch::equal(draw(scaled).x, 4 * base.x));
    if (task == IclTask::linear) {
      EXPECT_TRUE(torch::equal(draw(scaled).coefficients, 8 * base.coefficients));
    } else {
      EXPECT_TRUE(torch::equal(draw(scaled).y, base.y));
    }
    IclSpec planted = spec;
    planted.planted = PlantedValue{5, 1000.0};
    const auto with_value = draw(planted);
    EXPECT_TRUE((with_value.x.select(1, 5) == 1000).all().item<bool>());
    auto restored = with_value.x.clone();
    restored.select(1, 5) = base.x.select(1, 5);
    EXPECT_TRUE(torch::equal(restored, base.x));
  }
}

TEST(IclSequences, LongerRowsBeginWithTheShorterOnes) {
  for (const IclTask task : {IclTask::every, IclTask::linear}) {
    IclSpec spec{.task = task, .sampler = IclSampler::plain, .points = 7, .sequences = 10};
    const auto shorter = draw(spec);
    spec.points = 30;
    spec.sequences = 20;
    const auto longer = draw(spec);
    EXPECT_TRUE(torch::equal(longer.x.narrow(0, 0, 10).narrow(1, 0, 7), shorter.x));
    EXPECT_TRUE(torch::equal(longer.y.narrow(0, 0, 10).narrow(1, 0, 7), shorter.y));
  }
}

TEST(IclSequences, ThreadCountDoesNotMatter) {
  const int threads = at::get_num_threads();
  const IclSpec spec{.points = 41, .sequences = 64};
  at::set_num_threads(1);
  const auto alone = draw(spec);
  at::set_num_threads(3);
  const auto together = draw(spec);
  at::set_num_threads(threads);
  EXPECT_TRUE(same(alone, together));
}

// Seed, stream, index, slice and sequence each give rows that no other has.
TEST(IclSequences, NoTwoDrawsShareNumbers) {
  const IclSpec spec{.sampler = IclSampler::plain, .points = 5, .sequences = 4};
  std::set<float> seen;
  std::size_t drawn = 0;
  for (const std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32}) {
    for (const RandomStream stream :
         {RandomStream::training, RandomStream::validation, RandomStream::evaluation}) {
      for (const std::int64_t index : {0, 1, 256, 65536}) {
        for (const std::int64_t slice : {0, 1, 2}) {
          const auto x = draw(spec, index, stream, seed, slice).x;
          seen.insert(x.data_ptr<float>(), x.data_ptr<float>() + x.numel());
          drawn += x.numel();
          EXPECT_TRUE(
              same(draw(spec, index, stream, seed, slice), draw(spec, index, stream, seed, slice)));
        }
      }
    }
  }
  // 2160 floats with 24 bits each: a chance collision of |x| to the last bit is rare, a shared row
  // would cost five.
  EXPECT_GT(seen.size(), drawn - 5);
}

TEST(IclSequences, SlicesOfAStepAreOneBatch) {
  const auto y_of = [](std::int64_t sequences, std::int64_t slice) {
    const IclSpec spec{.task = IclTask::linear, .points = 5, .sequences = sequences};
    return draw(spec, 7, RandomStream::training, 1, slice).y;
  };
  EXPECT_TRUE(torch::equal(y_of(6, 0), torch::cat({y_of(3, 0), y_of(3, 1)})));
}

TEST(IclSequences, TokensInterleaveAndPredictionsSitAtX) {
  const auto x = torch::tensor({{1.0F, 3.0F, 5.0F}}), y = torch::tensor({{2.0F, 4.0F, 6.0F}});
  const auto tokens = icl_tokens(x, y);
  EXPECT_TRUE(torch::equal(tokens, torch::arange(1, 7, torch::kFloat32).view({1, 6, 1})));
  EXPECT_TRUE(torch::equal(icl_predictions(tokens), x));
  EXPECT_THROW(icl_predictions(torch::zeros({1, 5, 1})), std::invalid_argument);
}

TEST(IclSequences, OnePointIsBalancedToo) {
  const auto y = draw({.points = 1, .sequences = 10000}).y;
  EXPECT_NEAR(y.mean().item<double>(), 0, 5 / std::sqrt(10000.0));
}

TEST(IclSequences, BadSpecsAreRefused) {
  const auto refused = [](IclSpec spec, std::int64_t index = 0, std::int64_t slice = 0) {
    EXPECT_THROW(make_icl_sequences(spec, 1, RandomStream::training, index, slice),
                 std::invalid_argument);
  };
  refused({.points = 0});
  refused({.sequences = 0});
  refused({.sigma_x = 0});
  refused({.sigma_x = -1});
  refused({.sigma_coefficients = std::nan("")});
  refused({.planted = PlantedValue{40, 1}});
  refused({.planted = PlantedValue{-1, 1}});
  refused({.planted = PlantedValue{0, INFINITY}});
  refused({}, -1);
  refused({}, std::int64_t{1} << 32);
  refused({.sequences = 4}, 0, std::int64_t{1} << 30);
  EXPECT_THROW(icl_task(TaskName::lm), std::invalid_argument);
}

}  // namespace
}  // namespace ssa
