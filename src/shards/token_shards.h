// Token ids on disk, PREFIX.bin and PREFIX.idx, in the indexed format of Megatron-LM
// (megatron/core/datasets/indexed_dataset.py of NVIDIA/Megatron-LM; laid out in docs/formats.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace ssa {

/// How an id is stored; the values are the format's.
enum class TokenType : std::uint8_t { int32 = 4, uint16 = 8 };

const char* type_name(TokenType type);    ///< "int32"
std::int64_t type_bytes(TokenType type);  ///< of one id

class MappedFile;

/// A pair of files, mapped into memory and read as one row of tokens, document after document, each
/// with the token that ends it. Immutable, so any number of threads may share one.
class TokenShards {
 public:
  /// Places of tokens in the row, [begin, end).
  struct Range {
    std::int64_t begin = 0, end = 0;
  };

  /// Throws std::runtime_error naming the file and what is wrong with it.
  explicit TokenShards(const std::filesystem::path& prefix);

  TokenType type() const { return type_; }
  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }

  /// Where document i of documents() lies.
  Range document(std::int64_t i) const;

  /// Copies the tokens from `begin` on, as many as `ids` holds; all must be below tokens().
  void copy(std::int64_t begin, std::span<std::int64_t> ids) const;

  /// The places in `range` at which a document begins, ascending.
  std::vector<std::int64_t> document_starts(Range range) const;

  /// All ids as they lie in the file.
  std::span<const std::byte> stored() const;

 private:
  void check_index(const std::filesystem::path& prefix, std::int64_t sequences);
  std::int64_t document_start(std::int64_t i) const;  ///< of i = documents(): tokens()

  std::shared_ptr<const MappedFile> index_, ids_;
  TokenType type_{};
  std::int64_t documents_ = 0, tokens_ = 0;
  const std::byte* pointers_ = nullptr;  ///< where each sequence begins in the .bin, in bytes
  const std::byte* bounds_ = nullptr;    ///< the first sequence of each document, and the end
};

}  // namespace ssa
