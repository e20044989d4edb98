#include "shards/token_shards_writer.h"

#include <fmt/format.h>

#include <limits>

#include "shards/token_shards_format.h"
#include "ssa/check.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

using namespace token_shards_format;

/// In the place of what is there.
FileWriter begin(const fs::path& file) {
  fs::remove(file);
  return {file, FileWriter::Start::new_file};
}

}  // namespace

TokenType token_type_for(std::int64_t vocabulary) {
  return vocabulary <= 1 << 16 ? TokenType::uint16 : TokenType::int32;
}

TokenShardsWriter::TokenShardsWriter(const fs::path& prefix, TokenType type)
    : index_path_(index_path(prefix)), type_(type), ids_(begin(ids_path(prefix))) {}

void TokenShardsWriter::add(std::span<const TokenId> document) {
  SSA_CHECK(document.size() <= std::numeric_limits<std::int32_t>::max(),
            "a document of " << document.size() << " tokens: the format has room for 2^31 - 1");
  sizes_.push_back(static_cast<std::int32_t>(document.size()));
  if (type_ == TokenType::uint16) {
    narrow_.assign(document.begin(), document.end());
    ids_.write(narrow_.data(), 2 * narrow_.size());
  } else {
    ids_.write(document.data(), document.size_bytes());
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
  ids_.write(ids.data(), ids.size());
}

void TokenShardsWriter::finish() {
  FileWriter index = begin(index_path_);
  const auto put = [&index](auto number) { index.write(&number, sizeof(number)); };
  const auto documents = static_cast<std::int64_t>(sizes_.size());
  index.write(kMagic);
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
  ids_.sync();
  index.sync();
}

}  // namespace ssa
