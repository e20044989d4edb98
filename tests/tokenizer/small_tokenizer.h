// A tokenizer of 263 tokens, as the JSON of its file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tokenizer/byte_level.h"

namespace ssa {

/// <mask> 0, <s> 1, </s> 2, then the 256 bytes, then he 259, ll 260, Ġhe 261, Ġhell 262.
inline nlohmann::json small_tokenizer() {
  using Json = nlohmann::json;
  Json vocab = {{"<mask>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (const std::string& character : byte_characters()) vocab[character] = vocab.size();
  for (const char* token : {"he", "ll", "Ġhe", "Ġhell"}) vocab[token] = vocab.size();
  const auto added = [](int id, const char* content, bool lstrip) {
    return Json{{"id", id},         {"content", content}, {"single_word", false},
                {"lstrip", lstrip}, {"rstrip", false},    {"normalized", false},
                {"special", true}};
  };
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", {added(0, "<mask>", true), added(1, "<s>", false), added(2, "</s>", false)}},
      {"normalizer", {{"type", "Lowercase"}}},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}}},
      {"post_processor",
       {{"type", "RobertaProcessing"},
        {"sep", {"</s>", 2}},
        {"cls", {"<s>", 1}},
        {"trim_offsets", true},
        {"add_prefix_space", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"fuse_unk", false},
        {"vocab", vocab},
        {"merges", {"h e", "l l", "Ġ he", "Ġhe ll"}}}}};
}

}  // namespace ssa
