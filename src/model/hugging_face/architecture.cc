#include "model/hugging_face/architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/hugging_face/fields.h"

namespace ssa {
namespace {

/// Fields of any config.json that change nothing of what a model computes: what tools note, what
/// generation does by default, how results are returned, and heads that this program has not.
constexpr std::string_view kWithoutEffect[] = {"_name_or_path",
                                               "_model_name_or_path",
                                               "_attn_implementation_autoset",
                                               "architectures",
                                               "bad_words_ids",
                                               "begin_suppress_tokens",
                                               "bos_token_id",
                                               "chunk_size_feed_forward",
                                               "classifier_dropout",
                                               "cls_token_id",
                                               "decoder_start_token_id",
                                               "diversity_penalty",
                                               "do_sample",
                                               "dtype",
                                               "early_stopping",
                                               "encoder_no_repeat_ngram_size",
                                               "eos_token_id",
                                               "exponential_decay_length_penalty",
                                               "finetuning_task",
                                               "forced_bos_token_id",
                                               "forced_eos_token_id",
                                               "gradient_checkpointing",
                                               "id2label",
                                               "keys_to_ignore_at_inference",
                                               "label2id",
                                               "length_penalty",
                                               "mask_token_id",
                                               "max_length",
                                               "min_length",
                                               "model_type",
                                               "no_repeat_ngram_size",
                                               "num_beam_groups",
                                               "num_beams",
                                               "num_labels",
                                               "num_return_sequences",
                                               "output_attentions",
                                               "output_hidden_states",
                                               "output_past",
                                               "output_scores",
                                               "prefix",
                                               "problem_type",
                                               "remove_invalid_values",
                                               "repetition_penalty",
                                               "return_dict",
                                               "return_dict_in_generate",
                                               "sep_token_id",
                                               "suppress_tokens",
                                               "task_specific_params",
                                               "temperature",
                                               "tokenizer_class",
                                               "top_k",
                                               "top_p",
                                               "torch_dtype",
                                               "torchscript",
                                               "transformers.js_config",
                                               "transformers_version",
                                               "typical_p",
                                               "unk_token_id",
                                               "use_bfloat16",
                                               "use_cache"};

/// Ways of computing something else that any config.json may ask for.
void refuse_other_models(const ConfigReader& in) {
  in.require("is_encoder_decoder", false);
  in.require("is_decoder", false);
  in.require("add_cross_attention", false);
  in.require("tie_encoder_decoder", false);
  in.require("pruned_heads", Json::object());
  if (in.has("quantization_config")) {
    in.fail(
        "quantization_config: quantized weights are not supported, only float32, float16 and "
        "bfloat16 ones");
  }
  if (in.has("auto_map")) {
    in.fail(
        "auto_map: a model with code of its own is not supported, only classes of transformers");
  }
}

std::string known_types() {
  std::vector<std::string_view> types;
  for (const Architecture& one : architectures()) {
    for (const auto& [type, prefix] : one.types) types.push_back(type);
  }
  return fmt::format("{}", fmt::join(types, ", "));
}

/// A type that is supported and the most like one that is not.
std::string_view nearest_type(const std::string& type) {
  const auto has = [&](std::string_view part) { return type.find(part) != type.npos; };
  if (has("roberta")) return "roberta";
  if (has("bert") || has("electra")) return "bert";
  if (has("gpt") || has("opt") || has("bloom")) return "gpt2";
  return "llama";
}

const Architecture& architecture_named(const ConfigReader& in, const std::string& type) {
  for (const Architecture& one : architectures()) {
    for (const auto& [known, prefix] : one.types) {
      if (known != type) continue;
      // Whatever head its class has, the weights' names will show.
      for (const std::string& name : in.texts("architectures")) {
        if (name.starts_with(prefix)) continue;
        in.fail(fmt::format("architectures has \"{}\", which is no {}", name, prefix));
      }
      return one;
    }
  }
  in.fail(fmt::format("model_type = \"{}\" is not supported, only {}; the nearest is {}", type,
                      known_types(), nearest_type(type)));
}

}  // namespace

std::span<const Architecture> architectures() {
  static const std::vector<Architecture> list = {gpt2_architecture(), nemotron_architecture(),
                                                 llama_architecture(), roberta_architecture(),
                                                 bert_architecture()};
  return list;
}

const Architecture* architecture_of(Family family) {
  const auto all = architectures();
  const auto found = std::ranges::find(all, family, &Architecture::family);
  return found == all.end() ? nullptr : &*found;
}

NamedWeights names_in_files(const NamedWeights& weights, const ModelConfig& model) {
  const Architecture* architecture = architecture_of(model.family);
  if (architecture == nullptr) return weights;
  const auto& parts = architecture->query_key_value;
  return renamed(parts.empty() ? weights : with_torch_linears(weights, model, parts),
                 architecture->names);
}

HuggingFaceConfig hugging_face_config(const ModelConfig& model) {
  const Architecture* architecture = architecture_of(model.family);
  if (architecture == nullptr) return {nullptr, "its models read no numbers"};
  // The model knows no ids of beginning and end; Hugging Face's defaults would be other tokens.
  Json config = {{"vocab_size", model.vocabulary},
                 {"bos_token_id", nullptr},
                 {"eos_token_id", nullptr},
                 {"initializer_range", model.init_std},
                 {"tie_word_embeddings", model.tied}};
  write_score(model, config);
  std::string why_not = first_failed({{model.mlp, "its blocks all have an MLP"},
                                      {model.residual, "its blocks all have residuals"}});
  if (why_not.empty()) why_not = architecture->write(model, config);
  if (!why_not.empty()) return {nullptr, why_not};
  return {config, ""};
}

ModelConfig read_hugging_face_config(const std::filesystem::path& file, const Json& config) {
  const ConfigReader in(file.string(), config);
  const std::string type = in.text("model_type");
  const Architecture& architecture = architecture_named(in, type);
  refuse_other_models(in);
  ModelConfig model = architecture.read(in, type);
  model.family = architecture.family;
  model.input = InputKind::tokens;
  model.vocabulary = in.whole("vocab_size");
  model.tied = in.truth("tie_word_embeddings", architecture.tied);
  model.init_std = in.number("initializer_range", 0.02);
  read_score(in, model);
  in.without_effect(kWithoutEffect);
  in.refuse_unknown();
  return model;
}

}  // namespace ssa
