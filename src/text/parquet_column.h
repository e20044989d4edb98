// One column of strings of a Parquet file.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ssa {

/// Calls `work` with every row's value, nothing for null, reading one page after another; a
/// .parquet.gz or .parquet.zst is first decompressed into memory. `column` may be a path into
/// structs ("meta.text"). Throws std::runtime_error naming the file where it cannot be read, has no
/// such column (naming those it has) or the column holds no strings.
void for_each_string(const std::filesystem::path& file, const std::string& column,
                     const std::function<void(std::optional<std::string_view> value)>& work);

}  // namespace ssa
