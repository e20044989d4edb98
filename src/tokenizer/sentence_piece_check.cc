#include "tokenizer/sentence_piece_check.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>

#include "tokenizer/character_map.h"
#include "tokenizer/token_id.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace {

// Numbers of fields and types in sentencepiece_model.proto.
enum ModelField { kPieces = 1, kNormalizer = 3, kDenormalizer = 5 };
enum PieceField { kText = 1, kScore = 2, kType = 3 };
enum NormalizerField { kCharacters = 2 };
enum PieceType { kUnknown = 2, kByte = 6 };
enum WireType { kVarint = 0, kEight = 1, kBytes = 2, kFour = 5 };

[[noreturn]] void refuse(std::string_view what) { throw std::invalid_argument(std::string(what)); }

struct MessageField {
  std::uint64_t number = 0, value = 0;  ///< `value` of a number
  WireType type{};
  std::string_view bytes;
};

/// The fields of a message of Protocol Buffers, one after another.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  bool next(MessageField& field) {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    field = {.number = tag >> 3, .value = 0, .type = static_cast<WireType>(tag & 7), .bytes = {}};
    switch (field.type) {
      case kVarint:
        field.value = varint();
        break;
      case kEight:
        field.bytes = take(8);
        break;
      case kFour:
        field.bytes = take(4);
        break;
      case kBytes:
        field.bytes = take(varint());
        break;
      default:
        refuse("holds a field of no known type");
    }
    return true;
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    refuse("holds a number that is too long");
  }

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) refuse("ends too early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
};

struct ModelPiece {
  std::string_view text;
  float score = 0;
  std::uint64_t type = 1;
};

ModelPiece read_piece(std::string_view bytes) {
  ModelPiece piece;
  Message message(bytes);
  for (MessageField field; message.next(field);) {
    if (field.number == kText && field.type == kBytes) piece.text = field.bytes;
    if (field.number == kType && field.type == kVarint) piece.type = field.value;
    if (field.number == kScore && field.type == kFour) {
      std::memcpy(&piece.score, field.bytes.data(), sizeof piece.score);
    }
  }
  return piece;
}

void check_piece(const ModelPiece& piece, TokenId id) {
  const auto refuse_piece = [&](const char* reason) {
    refuse(fmt::format("piece {} {}", id, reason));
  };
  if (piece.text.empty()) refuse_piece("is empty");
  if (piece.text.find('\0') != piece.text.npos) refuse_piece("holds a zero byte");
  if (find_invalid_utf8(piece.text)) refuse_piece("is not valid UTF-8");
  if (!std::isfinite(piece.score)) refuse_piece("has a score that is not finite");
  const bool names_byte =
      piece.text.size() == 6 && piece.text.starts_with("<0x") && piece.text.ends_with('>');
  if (piece.type == kByte && !names_byte) refuse_piece("stands for a byte but does not name it");
  if (piece.type < 1 || piece.type > kByte) refuse_piece("is of no known type");
}

void check_normalizer(std::string_view bytes) {
  Message message(bytes);
  for (MessageField field; message.next(field);) {
    if (field.number == kCharacters && field.type == kBytes && !field.bytes.empty()) {
      CharacterMap::of_bytes(field.bytes).check();
    }
  }
}

}  // namespace

void check_sentence_piece(std::string_view model) {
  std::set<std::string_view> texts;
  TokenId unknown = 0;
  Message message(model);
  for (MessageField field; message.next(field);) {
    if (field.type != kBytes) continue;
    if (field.number == kNormalizer || field.number == kDenormalizer) check_normalizer(field.bytes);
    if (field.number != kPieces) continue;
    const auto id = static_cast<TokenId>(texts.size());
    const ModelPiece piece = read_piece(field.bytes);
    check_piece(piece, id);
    unknown += piece.type == kUnknown ? 1 : 0;
    if (!texts.insert(piece.text).second) refuse(fmt::format("piece {} is there twice", id));
    if (id >= kMostTokens) refuse("has too many pieces");
  }
  if (texts.empty()) refuse("has no pieces");
  if (unknown != 1) refuse("has no single piece for what is unknown");
}

}  // namespace ssa
