#include "shards/token_shards_writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "files/durable_files.h"
#include "shards/token_shards_format.h"
#include "ssa/check.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

using namespace token_shards_format;

[[noreturn]] void refuse(const fs::path& file) {
  throw std::runtime_error(
      fmt::format("{}: cannot be written: {}", file.string(), std::strerror(errno)));
}

}  // namespace

TokenType token_type_for(std::int64_t vocabulary) {
  return vocabulary <= 1 << 16 ? TokenType::uint16 : TokenType::int32;
}

TokenShardsWriter::TokenShardsWriter(const fs::path& prefix, TokenType type)
    : ids_path_(ids_path(prefix)),
      index_path_(index_path(prefix)),
      type_(type),
      ids_(ids_path_, std::ios::binary | std::ios::trunc) {
  if (!ids_) refuse(ids_path_);
}

void TokenShardsWriter::write(const void* data, std::int64_t bytes) {
  if (!ids_.write(static_cast<const char*>(data), bytes)) {
    refuse(ids_path_);
  }
}

void TokenShardsWriter::add(std::span<const TokenId> document) {
  SSA_CHECK(document.size() <= std::numeric_limits<std::int32_t>::max(),
            "a document of " << document.size() << " tokens: the format has room for 2^31 - 1");
  sizes_.push_back(static_cast<std::int32_t>(document.size()));
  const auto count = static_cast<std::int64_t>(document.size());
  if (type_ == TokenType::uint16) {
    narrow_.assign(document.begin(), document.end());
    write(narrow_.data(), 2 * count);
  } else {
    write(document.data(), 4 * count);
  }
}

void TokenShardsWriter::append(const TokenShards& shards) {
  SSA_CHECK(shards.type() == type_,
            "shards of " << type_name(shards.type()) << " behind " << type_name(type_));
  for (std::int64_t i = 0; i < shards.documents(); ++i) {
    const TokenShards::Range range = shards.document(i);
    sizes_.push_back(static_cast<std::int32_t>(range.end - range.begin));
  }
  const auto ids = shards.stored();
  write(ids.data(), static_cast<std::int64_t>(ids.size()));
}

void TokenShardsWriter::finish() {
  ids_.close();
  std::ofstream index(index_path_, std::ios::binary | std::ios::trunc);
  const auto put = [&index](auto number) {
    index.write(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  const auto documents = static_cast<std::int64_t>(sizes_.size());
  index.write(kMagic.data(), kMagic.size());
  put(kVersion);
  put(type_);
  put(documents);
  put(documents + 1);
  for (const std::int32_t size : sizes_) put(size);
  std::int64_t pointer = 0;
  for (const std::int32_t size : sizes_) {
    put(pointer);
    pointer += size * type_bytes(type_);
  }
  for (std::int64_t i = 0; i <= documents; ++i) put(i);
  index.close();
  if (!ids_) refuse(ids_path_);
  if (!index) refuse(index_path_);
  sync_path(ids_path_);
  sync_path(index_path_);
}

}  // namespace ssa
