// Text files as documents: .txt, .jsonl and .parquet, each also as .gz or .zst.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace ssa {

/// How files become documents.
struct DocumentOptions {
  std::string field = "text";                   ///< of .jsonl: a string; of .parquet: a column
  std::string document_line = "<|endoftext|>";  ///< of .txt: the line that ends a document
  bool skip_bad_lines = false;  ///< leave out bad lines, rows and documents, instead of throwing
};

/// What was left out of a file.
struct LeftOut {
  std::int64_t empty = 0;  ///< documents of white space alone
  std::int64_t bad = 0;    ///< lines, rows and documents
};

/// Throws std::runtime_error naming the file, unless it is there and its name ends in one of the
/// known ways.
void check_text_file(const std::filesystem::path& file);

/// Calls `work` with every document's text, valid UTF-8. In .txt the line end before a document's
/// end is no text, and a byte order mark and the \r of \r\n are none. Throws std::runtime_error
/// naming the file, line or row, and field; std::invalid_argument from `work` becomes such an
/// error.
LeftOut for_each_document(const std::filesystem::path& file, const DocumentOptions& options,
                          const std::function<void(std::string_view text)>& work);

}  // namespace ssa
