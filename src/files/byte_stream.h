// Files as streams of bytes: plain, gzip or Zstandard.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace ssa {

/// The content of a file, piece by piece, so that files larger than the memory can be read.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Fills the front of `bytes` and returns how many were filled: 0 only at the end. Throws
  /// std::runtime_error naming the file where reading fails or the compressed content is damaged or
  /// ends too early.
  virtual std::size_t read(std::span<char> bytes) = 0;
};

/// `file` decompressed if its name ends in .gz or .zst; standard input where it is empty. Throws
/// std::runtime_error naming the file that cannot be read.
std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& file);

/// All of open_bytes(file), for what cannot be read piece by piece. Throws for more than `most`
/// bytes.
std::string read_bytes(const std::filesystem::path& file, std::size_t most = std::size_t{4} << 30);

/// The file's name without .gz or .zst.
std::filesystem::path uncompressed_name(const std::filesystem::path& file);

}  // namespace ssa
