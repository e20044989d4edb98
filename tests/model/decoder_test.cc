#include "model/model.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <map>

#include "model/rotary.h"

namespace ssa {
namespace {

ModelConfig tiny_decoder(const std::string& score = "ssa") {
  ModelConfig config;
  config.layers = 2;
  config.heads = 4;
  config.width = 16;
  config.max_positions = 32;
  config.score = score;
  return config;
}

std::map<std::string, torch::Tensor> weights_of(const ModelConfig& config, std::uint64_t seed) {
  std::map<std::string, torch::Tensor> out;
  for (const auto& [name, tensor] : make_model(config, seed)->named_weights()) out[name] = tensor;
  return out;
}

bool is_score_parameter(const std::string& name) { return name.find(".score_") != name.npos; }

TEST(InitialWeights, AreTheSameForEveryScoreAndWhateverElseTheModelHas) {
  const auto expected = weights_of(tiny_decoder("softmax"), 7);
  std::vector<ModelConfig> others;
  for (const ScoreInfo& score : scores()) others.push_back(tiny_decoder(std::string(score.name)));
  others.push_back(tiny_decoder());
  others.back().mlp = false;
  others.push_back(tiny_decoder());
  others.back().positions = Positions::rope;
  for (const ModelConfig& config : others) {
    std::size_t compared = 0;
    for (const auto& [name, tensor] : weights_of(config, 7)) {
      if (is_score_parameter(name)) continue;
      EXPECT_TRUE(torch::equal(tensor, expected.at(name))) << name;
      ++compared;
    }
    EXPECT_GT(compared, 10U);
  }
}

TEST(InitialWeights, DependOnTheSeedAloneAndLeaveTheGlobalGeneratorAlone) {
  torch::manual_seed(1);
  const auto first = weights_of(tiny_decoder(), 7);
  const auto after_model = torch::rand({4});
  torch::manual_seed(1);
  EXPECT_TRUE(torch::equal(after_model, torch::rand({4})));
  const auto again = weights_of(tiny_decoder(), 7);  // the global generator stands elsewhere now
  const auto other = weights_of(tiny_decoder(), 8);
  for (const auto& [name, tensor] : first) {
    EXPECT_TRUE(torch::equal(tensor, again.at(name))) << name;
    if (tensor.dim() == 2) {
      EXPECT_FALSE(torch::equal(tensor, other.at(name))) << name;
    }
  }
}

TEST(InitialWeights, HaveGpt2sDistributions) {
  ModelConfig config = tiny_decoder();
  config.width = 128;
  config.layers = 3;
  config.max_positions = 512;
  const double to_residual = 1 / std::sqrt(2.0 * 3);
  for (const auto& [name, tensor] : weights_of(config, 3)) {
    const auto values = tensor.to(torch::kFloat64);
    if (name.find("ln_") != name.npos) {
      EXPECT_TRUE((values == (name.ends_with(".weight") ? 1.0 : 0.0)).all().item<bool>()) << name;
    } else if (name.starts_with("read_")) {
      const double bound = name.starts_with("read_in") ? 1.0 : 1 / std::sqrt(128.0);
      EXPECT_LT(values.abs().max().item<double>(), bound) << name;
      if (values.numel() > 1) {
        EXPECT_GT(values.abs().max().item<double>(), 0.9 * bound) << name;
      }
    } else if (values.dim() == 2) {
      const double wanted = 0.02 * (name.ends_with("c_proj.weight") ? to_residual : 1.0);
      const auto count = static_cast<double>(values.numel());
      // Five standard errors: of the mean σ/√N, of the standard deviation σ/√(2N).
      EXPECT_NEAR(values.mean().item<double>(), 0.0, 5 * wanted / std::sqrt(count)) << name;
      EXPECT_NEAR(values.std().item<double>(), wanted, 5 * wanted / std::sqrt(2 * count)) << name;
    } else if (!is_score_parameter(name)) {
      EXPECT_TRUE((values == 0).all().item<bool>()) << name;
    }
  }
}

TEST(InitialWeights, WithoutResidualTheProjectionsAreNotScaledDown) {
  ModelConfig config = tiny_decoder();
  config.residual = false;
  const auto plain = weights_of(config, 7), scaled = weights_of(tiny_decoder(), 7);
  for (const char* name : {"h.0.attn.c_proj.weight", "h.1.mlp.c_proj.weight"}) {
    EXPECT_TRUE(torch::allclose(plain.at(name) / std::sqrt(2.0 * 2), scaled.at(name), 1e-6, 0));
  }
}

TEST(Decoder, LaterTokensDoNotReachEarlierOutputs) {
  for (const char* positions : {"learned", "rope", "none"}) {
    ModelConfig config = tiny_decoder();
    config.positions = choice_named<Positions>("positions", positions);
    const auto model = make_model(config, 1);
    auto inputs = torch::randn({2, 9, 1});
    const auto before = model->forward(inputs);
    inputs = inputs.clone();
    inputs.narrow(1, 5, 4).fill_(100.0);
    const auto after = model->forward(inputs);
    EXPECT_TRUE(torch::equal(before.narrow(1, 0, 5), after.narrow(1, 0, 5))) << positions;
    EXPECT_FALSE(torch::equal(before, after)) << positions;
  }
}

TEST(Decoder, ReadsPositionsOnlyWhereItHasThem) {
  // One attention layer without positions sees a set: permuting the past changes nothing.
  for (const char* positions : {"learned", "rope", "none"}) {
    ModelConfig config = tiny_decoder();
    config.layers = 1;
    config.positions = choice_named<Positions>("positions", positions);
    config.init_std = 0.5;
    const auto model = make_model(config, 1);
    model->to(torch::kFloat64);
    const auto inputs = torch::randn({1, 6, 1}, torch::kFloat64);
    const auto permuted = inputs.index_select(1, torch::tensor({3, 1, 4, 0, 2, 5}));
    const double change =
        (model->forward(inputs) - model->forward(permuted)).select(1, 5).abs().item<double>();
    if (std::string(positions) == "none") {
      EXPECT_LT(change, 1e-12);
    } else {
      EXPECT_GT(change, 1e-6) << positions;
    }
  }
}

TEST(Decoder, RefusesWhatItCannotRead) {
  const auto model = make_model(tiny_decoder(), 1);
  EXPECT_NO_THROW(model->forward(torch::zeros({1, 32, 1})));
  try {
    model->forward(torch::zeros({1, 33, 1}));
    FAIL() << "33 tokens fit into 32 positions";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("33 tokens"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("max_positions = 32"), std::string::npos);
  }
  EXPECT_THROW(model->forward(torch::zeros({1, 3})), std::invalid_argument);
  EXPECT_THROW(model->forward(torch::zeros({1, 3, 2})), std::invalid_argument);
}

TEST(Decoder, RecordsAttentionOfEveryLayerOnlyWhileAsked) {
  const auto model = make_model(tiny_decoder(), 1);
  const auto inputs = torch::randn({3, 7, 1});
  const auto plain = model->forward(inputs);
  EXPECT_TRUE(model->attention_records().empty());
  model->record_attention(true);
  for (int pass = 0; pass < 2; ++pass) {  // records are of the last pass, they do not pile up
    EXPECT_TRUE(torch::equal(model->forward(inputs), plain));
    ASSERT_EQ(model->attention_records().size(), 2U);
  }
  for (const AttentionRecord& record : model->attention_records()) {
    EXPECT_EQ(record.weights.sizes(), (std::vector<std::int64_t>{3, 4, 7, 7}));
    EXPECT_FALSE(record.weights.requires_grad());
    EXPECT_TRUE(torch::allclose(record.weights.sum(-1), torch::ones({3, 4, 7}), 0, 1e-6));
    EXPECT_EQ(record.weights.triu(1).abs().max().item<float>(), 0.0F);
  }
  model->record_attention(false);
  model->forward(inputs);
  EXPECT_TRUE(model->attention_records().empty());
}

TEST(Decoder, WeightDecayActsOnMatricesAlone) {
  const auto model = make_model(tiny_decoder(), 1);
  EXPECT_TRUE(model->decays("h.0.attn.c_attn.weight"));
  EXPECT_TRUE(model->decays("h.1.mlp.c_proj.weight"));
  for (const char* name : {"h.0.attn.c_attn.bias", "h.0.ln_1.weight", "ln_f.bias",
                           "h.0.attn.score_n", "h.0.attn.score_b", "read_in.bias"}) {
    EXPECT_FALSE(model->decays(name)) << name;
  }
  EXPECT_THROW(model->decays("h.9.attn.c_attn.weight"), std::invalid_argument);
}

TEST(Decoder, NamedWeightsShareTheParametersStorage) {
  const auto model = make_model(tiny_decoder(), 1);
  const auto inputs = torch::randn({1, 4, 1});
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : model->named_weights()) {
    if (name == "read_out.weight") tensor.zero_();
    if (name == "read_out.bias") tensor.fill_(3.0);
  }
  EXPECT_TRUE(torch::equal(model->forward(inputs), torch::full({1, 4, 1}, 3.0)));
}

TEST(Decoder, OptionsLeaveOutTheirParameters) {
  ModelConfig config = tiny_decoder();
  config.mlp = false;
  config.norm = NormKind::none;
  config.positions = Positions::none;
  for (const auto& [name, tensor] : make_model(config, 1)->named_weights()) {
    EXPECT_TRUE(name.find("mlp") == name.npos && name.find("ln_") == name.npos &&
                name.find("wpe") == name.npos)
        << name;
  }
}

TEST(Decoder, DropoutActsInTrainingOnlyAndFollowsTheGlobalGenerator) {
  ModelConfig config = tiny_decoder();
  config.dropout = 0.3;
  const auto model = make_model(config, 1);
  const auto inputs = torch::randn({2, 8, 1});
  const auto with_seed = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    return model->forward(inputs);
  };
  model->train();
  EXPECT_TRUE(torch::equal(with_seed(1), with_seed(1)));
  EXPECT_FALSE(torch::equal(with_seed(1), with_seed(2)));
  model->eval();
  EXPECT_TRUE(torch::equal(with_seed(1), with_seed(2)));
  EXPECT_TRUE(torch::equal(make_model(tiny_decoder(), 1)->forward(inputs), model->forward(inputs)));
}

TEST(Rotary, ScoresDependOnDistanceAlone) {
  ModelConfig config = tiny_decoder();
  config.width = config.heads * 8;
  const Rotation table = Rotary(config).at(torch::arange(40), torch::kFloat64);
  const auto vectors = torch::randn({2, 8}, torch::kFloat64);
  const auto turned = [&](int which, std::int64_t position) {
    const auto everywhere = vectors[which].expand({1, 40, 1, 8});
    return rotate(everywhere, table)[0][position][0];
  };
  for (const std::int64_t distance : {0, 1, 7}) {
    const double near = turned(0, 5).dot(turned(1, 5 + distance)).item<double>();
    const double far = turned(0, 30).dot(turned(1, 30 + distance)).item<double>();
    EXPECT_NEAR(near, far, 1e-12);
  }
  EXPECT_TRUE(torch::equal(turned(0, 0), vectors[0]));
  EXPECT_NEAR(turned(0, 17).norm().item<double>(), vectors[0].norm().item<double>(), 1e-12);
}

}  // namespace
}  // namespace ssa
