#include "eval/icl_shift.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "eval/baselines.h"
#include "fake_model.h"

namespace ssa {
namespace {

/// A model whose answers are known: what it returns at the x positions is `answer` of its inputs.
class KnownModel : public test::FakeModel {
 public:
  using Answer = torch::Tensor (*)(const torch::Tensor& x, const torch::Tensor& y);
  explicit KnownModel(Answer answer) : answer_(answer) {}

  torch::Tensor forward(const ModelInput& input) override {
    const torch::Tensor& inputs = input.tokens;
    EXPECT_FALSE(torch::GradMode::is_enabled());
    EXPECT_EQ(inputs.dim(), 3);
    ++forwards;
    largest_batch = std::max(largest_batch, inputs.size(0) * inputs.size(1));
    const std::int64_t tokens = inputs.size(1);
    if (recording_) {
      // All on the token itself: a planted token gets its own query, of those from it on.
      records_ = {{torch::eye(tokens).expand({inputs.size(0), 2, tokens, tokens})}};
    }
    const torch::Tensor pairs = inputs.view({inputs.size(0), tokens / 2, 2}).to(torch::kDouble);
    const torch::Tensor answers = answer_(pairs.select(2, 0), pairs.select(2, 1));
    // What stands at the y positions must not matter.
    return torch::stack({answers, torch::full_like(answers, NAN)}, 2).view({-1, tokens, 1});
  }
  void record_attention(bool on) override { recording_ = on; }

  std::int64_t forwards = 0, largest_batch = 0;

 private:
  Answer answer_;
  bool recording_ = false;
};

IclShiftOptions small_options(std::int64_t sequences = 70) {
  IclShiftOptions options;
  options.sequences = sequences;
  return options;
}

torch::Tensor always_false(const torch::Tensor& x, const torch::Tensor&) {
  return torch::full_like(x, -1);
}
torch::Tensor every_so_far(const torch::Tensor& x, const torch::Tensor&) {
  return quantifier_answers(IclTask::every, x);
}

/// The model's figures must be those of the baseline of that name, in every shift.
void expect_same(const std::vector<IclShiftResult>& results, const std::string& baseline,
                 double tolerance) {
  for (const IclShiftResult& result : results) {
    const auto found = std::ranges::find(result.predictors, baseline, &PredictorFigures::predictor);
    ASSERT_NE(found, result.predictors.end());
    const auto& model = result.predictors.front();
    ASSERT_EQ(model.predictor, "model");
    ASSERT_EQ(model.figures.size(), found->figures.size());
    for (std::size_t f = 0; f < model.figures.size(); ++f) {
      EXPECT_EQ(model.figures[f].metric, found->figures[f].metric);
      EXPECT_EQ(model.figures[f].items, found->figures[f].items);
      EXPECT_NEAR(model.figures[f].mean, found->figures[f].mean,
                  tolerance * std::abs(found->figures[f].mean))
          << result.shift.name << " " << model.figures[f].metric;
    }
  }
}

TEST(IclShift, AConstantModelIsSeenToBeConstant) {
  // With plain N(0,1) inputs the constant −1 is the more frequent answer of `every` in each shift.
  IclShiftOptions options = small_options();
  options.sampler = IclSampler::plain;
  KnownModel model(always_false);
  const auto results = evaluate_icl_shifts(model, 512, IclTask::every, options);
  expect_same(results, "constant", 0);
  // It is right most of the time there, and the balanced sampler shows what that is worth.
  EXPECT_LT(results[0].predictors[0].figures[0].mean, 0.05);
  options.sampler = IclSampler::balanced;
  const auto balanced = evaluate_icl_shifts(model, 512, IclTask::every, options);
  EXPECT_GT(balanced[0].predictors[0].figures[0].mean, 0.35);
}

TEST(IclShift, APerfectModelIsNeverWrong) {
  KnownModel model(every_so_far);
  for (const auto& result : evaluate_icl_shifts(model, 512, IclTask::every, small_options())) {
    for (const Figure& figure : result.predictors[0].figures) {
      EXPECT_EQ(figure.mean, 0) << result.shift.name << " " << figure.metric;
      EXPECT_EQ(figure.standard_error, 0);
    }
  }
}

TEST(IclShift, APlantedValueIsSeenByTheModelAndAnswered) {
  // Wrong at the planted value and nowhere else.
  KnownModel model([](const torch::Tensor& x, const torch::Tensor& y) {
    return torch::where(x.abs() >= 10, -y, y).contiguous();
  });
  IclShiftOptions options = small_options();
  options.huge_position = 7;
  const auto results = evaluate_icl_shifts(model, 512, IclTask::some, options);
  std::int64_t planted = 0;
  for (const IclShiftResult& result : results) {
    if (result.shift.name != "huge") continue;
    ++planted;
    for (const Figure& figure : result.predictors[0].figures) {
      EXPECT_EQ(figure.mean, figure.metric.ends_with("-at") ? 1 : 0) << figure.metric;
      const std::int64_t positions = figure.metric == "wrong-before"  ? 6
                                     : figure.metric == "wrong-after" ? 33
                                                                      : 1;
      EXPECT_EQ(figure.items, positions * options.sequences) << figure.metric;
    }
    ASSERT_EQ(result.attention.size(), 2u);
    // Queries at and after point 7 are tokens 12 … 79; only the first attends to token 12.
    EXPECT_NEAR(result.attention[0].mass.value(), 1.0 / 68, 1e-12);
  }
  EXPECT_EQ(planted, 6);
}

TEST(IclShift, LeastSquaresAsAModelIsTheBaseline) {
  KnownModel model(least_squares);
  const auto results = evaluate_icl_shifts(model, 512, IclTask::linear, small_options());
  expect_same(results, "least-squares", 1e-12);
  KnownModel neighbours(
      [](const torch::Tensor& x, const torch::Tensor& y) { return nearest_neighbours(x, y, 3); });
  expect_same(evaluate_icl_shifts(neighbours, 512, IclTask::linear, small_options()), "3-nearest",
              1e-12);
}

TEST(IclShift, ShiftsScaleTheSameSequences) {
  KnownModel zero(
      [](const torch::Tensor& x, const torch::Tensor&) { return torch::zeros_like(x); });
  const auto results = evaluate_icl_shifts(zero, 512, IclTask::linear, small_options());
  double unshifted = 0;
  for (const IclShiftResult& result : results) {
    const Figure& squared = result.predictors[0].figures[0];
    if (result.shift.name == "none") unshifted = squared.mean;
    if (result.shift.name != "coefficients") continue;
    // y scales with σ of a and b: so does the error of answering 0, squared.
    const double sigma = result.shift.value[0];
    EXPECT_NEAR(squared.mean, sigma * sigma * unshifted, 1e-5 * squared.mean) << sigma;
    EXPECT_DOUBLE_EQ(result.predictors[0].figures[1].mean, 1) << "relative error of answering 0";
  }
  EXPECT_GT(unshifted, 0);
}

TEST(IclShift, EqualSettingsAreRunOnceAndBatchesStaySmall) {
  KnownModel model(least_squares);
  IclShiftOptions options = small_options(8);
  evaluate_icl_shifts(model, 512, IclTask::linear, options);
  std::set<std::string> settings;
  std::int64_t with_attention = 0;
  for (const IclShift& shift : icl_shifts(IclTask::linear, options)) {
    const IclSpec& spec = shift.spec;
    settings.insert(std::to_string(spec.points) + " " + std::to_string(spec.sigma_x) + " " +
                    std::to_string(spec.sigma_coefficients) + " " +
                    std::to_string(spec.planted ? spec.planted->value : 0));
    with_attention += shift.name == "none" || shift.name == "sigma" || shift.name == "huge";
  }
  EXPECT_EQ(settings.size(), 16u + 1 + 3 + 6);  // grid, σ = 40, lengths, planted values
  EXPECT_EQ(model.forwards, static_cast<std::int64_t>(settings.size()) + with_attention);
  options.sequences = 500;
  evaluate_icl_shifts(model, 512, IclTask::linear, options);
  EXPECT_LE(model.largest_batch, 8192);
}

TEST(IclShift, MoreSequencesKeepTheFirst) {
  const IclShiftOptions options = small_options(5);
  KnownModel model(always_false);
  const auto few = evaluate_icl_shifts(model, 512, IclTask::every, options);
  const auto again = evaluate_icl_shifts(model, 512, IclTask::every, options);
  EXPECT_EQ(to_json(IclTask::every, options, few).dump(),
            to_json(IclTask::every, options, again).dump());
  IclShiftOptions other = options;
  other.data_seed += 1;
  EXPECT_NE(to_json(IclTask::every, options, few).dump(),
            to_json(IclTask::every, options, evaluate_icl_shifts(model, 512, IclTask::every, other))
                .dump());
}

TEST(IclShift, LongerThanTheModelReadsIsSkippedAndSaid) {
  KnownModel model(every_so_far);
  const IclShiftOptions options = small_options(4);
  const auto results = evaluate_icl_shifts(model, 160, IclTask::every, options);
  const Json file = to_json(IclTask::every, options, results);
  ASSERT_EQ(file["skipped"].size(), 1u);
  EXPECT_EQ(file["skipped"][0]["shift"], "length");
  EXPECT_EQ(file["skipped"][0]["value"], 200);
  for (const Json& row : file["rows"]) EXPECT_NE(row["points"], 200);
  EXPECT_THROW(evaluate_icl_shifts(model, 78, IclTask::every, options), std::runtime_error);
}

TEST(IclShift, TheFileSaysWhatWasMeasured) {
  KnownModel model(least_squares);
  const IclShiftOptions options = small_options(3);
  const Json file =
      to_json(IclTask::linear, options, evaluate_icl_shifts(model, 512, IclTask::linear, options));
  EXPECT_EQ(file["sequences"], 3);
  EXPECT_EQ(file["data_seed"], 1234);
  EXPECT_TRUE(file["sampler"].is_null());
  EXPECT_TRUE(file["chance"].is_null());
  EXPECT_TRUE(file["majority"].is_null());
  EXPECT_EQ(file["sweep"]["sigma"], Json::array({1, 2, 5, 10, 40}));
  std::set<std::string> shifts, predictors, rows;
  for (const Json& row : file["rows"]) {
    shifts.insert(row["shift"]);
    predictors.insert(row["predictor"]);
    const bool new_row = rows.insert(row["shift"].dump() + row["value"].dump() +
                                     row["predictor"].dump() + row["metric"].dump())
                             .second;
    EXPECT_TRUE(new_row) << row.dump();
    if (row.contains("per_position")) {
      EXPECT_EQ(row["per_position"].size(), row["points"].get<std::size_t>());
    }
    EXPECT_EQ(row["value"].is_array(), row["shift"] == "grid");
  }
  EXPECT_EQ(shifts, (std::set<std::string>{"none", "length", "sigma", "huge", "coefficients",
                                           "both", "grid"}));
  EXPECT_EQ(predictors, (std::set<std::string>{"model", "least-squares", "3-nearest", "average"}));
  for (const Json& entry : file["attention"]) {
    EXPECT_EQ(entry.contains("mass_on_huge"), entry["shift"] == "huge");
  }

  const IclShiftOptions quantifier = small_options(200);
  KnownModel constant(always_false);
  const Json other = to_json(IclTask::every, quantifier,
                             evaluate_icl_shifts(constant, 512, IclTask::every, quantifier));
  EXPECT_EQ(other["sampler"], "balanced");
  EXPECT_EQ(other["chance"], 0.5);
  for (const Json& row : other["rows"]) {
    if (row["shift"] == "none" && row["predictor"] == "constant" && row["metric"] == "wrong") {
      EXPECT_EQ(other["majority"], row["mean"]);
    }
  }
}

TEST(IclShift, FullSweepHoldsThePapersValues) {
  const IclShiftOptions full = {.grid = ShiftGrid::full};
  const IclSweep quantifier = icl_sweep(IclTask::every, full);
  EXPECT_EQ(quantifier.lengths, (std::vector<std::int64_t>{41, 50, 80, 120, 200}));
  EXPECT_EQ(quantifier.sigmas.size(), 40u);
  EXPECT_EQ(quantifier.sigmas.back(), 40);
  const IclSweep linear = icl_sweep(IclTask::linear, full);
  EXPECT_EQ(linear.sigmas.size(), 10u);
  EXPECT_EQ(linear.coefficients.size(), 10u);
}

TEST(IclShift, GivenListsStandInThePlaceOfTheGrids) {
  const IclShiftOptions given = {.length = {50}, .huge = {7}};
  const IclSweep sweep = icl_sweep(IclTask::every, given);
  EXPECT_EQ(sweep.lengths, given.length);
  EXPECT_EQ(sweep.huge, given.huge);
  EXPECT_EQ(sweep.sigmas.size(), 5u);
}

TEST(IclShift, BadOptionsAreNamed) {
  const auto message = [](auto change) -> std::string {
    IclShiftOptions options = small_options();
    change(options);
    try {
      icl_shifts(IclTask::linear, options);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([](IclShiftOptions&) {}), "");
  const auto expect = [&](auto change, const std::string& said) {
    EXPECT_TRUE(message(change).find(said) != std::string::npos) << message(change);
  };
  expect([](auto& o) { o.sequences = 0; }, "evaluation.sequences = 0: expected an integer of at");
  expect([](auto& o) { o.data_seed = -1; }, "evaluation.data_seed = -1: expected an integer of at");
  expect([](auto& o) { o.huge_position = 41; }, "of at least 1 and of at most 40");
  expect(
      [](auto& o) {
        o.sigma = {1, -1};
      },
      "evaluation.sigma = [1.0,-1.0]: expected a list of finite numbers above 0");
  expect([](auto& o) { o.coefficients = {NAN}; }, "evaluation.coefficients");
  expect([](auto& o) { o.length = {0}; }, "evaluation.length = [0]: expected a list of integers");
  EXPECT_EQ(message([](auto& o) { o.huge = {0}; }), "--huge 0: must be a number other than 0");
  EXPECT_EQ(message([](auto& o) { o.huge = {5, -5, 5}; }), "--huge 5: stands twice");
}

}  // namespace
}  // namespace ssa
