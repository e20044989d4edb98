#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "files/file_hash.h"
#include "tokenizer/byte_pair_tokenizer.h"
#include "tokenizer/sentence_piece.h"

namespace ssa {
namespace fs = std::filesystem;

bool is_sentence_piece(const fs::path& file) { return file.extension() == ".model"; }

std::unique_ptr<Tokenizer> read_tokenizer(const fs::path& file, const fs::path& merges) {
  if (is_sentence_piece(file)) {
    if (merges.empty()) return std::make_unique<SentencePieceTokenizer>(file);
    throw std::runtime_error(fmt::format("{}: a model of SentencePiece has no merges ({})",
                                         file.string(), merges.string()));
  }
  return std::make_unique<BytePairTokenizer>(
      merges.empty() ? BytePairTokenizer::read(file) : BytePairTokenizer::read(file, merges));
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
