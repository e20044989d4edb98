#include "text/parquet_column.h"

#include <arrow/buffer.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <arrow/memory_pool.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <vector>

#include "files/byte_stream.h"
#include "files/file_descriptor.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kBatch = 256;  ///< values at a time

/// Most bytes that are held of a file of that size. Headers of pages in a damaged file may claim
/// anything; text is not compressed to less than a part in a thousand by chance.
std::int64_t most_memory(std::int64_t file_bytes) {
  constexpr std::int64_t kLeast = std::int64_t{64} << 20, kMost = std::int64_t{16} << 30;
  return std::min(kLeast + 1000 * std::min(file_bytes, kMost / 1000), kMost);
}

std::shared_ptr<arrow::io::RandomAccessFile> open(const fs::path& file) {
  open_to_read(file);  // says in its own words what cannot be read
  if (uncompressed_name(file) == file.filename()) {
    PARQUET_ASSIGN_OR_THROW(auto opened, arrow::io::ReadableFile::Open(file.string()));
    return opened;
  }
  return std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(read_bytes(file)));
}

/// The column's place among those that the file stores.
int find_column(const parquet::SchemaDescriptor& schema, const std::string& name) {
  std::vector<std::string> names;
  for (int i = 0; i < schema.num_columns(); ++i) {
    const parquet::ColumnDescriptor& column = *schema.Column(i);
    names.push_back(column.path()->ToDotString());
    if (names.back() != name) continue;
    const auto& kind = *column.logical_type();
    const bool text = column.physical_type() == parquet::Type::BYTE_ARRAY &&
                      (kind.is_string() || kind.is_none()) && column.max_repetition_level() == 0;
    if (text) return i;
    throw std::runtime_error(fmt::format("column \"{}\": expected strings, found {} {}{}", name,
                                         parquet::TypeToString(column.physical_type()),
                                         kind.ToString(),
                                         column.max_repetition_level() > 0 ? " in lists" : ""));
  }
  throw std::runtime_error(
      fmt::format("there is no column \"{}\" (columns: {})", name, fmt::join(names, ", ")));
}

}  // namespace

void for_each_string(const fs::path& file, const std::string& column,
                     const std::function<void(std::optional<std::string_view> value)>& work) {
  const auto named = [&](const auto& read) {
    try {
      return read();
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}: {}", file.string(), error.what()));
    }
  };
  arrow::CappedMemoryPool memory(arrow::default_memory_pool(),
                                 most_memory(static_cast<std::int64_t>(fs::file_size(file))));
  parquet::ReaderProperties properties(&memory);
  properties.enable_buffered_stream();  // else a row group's whole column is held in memory
  const auto reader =
      named([&] { return parquet::ParquetFileReader::Open(open(file), properties); });
  const auto& metadata = *reader->metadata();
  const int index = named([&] { return find_column(*metadata.schema(), column); });
  const std::int16_t present = metadata.schema()->Column(index)->max_definition_level();
  std::array<std::int16_t, kBatch> levels{};
  std::array<parquet::ByteArray, kBatch> values;
  for (int group = 0; group < metadata.num_row_groups(); ++group) {
    const auto pages = named([&] { return reader->RowGroup(group)->Column(index); });
    auto& strings = static_cast<parquet::ByteArrayReader&>(*pages);
    while (named([&] { return strings.HasNext(); })) {
      std::int64_t count = 0;  // of the values that are not null
      const std::int64_t rows = named(
          [&] { return strings.ReadBatch(kBatch, levels.data(), nullptr, values.data(), &count); });
      const parquet::ByteArray* value = values.data();
      for (std::int64_t row = 0; row < rows; ++row) {
        if (present > 0 && levels[static_cast<std::size_t>(row)] < present) {
          work(std::nullopt);
        } else {
          work(std::string_view(*value++));
        }
      }
    }
  }
}

}  // namespace ssa
