#include "model/encoder.h"

#include <gtest/gtest.h>
#include <torch/nn/utils/rnn.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "model/hugging_face/architecture.h"

namespace ssa {
namespace {

ModelConfig tiny_encoder(const std::string& score = "ssa") {
  return make_config({{"model", "preset", "babyberta-tiny", "test"}, {"model", "score", score, ""}},
                     "test")
      .model;
}

/// A model whose every weight matters, in evaluation mode.
std::shared_ptr<Model> lively_model(ModelConfig config) {
  config.init_std = 0.3;
  const auto model = make_model(config, 3);
  model->eval();
  return model;
}

/// Sentences of token ids 2 … 127, without padding.
std::vector<torch::Tensor> sentences(const std::vector<std::int64_t>& lengths) {
  torch::manual_seed(5);
  std::vector<torch::Tensor> out;
  for (const std::int64_t length : lengths) {
    out.push_back(torch::randint(2, 128, {length}, torch::kLong));
  }
  return out;
}

torch::Tensor padded(const std::vector<torch::Tensor>& rows) {
  return torch::nn::utils::rnn::pad_sequence(rows, /*batch_first=*/true, /*padding_value=*/1);
}

ModelInput packed(const std::vector<torch::Tensor>& rows) {
  std::vector<std::int64_t> cu = {0};
  for (const auto& row : rows) cu.push_back(cu.back() + row.size(0));
  return {torch::cat(rows), torch::tensor(cu, torch::kLong)};
}

struct EncoderResults {
  torch::Tensor logits;  ///< of all tokens but padding, (tokens, vocabulary)
  std::map<std::string, torch::Tensor> gradients;
};

/// Logits, and gradients of a sum of them in which each has its own weight.
EncoderResults results_of(Model& model, const ModelInput& input) {
  for (torch::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
  const torch::Tensor real = input.tokens.flatten() != 1;
  const torch::Tensor logits = model.forward(input).flatten(0, -2).index({real});
  torch::manual_seed(7);
  (logits * torch::randn(logits.sizes(), torch::kFloat64).to(logits.scalar_type()))
      .sum()
      .backward();
  EncoderResults out{logits.detach(), {}};
  for (const auto& parameter : model.named_parameters()) {
    out.gradients[parameter.key()] = parameter.value().grad().clone();
  }
  return out;
}

double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs().max().item<double>();
}

double largest(const torch::Tensor& a) { return a.abs().max().item<double>(); }

std::string refusal(Model& model, const ModelInput& input) {
  try {
    model.forward(input);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Encoder, PackedSequencesGiveWhatPaddedOnesDo) {
  const auto rows = sentences({7, 1, 32, 12, 5});
  for (const char* score : {"softmax", "ssa", "sparsemax"}) {
    const auto model = lively_model(tiny_encoder(score));
    const auto loose = results_of(*model, padded(rows)), dense = results_of(*model, packed(rows));
    model->to(torch::kFloat64);
    const auto truth = results_of(*model, padded(rows)), exact = results_of(*model, packed(rows));
    // In float64 the two may differ by rounding, which a wrong position or key exceeds by far.
    EXPECT_LE(distance(exact.logits, truth.logits), 1e-10 * largest(truth.logits)) << score;
    const auto check = [&](const torch::Tensor& ours, const torch::Tensor& theirs,
                           const torch::Tensor& wanted, double times, const std::string& name) {
      const double floor = 4 * std::numeric_limits<float>::epsilon() * largest(wanted);
      EXPECT_LE(distance(ours, wanted), times * distance(theirs, wanted) + floor)
          << score << ' ' << name;
    };
    check(dense.logits, loose.logits, truth.logits, 2, "logits");
    for (const auto& [name, wanted] : truth.gradients) {
      EXPECT_LE(distance(exact.gradients.at(name), wanted), 1e-10 * std::max(1.0, largest(wanted)))
          << score << ' ' << name;
    }
  }
}

TEST(Encoder, ASequencesLogitsDoNotDependOnItsNeighbours) {
  const auto model = lively_model(tiny_encoder());
  model->to(torch::kFloat64);
  const auto rows = sentences({9, 30});
  const auto alone = model->forward(rows[0].unsqueeze(0))[0];
  const auto beside = model->forward(padded(rows))[0].narrow(0, 0, 9);
  EXPECT_LE(distance(alone, beside), 1e-12 * largest(alone));
  auto changed = rows[0].clone();
  changed[8].fill_(changed[8].item<std::int64_t>() == 5 ? 6 : 5);  // every token sees every other
  EXPECT_GT(distance(model->forward(changed.unsqueeze(0))[0][0], alone[0]), 1e-3);
}

TEST(Encoder, WantedTokensAreThoseOfAllTokens) {
  const auto model = lively_model(tiny_encoder());
  model->to(torch::kFloat64);
  const auto rows = sentences({4, 6});
  const auto wanted = torch::tensor({7, 0, 7}, torch::kLong);
  for (ModelInput input : {ModelInput(padded(rows)), packed(rows)}) {
    const auto all = model->forward(input).flatten(0, -2);
    input.wanted = wanted;
    EXPECT_LE(distance(model->forward(input), all.index_select(0, wanted)), 1e-12 * largest(all));
  }
  ModelInput beyond = packed(rows);
  beyond.wanted = torch::tensor({0, 10}, torch::kLong);
  EXPECT_EQ(refusal(*model, beyond),
            "model: wanted token 10 at [1], but the number of tokens = 10");
  beyond.wanted = torch::tensor({0.5});
  EXPECT_NE(refusal(*model, beyond).find("wanted must be int64"), std::string::npos);
}

TEST(Encoder, RefusesWhatItCannotRead) {
  const auto model = make_model(tiny_encoder(), 1);
  const auto ids = [](std::vector<std::int64_t> values) {
    return torch::tensor(values, torch::kLong);
  };
  EXPECT_EQ(refusal(*model, torch::full({2, 32}, 5, torch::kLong)), "");
  EXPECT_EQ(refusal(*model, torch::full({2, 33}, 5, torch::kLong)),
            "model: a sequence of 33 tokens, but model.max_positions = 32");
  EXPECT_EQ(refusal(*model, padded({torch::full({32}, 5, torch::kLong), ids({5})})), "");
  EXPECT_EQ(refusal(*model, {torch::full({33}, 5, torch::kLong), ids({0, 33})}),
            "model: a sequence of 33 tokens, but model.max_positions = 32");
  EXPECT_EQ(refusal(*model, {torch::full({34}, 5, torch::kLong), ids({0, 2, 34})}), "");
  EXPECT_EQ(refusal(*model, ids({5, 128, 5}).unsqueeze(0)),
            "model: token id 128 at [0, 1], but model.vocabulary = 128");
  EXPECT_EQ(refusal(*model, {ids({5, 6, -3}), ids({0, 3})}),
            "model: token id -3 at [2], but model.vocabulary = 128");
  EXPECT_EQ(refusal(*model, ids({5, 6, 1, 7, 1}).unsqueeze(0)),
            "model: padding (token id 1) at [0, 2], before the end of its sequence");
  EXPECT_EQ(refusal(*model, {ids({5, 1}), ids({0, 2})}),
            "model: padding (token id 1) at [1] of packed sequences, which have none");
  EXPECT_EQ(refusal(*model, {ids({5, 6}), ids({0, 3})}),
            "model: cu_lengths must rise from 0 to the number of tokens, 2, but go from 0 to 3");
  EXPECT_EQ(refusal(*model, {ids({5, 6}), ids({0, 2, 1, 2})}),
            "model: cu_lengths must rise from 0 to the number of tokens, 2, but go from 0 to 2 and "
            "fall in between");
  EXPECT_NE(refusal(*model, {ids({5, 6}), torch::tensor({0.0, 2.0})}).find("int64"),
            std::string::npos);
  EXPECT_NE(refusal(*model, ids({5, 6})).find("(batch, tokens)"), std::string::npos);
  EXPECT_NE(refusal(*model, torch::zeros({1, 3})).find("must be int64"), std::string::npos);
}

TEST(Encoder, ReadsBatchesWithoutTokens) {
  const auto model = lively_model(tiny_encoder());
  EXPECT_EQ(model->forward(torch::zeros({0, 4}, torch::kLong)).sizes(),
            (std::vector<std::int64_t>{0, 4, 128}));
  const auto empty = torch::zeros({0}, torch::kLong);
  EXPECT_EQ(model->forward({empty, torch::zeros({1}, torch::kLong)}).sizes(),
            (std::vector<std::int64_t>{0, 128}));
  // A sequence without tokens changes nothing for the others.
  const auto rows = sentences({3, 4});
  const auto between = packed({rows[0], empty, rows[1]});
  EXPECT_TRUE(torch::equal(model->forward(between), model->forward(packed(rows))));
}

TEST(Encoder, RecordsTheSameAttentionOfPackedAndPaddedSequences) {
  const auto model = lively_model(tiny_encoder());
  const auto rows = sentences({3, 8});
  std::vector<torch::Tensor> seen;
  model->record_attention(true);
  for (const ModelInput& input : {ModelInput(padded(rows)), packed(rows)}) {
    model->forward(input);
    ASSERT_EQ(model->attention_records().size(), 2U);
    const torch::Tensor weights = model->attention_records()[1].weights;
    ASSERT_EQ(weights.sizes(), (std::vector<std::int64_t>{2, 2, 8, 8}));
    EXPECT_EQ(largest(weights[0].slice(2, 3)), 0);  // padding is not seen
    seen.push_back(weights);
  }
  EXPECT_TRUE(torch::allclose(seen[0][1], seen[1][1], 0, 1e-5));
  EXPECT_TRUE(torch::allclose(seen[0][0].slice(1, 0, 3), seen[1][0].slice(1, 0, 3), 0, 1e-5));
}

TEST(Encoder, InitialWeightsAreBertsAndTheSameForEveryScore) {
  std::map<std::string, torch::Tensor> softmax;
  for (const auto& [name, weight] : make_model(tiny_encoder("softmax"), 7)->named_weights()) {
    softmax[name] = weight;
    const auto values = weight.detach().to(torch::kFloat64);
    if (name.find("orm.weight") != name.npos) {
      EXPECT_TRUE((values == 1).all().item<bool>()) << name;
    } else if (values.dim() == 1) {
      EXPECT_EQ(largest(values), 0) << name;
    } else {
      // Five standard errors of the standard deviation, σ/√(2N), and the row of padding, which is
      // 0.
      const auto count = static_cast<double>(values.numel());
      EXPECT_NEAR(values.std().item<double>(), 0.02, 0.02 * (5 / std::sqrt(2 * count) + 0.03))
          << name;
    }
  }
  for (const char* table : {"word", "position"}) {
    const auto name = "roberta.embeddings." + std::string(table) + "_embeddings.weight";
    EXPECT_EQ(largest(softmax.at(name)[1]), 0) << name;
    EXPECT_GT(largest(softmax.at(name)[2]), 0) << name;
  }
  std::size_t compared = 0;
  for (const auto& [name, weight] : make_model(tiny_encoder("ssa"), 7)->named_weights()) {
    if (name.find(".score_") != name.npos) continue;
    EXPECT_TRUE(torch::equal(weight, softmax.at(name))) << name;
    ++compared;
  }
  EXPECT_EQ(compared, softmax.size());
}

TEST(Encoder, NamedWeightsShareTheParametersStorage) {
  const auto model = make_model(tiny_encoder(), 1);
  model->eval();
  {
    const torch::NoGradGuard no_grad;
    for (auto& [name, weight] : model->named_weights()) {
      // Views: one of the three parts of c_attn, and a transposed matrix.
      if (name == "roberta.encoder.layer.0.attention.self.key.weight") weight.fill_(2.5);
      if (name == "lm_head.dense.weight") weight.zero_();
      if (name == "lm_head.bias") weight.fill_(3.0);
    }
  }
  const auto parameters = model->named_parameters();
  const torch::Tensor& c_attn = parameters["h.0.attn.c_attn.weight"];
  EXPECT_TRUE((c_attn.slice(1, 32, 64) == 2.5).all().item<bool>());
  EXPECT_FALSE((c_attn.slice(1, 0, 32) == 2.5).any().item<bool>());
  EXPECT_TRUE(torch::equal(model->forward(torch::full({1, 4}, 5, torch::kLong)),
                           torch::full({1, 4, 128}, 3.0)));
}

TEST(Encoder, WeightDecayActsOnMatricesAndEmbeddingsAlone) {
  const auto model = make_model(tiny_encoder(), 1);
  for (const char* name : {"wte.weight", "h.0.attn.c_attn.weight", "lm_head.dense.weight"}) {
    EXPECT_TRUE(model->decays(name)) << name;
  }
  for (const char* name : {"ln_e.weight", "h.0.ln_1.bias", "lm_head.bias",
                           "lm_head.layer_norm.weight", "h.0.attn.score_n", "h.1.mlp.c_fc.bias"}) {
    EXPECT_FALSE(model->decays(name)) << name;
  }
}

TEST(Encoder, DropoutActsInTrainingOnlyAndFollowsTheGlobalGenerator) {
  const auto model = make_model(tiny_encoder(), 1);  // the preset's dropout of 0.1
  const auto input = padded(sentences({8, 5}));
  const auto with_seed = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    return model->forward(input);
  };
  model->train();
  EXPECT_TRUE(torch::equal(with_seed(1), with_seed(1)));
  EXPECT_FALSE(torch::equal(with_seed(1), with_seed(2)));
  model->eval();
  EXPECT_TRUE(torch::equal(with_seed(1), with_seed(2)));
}

TEST(Encoder, IsHuggingFacesOnlyWhereThatComputesTheSame) {
  const Json softmax = hugging_face_config(tiny_encoder("softmax")).config;
  EXPECT_EQ(softmax["model_type"], "roberta");
  EXPECT_FALSE(softmax.contains("attn_implementation"));
  EXPECT_EQ(hugging_face_config(tiny_encoder("ssa")).config["attn_implementation"], "ssa");
  ModelConfig causal = tiny_encoder("softmax");
  causal.causal = true;
  EXPECT_TRUE(hugging_face_config(causal).config.is_null());
  EXPECT_EQ(hugging_face_config(causal).why_not, "RobertaForMaskedLM is not causal");
}

TEST(Encoder, BabyBertaHasItsSize) {
  const auto config =
      make_config({{"model", "preset", "babyberta", "test"}, {"model", "score", "softmax", ""}},
                  "test")
          .model;
  const auto model = make_model(config, 1);
  std::int64_t count = 0;
  for (const auto& parameter : model->parameters()) count += parameter.numel();
  // 8192·256 tokens, 130·256 positions, 2·256 types, 8 blocks of 12·256² + 13·256, the head's
  // 256² + 256 + 8192, and norms of 2·256.
  EXPECT_EQ(count, 8192 * 256 + 130 * 256 + 2 * 256 + 8 * (12 * 256 * 256 + 13 * 256) + 256 * 256 +
                       256 + 8192 + 2 * 2 * 256);
  EXPECT_EQ(hugging_face_config(config).config["max_position_embeddings"], 130);
}

}  // namespace
}  // namespace ssa
