// Writing of what TokenShards reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "shards/token_shards.h"
#include "tokenizer/token_id.h"

namespace ssa {

/// The narrowest type for the ids 0 … vocabulary - 1.
TokenType token_type_for(std::int64_t vocabulary);

/// Writes PREFIX.bin and PREFIX.idx, one sequence a document.
class TokenShardsWriter {
 public:
  /// Begins PREFIX.bin, replacing what is there. Functions throw std::runtime_error naming the file
  /// that cannot be written.
  TokenShardsWriter(const std::filesystem::path& prefix, TokenType type);

  /// A document of at least one token, each within the type.
  void add(std::span<const TokenId> document);

  /// All documents of `shards`, which are of the same type.
  void append(const TokenShards& shards);

  /// Writes PREFIX.idx; both files have reached the disk.
  void finish();

 private:
  void write(const void* data, std::int64_t bytes);

  std::filesystem::path ids_path_, index_path_;
  TokenType type_;
  std::ofstream ids_;
  std::vector<std::int32_t> sizes_;  ///< of each document, in tokens
  std::vector<std::uint16_t> narrow_;
};

}  // namespace ssa
