#include "data/sentence_piece.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <stdexcept>

#include "data/byte_stream.h"
#include "data/unicode.h"
#include "ssa/check.h"

namespace ssa {
namespace {

void check(const sentencepiece::util::Status& status) {
  SSA_CHECK(status.ok(), "sentencepiece: " << status.error_message());
}

}  // namespace

SentencePieceEncoder::SentencePieceEncoder(const std::filesystem::path& file)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  std::string model = read_bytes(file);
  if (model.empty() || !processor_->LoadFromSerializedProto(model).ok()) {
    throw std::runtime_error(
        fmt::format("{}: is not a model of SentencePiece, or a damaged one", file.string()));
  }
}

SentencePieceEncoder::~SentencePieceEncoder() = default;

std::vector<TokenId> SentencePieceEncoder::encode(std::string_view text, bool) const {
  return encode_ordinary(text);
}

std::vector<TokenId> SentencePieceEncoder::encode_ordinary(std::string_view text) const {
  check_utf8(text);  // the library would replace what is not
  std::vector<TokenId> ids;
  check(processor_->Encode(text, &ids));
  return ids;
}

std::string SentencePieceEncoder::decode(std::span<const TokenId> ids,
                                         bool skip_special_tokens) const {
  std::string text;
  std::vector<int> run;
  const auto end_run = [&] {
    std::string part;
    check(processor_->Decode(run, &part));
    text += part;
    run.clear();
  };
  for (const TokenId id : ids) {
    SSA_CHECK(id >= 0 && id < size(),
              "id " << id << " is not in the vocabulary, whose ids end at " << size() - 1);
    if (!processor_->IsControl(id)) {
      run.push_back(id);
    } else if (!skip_special_tokens) {  // the library always leaves them out
      end_run();
      text += processor_->IdToPiece(id);
    }
  }
  end_run();
  return text;
}

std::optional<TokenId> SentencePieceEncoder::find(std::string_view token) const {
  const int id = processor_->PieceToId(token);  // of <unk> where there is no such piece
  if (processor_->IdToPiece(id) != token) return std::nullopt;
  return id;
}

TokenId SentencePieceEncoder::size() const { return processor_->GetPieceSize(); }

}  // namespace ssa
