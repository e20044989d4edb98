#include "shards/token_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <ranges>
#include <stdexcept>
#include <string>

#include "files/mapped_file.h"
#include "shards/token_shards_format.h"
#include "ssa/check.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

using namespace token_shards_format;

// Magic, version, type, numbers of sequences and of document bounds. The lists that follow are not
// aligned.
constexpr std::size_t kHeader = 9 + 8 + 1 + 8 + 8;

template <typename Number>
Number load(const std::byte* place) {
  Number number;
  std::memcpy(&number, place, sizeof(Number));
  return number;
}

[[noreturn]] void refuse(const fs::path& file, const std::string& reason) {
  throw std::runtime_error(fmt::format("{}: {}", file.string(), reason));
}

template <typename Stored>
void widen(const std::byte* from, std::span<std::int64_t> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = load<Stored>(from + i * sizeof(Stored));
}

}  // namespace

const char* type_name(TokenType type) { return type == TokenType::uint16 ? "uint16" : "int32"; }

std::int64_t type_bytes(TokenType type) { return type == TokenType::uint16 ? 2 : 4; }

TokenShards::TokenShards(const fs::path& prefix)
    : index_(std::make_shared<MappedFile>(index_path(prefix))),
      ids_(std::make_shared<MappedFile>(ids_path(prefix))) {
  const fs::path file = index_path(prefix);
  const auto index = index_->bytes();
  if (index.size() < kHeader || std::memcmp(index.data(), kMagic.data(), kMagic.size()) != 0) {
    refuse(file, "does not begin as a Megatron index does (MMIDIDX)");
  }
  const std::byte* header = index.data() + kMagic.size();
  if (const auto version = load<std::uint64_t>(header); version != kVersion) {
    refuse(file, fmt::format("version {} is not supported; supported: {}", version, kVersion));
  }
  type_ = static_cast<TokenType>(header[8]);
  if (type_ != TokenType::int32 && type_ != TokenType::uint16) {
    refuse(file, fmt::format("type {} of ids is not supported; supported: 4 (int32), 8 (uint16)",
                             static_cast<int>(type_)));
  }
  const auto sequences = load<std::uint64_t>(header + 9);
  const auto bounds = load<std::uint64_t>(header + 17);
  // 4 bytes of size and 8 of pointer for a sequence, 8 for a bound: neither product may wrap round.
  const std::uint64_t most = std::numeric_limits<std::int64_t>::max() / 64;
  if (bounds == 0 || sequences > most || bounds > most ||
      index.size() != kHeader + 12 * sequences + 8 * bounds) {
    refuse(file, fmt::format("has {} bytes, which is not right for {} sequences and {} bounds of "
                             "documents",
                             index.size(), sequences, bounds));
  }
  documents_ = static_cast<std::int64_t>(bounds) - 1;
  tokens_ = static_cast<std::int64_t>(ids_->bytes().size()) / type_bytes(type_);
  pointers_ = index.data() + kHeader + 4 * sequences;
  bounds_ = pointers_ + 8 * sequences;
  check_index(prefix, static_cast<std::int64_t>(sequences));
}

void TokenShards::check_index(const fs::path& prefix, std::int64_t sequences) {
  const fs::path file = index_path(prefix);
  const auto stored_bytes = static_cast<std::int64_t>(stored().size());
  const std::byte* sizes = index_->bytes().data() + kHeader;
  std::int64_t end = 0;  // of the sequences so far, in bytes
  for (std::int64_t i = 0; i < sequences; ++i) {
    const auto size = load<std::int32_t>(sizes + 4 * i);
    const auto pointer = load<std::int64_t>(pointers_ + 8 * i);
    if (size < 0) refuse(file, fmt::format("sequence {} has {} tokens", i, size));
    if (pointer != end) {
      refuse(file, fmt::format("sequence {} begins at byte {}, expected {}", i, pointer, end));
    }
    end += size * type_bytes(type_);
    if (end > stored_bytes) break;  // also before a sum could wrap round
  }
  if (end != stored_bytes) {
    refuse(ids_path(prefix), fmt::format("has {} bytes, but its .idx tells of {}{}", stored_bytes,
                                         end > stored_bytes ? "at least " : "", end));
  }
  std::int64_t before = 0;
  for (std::int64_t i = 0; i <= documents_; ++i) {
    const auto bound = load<std::int64_t>(bounds_ + 8 * i);
    if (i == 0 && bound != 0) refuse(file, fmt::format("document 0 begins at sequence {}", bound));
    if (bound < before || bound > sequences) {
      refuse(file, fmt::format("document {} begins at sequence {}, not from {} to {}", i, bound,
                               before, sequences));
    }
    before = bound;
  }
  if (before != sequences) {
    refuse(file, fmt::format("documents end at sequence {} of {}", before, sequences));
  }
}

std::int64_t TokenShards::document_start(std::int64_t i) const {
  const auto sequence = load<std::int64_t>(bounds_ + 8 * i);
  const std::byte* place = pointers_ + 8 * sequence;
  return place == bounds_ ? tokens_ : load<std::int64_t>(place) / type_bytes(type_);
}

TokenShards::Range TokenShards::document(std::int64_t i) const {
  SSA_CHECK(i >= 0 && i < documents_, "document " << i << " of " << documents_);
  return {document_start(i), document_start(i + 1)};
}

void TokenShards::copy(std::int64_t begin, std::span<std::int64_t> ids) const {
  const auto count = static_cast<std::int64_t>(ids.size());
  SSA_CHECK(begin >= 0 && begin <= tokens_ && count <= tokens_ - begin,
            count << " tokens from " << begin << " on, of " << tokens_);
  const std::byte* from = stored().data() + begin * type_bytes(type_);
  if (type_ == TokenType::uint16) {
    widen<std::uint16_t>(from, ids);
  } else {
    widen<std::int32_t>(from, ids);
  }
}

std::vector<std::int64_t> TokenShards::document_starts(Range range) const {
  std::vector<std::int64_t> starts;
  const auto all = std::views::iota(std::int64_t{0}, documents_);
  const auto start = [this](std::int64_t i) { return document_start(i); };
  for (auto i = std::ranges::lower_bound(all, range.begin, {}, start); i != all.end(); ++i) {
    const std::int64_t place = document_start(*i);
    if (place >= range.end) break;
    starts.push_back(place);
  }
  return starts;
}

std::span<const std::byte> TokenShards::stored() const { return ids_->bytes(); }

}  // namespace ssa
