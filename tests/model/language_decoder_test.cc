#include "model/language_decoder.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "model/autocast.h"
#include "model/cross_entropy.h"
#include "model/key_value_cache.h"
#include "model/model.h"

namespace ssa {
namespace {

ModelConfig tiny_language_decoder(const std::string& preset, const std::string& score = "ssa") {
  return make_config({{"model", "preset", preset, "test"}, {"model", "score", score, "test"}},
                     "test")
      .model;
}

torch::Tensor some_ids(std::vector<std::int64_t> shape, std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  return torch::randint(256, shape, torch::kLong);
}

std::string error_of(Model& model, const ModelInput& input) {
  try {
    model.forward(input);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

class Decoders : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Presets, Decoders,
                         testing::Values("gpt2-tiny", "nemotron-tiny", "llama-tiny"));

TEST_P(Decoders, WithTheCacheEveryScoreGivesWhatItGivesWithout) {
  for (const ScoreInfo& score : scores()) {
    ModelConfig config = tiny_language_decoder(GetParam(), std::string(score.name));
    config.init_std = 0.3;  // so that attention matters
    const auto model = make_model(config, 1);
    model->to(torch::kFloat64);
    model->eval();
    const torch::NoGradGuard no_grad;
    const auto ids = some_ids({2, 20});
    const auto all = model->forward(ids);
    // Single tokens and pieces, the second sequence some steps behind the first.
    KeyValueCache first(config.layers, 20), second(config.layers, 20);
    std::vector<torch::Tensor> of_first, of_second;
    for (const auto& [one, two] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 0}, {7, 4}, {1, 1}, {1, 9}, {10, 0}, {0, 6}}) {
      const std::int64_t at = first.length(), behind = second.length();
      const auto tokens = torch::cat({ids[0].narrow(0, at, one), ids[1].narrow(0, behind, two)});
      const auto out = model->forward(
          {tokens, torch::tensor({std::int64_t{0}, one, one + two}), {}, {&first, &second}});
      of_first.push_back(out.narrow(0, 0, one));
      of_second.push_back(out.narrow(0, one, two));
      EXPECT_EQ(first.length(), at + one);
      EXPECT_EQ(second.length(), behind + two);
    }
    const auto found = torch::stack({torch::cat(of_first), torch::cat(of_second)});
    EXPECT_LT((found - all).abs().max().item<double>(), 1e-10) << score.name;
  }
}

TEST_P(Decoders, TheCacheRefusesMoreThanItHolds) {
  const ModelConfig config = tiny_language_decoder(GetParam());
  const auto model = make_model(config, 1);
  KeyValueCache cache(config.layers, 5);
  const auto six = torch::tensor({0, 6}, torch::kLong);
  EXPECT_EQ(error_of(*model, {some_ids({6}), six, {}, {&cache}}),
            "model: 6 tokens, but the key/value cache has room for 5");
  EXPECT_EQ(error_of(*model, {some_ids({6}), six, {}, {&cache, &cache}}),
            "model: 2 key/value caches for 1 packed sequences");
  EXPECT_EQ(error_of(*model, {some_ids({1, 6}), {}, {}, {&cache}}),
            "model: a key/value cache goes with packed sequences");
}

TEST_P(Decoders, LossesAreThoseOfTheLogits) {
  const ModelConfig config = tiny_language_decoder(GetParam());
  const auto model = make_model(config, 1);
  const auto ids = some_ids({3, 11}), targets = some_ids({33}, 2);
  const auto losses = model->losses(model->hidden(ids), targets);
  const auto expected = torch::cross_entropy_loss(model->forward(ids).flatten(0, 1), targets, {},
                                                  at::Reduction::None);
  EXPECT_TRUE(torch::allclose(losses, expected, 1e-5, 1e-6));
}

TEST_P(Decoders, WantedTokensAreRowsOfAll) {
  const auto model = make_model(tiny_language_decoder(GetParam()), 1);
  const auto ids = some_ids({2, 9});
  const auto wanted = torch::tensor({0, 17, 4, 4}, torch::kLong);
  EXPECT_TRUE(torch::allclose(model->forward({ids, {}, wanted}),
                              model->forward(ids).flatten(0, 1).index_select(0, wanted), 1e-5,
                              1e-6));
}

TEST_P(Decoders, RecomputingBlocksChangesNothingWithDropoutAndInBfloat16) {
  for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
    ModelConfig config = tiny_language_decoder(GetParam());
    config.dropout = 0.2;
    const auto run = [&](bool recompute) {
      const auto model = make_model(config, 1);
      model->train();
      model->recompute_blocks(recompute);
      const auto ids = some_ids({2, 16}), targets = some_ids({32}, 2);
      torch::manual_seed(3);
      torch::Tensor loss;
      {
        const Autocast autocast(precision, torch::kCPU);
        loss = model->losses(model->hidden(ids), targets).mean();
      }
      loss.backward();
      std::vector<torch::Tensor> out = {loss.detach(), torch::rand({1})};  // and the generator
      for (const auto& parameter : model->named_parameters()) {
        EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
        out.push_back(parameter.value().grad());
      }
      return out;
    };
    const auto kept = run(false), recomputed = run(true);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_TRUE(torch::equal(kept[i], recomputed[i])) << name_of(precision) << " " << i;
    }
  }
}

TEST_P(Decoders, RefuseWhatTheyCannotRead) {
  const auto model = make_model(tiny_language_decoder(GetParam()), 1);
  EXPECT_EQ(error_of(*model, some_ids({1, 64})), "");
  EXPECT_EQ(error_of(*model, some_ids({1, 65})),
            "model: a sequence of 65 tokens, but model.max_positions = 64");
  EXPECT_EQ(error_of(*model, torch::full({1, 3}, 256, torch::kLong)),
            "model: token id 256 at [0, 0], but model.vocabulary = 256");
  EXPECT_EQ(error_of(*model, torch::zeros({1, 3})), "model: token ids must be int64, not Float");
  EXPECT_EQ(error_of(*model, some_ids({3})),
            "model: token ids of shape (batch, tokens) expected, or (tokens) with cu_lengths, not "
            "[3]");
  EXPECT_EQ(error_of(*model, {some_ids({3}), torch::tensor({0, 2}, torch::kLong)}),
            "model: cu_lengths must rise from 0 to the number of tokens, 3, but go from 0 to 2");
  const auto error_with = [&](const torch::Tensor& targets) -> std::string {
    try {
      model->losses(model->hidden(some_ids({1, 3})), targets);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_with(torch::tensor({1, 2}, torch::kLong)),
            "model: targets must be int64, one for each of 3 tokens, not Long of shape [2]");
  EXPECT_EQ(error_with(torch::tensor({1, 2, -1}, torch::kLong)),
            "model: target -1 at [2], but model.vocabulary = 256");
}

TEST(LinearCrossEntropy, EqualsTheLossOfAllLogitsOverSeveralPieces) {
  const std::int64_t rows = 600, width = 8, vocabulary = 37;  // three pieces of 256
  const auto options = torch::TensorOptions(torch::kFloat64);
  torch::manual_seed(1);
  const auto hidden = torch::randn({rows, width}, options).requires_grad_();
  const auto table = torch::randn({vocabulary, width}, options).requires_grad_();
  const auto targets = torch::randint(vocabulary, {rows}, torch::kLong);
  const auto expected =
      torch::cross_entropy_loss(torch::mm(hidden, table.t()), targets, {}, at::Reduction::None);
  const auto ours = linear_cross_entropy(hidden, table, targets);
  EXPECT_TRUE(torch::allclose(ours, expected, 1e-12, 1e-12));
  const auto wanted = torch::autograd::grad({expected.mean() * 3}, {hidden, table});
  const auto found = torch::autograd::grad({ours.mean() * 3}, {hidden, table}, {}, true);
  EXPECT_THROW(torch::autograd::grad({ours.sum()}, {hidden, table}), std::exception);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(torch::allclose(found[i], wanted[i], 1e-10, 1e-14)) << i;
  }
}

TEST(LinearCrossEntropy, RefusesGradientsThatDifferFromRowToRow) {
  const auto hidden = torch::randn({3, 4}).requires_grad_();
  const auto losses =
      linear_cross_entropy(hidden, torch::randn({5, 4}), torch::zeros(3, torch::kLong));
  EXPECT_THROW((losses * torch::arange(3)).sum().backward(), std::exception);
}

TEST(LinearCrossEntropy, UnderAutocastOnlyTheProductsAreNarrow) {
  torch::manual_seed(1);
  const auto hidden = torch::randn({20, 64}).requires_grad_();
  const auto table = torch::randn({300, 64}).requires_grad_();
  const auto targets = torch::randint(300, {20}, torch::kLong);
  const auto exact = linear_cross_entropy(hidden, table, targets);
  torch::Tensor narrow;
  {
    const Autocast autocast(Precision::bfloat16, torch::kCPU);
    narrow = linear_cross_entropy(hidden, table, targets);
  }
  EXPECT_EQ(narrow.scalar_type(), torch::kFloat32);
  const double error = (narrow - exact).abs().max().item<double>();
  EXPECT_GT(error, 0.0);
  EXPECT_LT(error, 0.25);  // logits are about ±8 and above, rounded to 2^-9 of them
  const auto wanted = torch::autograd::grad({exact.sum()}, {hidden, table});
  const auto found = torch::autograd::grad({narrow.sum()}, {hidden, table});
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(found[i].scalar_type(), torch::kFloat32);
    const auto scale = wanted[i].abs().max().item<double>();
    EXPECT_LT((found[i] - wanted[i]).abs().max().item<double>(), 0.05 * scale) << i;
  }
}

ModelConfig rotary(double share, const Settings& more = {}) {
  Settings settings = {{"model", "preset", "llama-tiny", "test"},
                       {"model", "rotary_share", share, "test"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return make_config(settings, "test").model;  // heads of 8 dimensions
}

TEST(Rotary, TurnsOnlyItsShareOfAHead) {
  const Rotation rotation =
      Rotary(rotary(0.5)).at(torch::tensor({3, 4}, torch::kLong), torch::kFloat32);
  const auto heads = torch::randn({1, 2, 1, 8});
  const auto turned = rotate(heads, rotation);
  EXPECT_TRUE(torch::equal(turned.narrow(-1, 4, 4), heads.narrow(-1, 4, 4)));
  EXPECT_FALSE(torch::equal(turned.narrow(-1, 0, 4), heads.narrow(-1, 0, 4)));
}

TEST(Rotary, LinearScalingIsThePositionDivided) {
  const auto linear = rotary(1.0, {{"model", "rotary_scaling", "linear", "test"},
                                   {"model", "rotary_factor", 4.0, "test"}});
  const auto at = [](const ModelConfig& config, std::int64_t position) {
    return Rotary(config).at(torch::tensor({position}, torch::kLong), torch::kFloat64);
  };
  EXPECT_TRUE(torch::allclose(at(linear, 12).sine, at(rotary(1.0), 3).sine, 1e-12, 1e-12));
}

}  // namespace
}  // namespace ssa
