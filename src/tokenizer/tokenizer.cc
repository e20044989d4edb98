#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "files/file_hash.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/sentence_piece.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

class SpecialTokensFound : public Tokenizer {
 public:
  explicit SpecialTokensFound(std::unique_ptr<Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const override {
    return tokenizer_->encode(text, add_special_tokens);
  }
  std::vector<TokenId> encode_ordinary(std::string_view text) const override {
    return tokenizer_->encode(text, /*add_special_tokens=*/false);
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override {
    return tokenizer_->decode(ids, skip_special_tokens);
  }
  std::optional<TokenId> find(std::string_view token) const override {
    return tokenizer_->find(token);
  }
  bool is_special(TokenId id) const override { return tokenizer_->is_special(id); }
  TokenId size() const override { return tokenizer_->size(); }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace

bool is_sentence_piece(const fs::path& file) { return file.extension() == ".model"; }

std::unique_ptr<Tokenizer> read_tokenizer(const fs::path& file, const fs::path& merges) {
  if (is_sentence_piece(file)) {
    if (merges.empty()) return std::make_unique<SentencePieceTokenizer>(file);
    throw std::runtime_error(fmt::format("{}: a model of SentencePiece has no merges ({})",
                                         file.string(), merges.string()));
  }
  return std::make_unique<Pipeline>(merges.empty() ? Pipeline::read(file)
                                                   : Pipeline::read(file, merges));
}

std::unique_ptr<Tokenizer> find_special_tokens(std::unique_ptr<Tokenizer> tokenizer) {
  return std::make_unique<SpecialTokensFound>(std::move(tokenizer));
}

std::string hash_tokenizer(const fs::path& file, const fs::path& merges) {
  std::vector<fs::path> files = {file};
  if (!merges.empty()) files.push_back(merges);
  return hash_contents(files);
}

EndToken find_end_token(const Tokenizer& tokenizer, const std::string& name) {
  if (!name.empty()) {
    if (const auto id = tokenizer.find(name)) return {name, *id};
    throw std::runtime_error(
        fmt::format("--end-token {}: the tokenizer's vocabulary has no such token", name));
  }
  for (const char* usual : {"<|endoftext|>", "</s>"}) {
    if (const auto id = tokenizer.find(usual)) return {usual, *id};
  }
  throw std::runtime_error(
      "the tokenizer's vocabulary has neither <|endoftext|> nor </s>: --end-token says which token "
      "ends a document");
}

}  // namespace ssa
