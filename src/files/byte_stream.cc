#include "files/byte_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "files/file_descriptor.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const std::string& name, const std::string& reason) {
  throw std::runtime_error(fmt::format("{}: {}", name, reason));
}

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const fs::path& file)
      : name_(file.empty() ? "standard input" : file.string()),
        file_(file.empty() ? FileDescriptor(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0))
                           : open_to_read(file, Pipes::read)) {
    if (!file_) fail(name_, "is closed");
  }

  std::size_t read(std::span<char> bytes) override {
    return read_some(file_, bytes.data(), bytes.size(), name_);
  }

  const std::string& name() const { return name_; }

 private:
  std::string name_;
  FileDescriptor file_;
};

/// A compressed file; members (gzip) or frames (Zstandard) may follow one another.
class CompressedStream : public ByteStream {
 public:
  CompressedStream(const fs::path& file, std::size_t piece) : file_(file), buffer_(piece) {}

 protected:
  /// The compressed bytes that are there, more if there are none; empty at the file's end.
  std::span<char> input() {
    if (rest_.empty()) rest_ = std::span(buffer_).first(file_.read(buffer_));
    return rest_;
  }
  void consume(std::size_t bytes) { rest_ = rest_.subspan(bytes); }

  [[noreturn]] void fail(const std::string& reason) const { ssa::fail(file_.name(), reason); }

 private:
  PlainStream file_;
  std::vector<char> buffer_;
  std::span<char> rest_;
};

class GzipStream : public CompressedStream {
 public:
  explicit GzipStream(const fs::path& file) : CompressedStream(file, 1 << 16) {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&state_, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(std::span<char> bytes) override {
    const auto wanted =
        static_cast<uInt>(std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max()));
    state_.next_out = reinterpret_cast<Bytef*>(bytes.data());
    state_.avail_out = wanted;
    while (state_.avail_out == wanted) {
      const std::span<char> in = input();
      if (in.empty()) {
        if (inside_) fail("the gzip data end too early");
        return 0;
      }
      state_.next_in = reinterpret_cast<Bytef*>(in.data());
      state_.avail_in = static_cast<uInt>(in.size());
      inside_ = true;
      const int status = inflate(&state_, Z_NO_FLUSH);
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
        fail(fmt::format("the gzip data are damaged ({})", state_.msg ? state_.msg : "no reason"));
      }
      consume(in.size() - state_.avail_in);
      if (status == Z_STREAM_END) {
        inflateReset(&state_);
        inside_ = false;
      }
    }
    return wanted - state_.avail_out;
  }

 private:
  z_stream state_{};
  bool inside_ = true;  ///< of a member: an empty file is no gzip file
};

class ZstandardStream : public CompressedStream {
 public:
  explicit ZstandardStream(const fs::path& file)
      : CompressedStream(file, ZSTD_DStreamInSize()), state_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    // Whatever window the file was written with (zstd --long=31), as far as the library goes.
    ZSTD_DCtx_setParameter(state_.get(), ZSTD_d_windowLogMax,
                           ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound);
  }

  std::size_t read(std::span<char> bytes) override {
    ZSTD_outBuffer out{bytes.data(), bytes.size(), 0};
    while (out.pos == 0) {
      const std::span<char> compressed = input();
      // After the last input the state may still hold output.
      if (compressed.empty() && !inside_) return 0;
      ZSTD_inBuffer in{compressed.data(), compressed.size(), 0};
      const std::size_t status = ZSTD_decompressStream(state_.get(), &out, &in);
      if (ZSTD_isError(status) != 0) {
        fail(fmt::format("the Zstandard data are damaged ({})", ZSTD_getErrorName(status)));
      }
      consume(in.pos);
      inside_ = status != 0;
      if (compressed.empty() && out.pos == 0 && inside_) fail("the Zstandard data end too early");
    }
    return out.pos;
  }

 private:
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> state_;
  bool inside_ = true;  ///< of a frame: an empty file is no Zstandard file
};

}  // namespace

std::unique_ptr<ByteStream> open_bytes(const fs::path& file) {
  if (file.extension() == ".gz") return std::make_unique<GzipStream>(file);
  if (file.extension() == ".zst") return std::make_unique<ZstandardStream>(file);
  return std::make_unique<PlainStream>(file);
}

std::string read_bytes(const fs::path& file, std::size_t most) {
  const auto stream = open_bytes(file);
  std::string content;
  std::vector<char> buffer(1 << 16);
  while (const std::size_t size = stream->read(buffer)) {
    if (size > most - content.size()) {
      fail(file.string(), fmt::format("holds more than the {} bytes that are read at once", most));
    }
    content.append(buffer.data(), size);
  }
  return content;
}

fs::path uncompressed_name(const fs::path& file) {
  const bool compressed = file.extension() == ".gz" || file.extension() == ".zst";
  return compressed ? file.stem() : file.filename();
}

}  // namespace ssa
