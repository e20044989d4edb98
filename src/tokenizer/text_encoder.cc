#include "tokenizer/text_encoder.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "files/file_hash.h"
#include "tokenizer/sentence_piece.h"
#include "tokenizer/tokenizer.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

class ByteLevelEncoder : public TextEncoder {
 public:
  explicit ByteLevelEncoder(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const override {
    return tokenizer_.encode(text, add_special_tokens);
  }
  std::vector<TokenId> encode_ordinary(std::string_view text) const override {
    return tokenizer_.encode_ordinary(text);
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override {
    return tokenizer_.decode(ids, skip_special_tokens);
  }
  std::optional<TokenId> find(std::string_view token) const override {
    return tokenizer_.find(token);
  }
  TokenId size() const override { return tokenizer_.size(); }

 private:
  Tokenizer tokenizer_;
};

}  // namespace

bool is_sentence_piece(const fs::path& file) { return file.extension() == ".model"; }

std::unique_ptr<TextEncoder> read_text_encoder(const fs::path& file, const fs::path& merges) {
  if (is_sentence_piece(file)) {
    if (merges.empty()) return std::make_unique<SentencePieceEncoder>(file);
    throw std::runtime_error(fmt::format("{}: a model of SentencePiece has no merges ({})",
                                         file.string(), merges.string()));
  }
  return std::make_unique<ByteLevelEncoder>(merges.empty() ? Tokenizer::read(file)
                                                           : Tokenizer::read(file, merges));
}

std::string hash_text_encoder(const fs::path& file, const fs::path& merges) {
  std::vector<fs::path> files = {file};
  if (!merges.empty()) files.push_back(merges);
  return hash_contents(files);
}

EndToken find_end_token(const TextEncoder& encoder, const std::string& name) {
  if (!name.empty()) {
    if (const auto id = encoder.find(name)) return {name, *id};
    throw std::runtime_error(
        fmt::format("--end-token {}: the tokenizer's vocabulary has no such token", name));
  }
  for (const char* usual : {"<|endoftext|>", "</s>"}) {
    if (const auto id = encoder.find(usual)) return {usual, *id};
  }
  throw std::runtime_error(
      "the tokenizer's vocabulary has neither <|endoftext|> nor </s>: --end-token says which token "
      "ends a document");
}

}  // namespace ssa
