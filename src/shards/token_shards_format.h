// What reader and writer of token shards agree on.
#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace ssa::token_shards_format {

static_assert(std::endian::native == std::endian::little, "the format's numbers are");

inline constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
inline constexpr std::uint64_t kVersion = 1;

inline std::filesystem::path index_path(std::filesystem::path prefix) { return prefix += ".idx"; }
inline std::filesystem::path ids_path(std::filesystem::path prefix) { return prefix += ".bin"; }

}  // namespace ssa::token_shards_format
