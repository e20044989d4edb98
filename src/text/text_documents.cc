#include "text/text_documents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "files/byte_stream.h"
#include "files/lines.h"
#include "ssa/check.h"
#include "text/parquet_column.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

using Value = nlohmann::json;

/// The documents of one file.
class Reader {
 public:
  Reader(const fs::path& file, const DocumentOptions& options,
         const std::function<void(std::string_view)>& work)
      : file_(file), options_(options), work_(work) {}

  void read_text() {
    for_each_line(file_, [this](std::string_view line) {
      line = next_line(line);
      if (line == options_.document_line) {
        end_text();
        return;
      }
      guarded(lines_, [&] {
        check_utf8(line);
        if (first_line_ == 0) first_line_ = lines_;
        text_.append(line).push_back('\n');
      });
    });
    if (!text_.empty()) end_text();
  }

  void read_json() {
    for_each_line(file_, [this](std::string_view line) {
      line = next_line(line);
      if (line.find_first_not_of(" \t") == line.npos) return;
      guarded(lines_, [&] { document(field_of(line)); });
    });
  }

  void read_parquet() {
    std::int64_t row = 0;
    for_each_string(file_, options_.field, [&](std::optional<std::string_view> value) {
      guarded(fmt::format("row {}: column \"{}\"", ++row, options_.field), [&] {
        SSA_CHECK(value, "expected a string, found null");
        check_utf8(*value);
        document(*value);
      });
    });
  }

  const LeftOut& left_out() const { return left_out_; }

 private:
  std::string_view next_line(std::string_view line) {
    ++lines_;
    if (lines_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    return without_carriage_return(line);
  }

  void end_text() {
    if (!text_.empty()) text_.pop_back();
    guarded(std::exchange(first_line_, 0), [this] { document(text_); });
    text_.clear();
  }

  std::string field_of(std::string_view line) const {
    check_utf8(line);
    Value object;
    try {
      object = Value::parse(line);
    } catch (const Value::parse_error& error) {
      throw std::invalid_argument(fmt::format("not valid JSON (byte {})", error.byte));
    }
    SSA_CHECK(object.is_object(), "expected an object, found " << object.type_name());
    const auto field = object.find(options_.field);
    if (field == object.end()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : object.items()) names.push_back(name);
      throw std::invalid_argument(fmt::format("there is no field \"{}\" (fields: {})",
                                              options_.field, fmt::join(names, ", ")));
    }
    SSA_CHECK(field->is_string(), "field \"" << options_.field << "\": expected a string, found "
                                             << field->type_name());
    return std::move(field->get_ref<std::string&>());
  }

  void document(std::string_view text) {
    if (text.find_first_not_of(" \t\r\n") == text.npos) {
      ++left_out_.empty;
      return;
    }
    work_(text);
  }

  /// Counts what is bad, or says where it stands.
  template <typename Place, typename Work>
  void guarded(const Place& place, const Work& work) {
    try {
      work();
    } catch (const std::invalid_argument& error) {
      if (!options_.skip_bad_lines) {
        throw std::runtime_error(fmt::format("{}:{}: {} (--skip-bad-lines leaves it out)",
                                             file_.string(), place, error.what()));
      }
      ++left_out_.bad;
    }
  }

  const fs::path& file_;
  const DocumentOptions& options_;
  const std::function<void(std::string_view)>& work_;
  LeftOut left_out_;
  std::int64_t lines_ = 0, first_line_ = 0;
  std::string text_;
};

struct Format {
  const char* ending;
  void (Reader::*read)();
};

constexpr Format kFormats[] = {{".txt", &Reader::read_text},
                               {".jsonl", &Reader::read_json},
                               {".parquet", &Reader::read_parquet}};

const Format& format_of(const fs::path& file) {
  const fs::path ending = uncompressed_name(file).extension();
  for (const Format& format : kFormats) {
    if (ending == format.ending) return format;
  }
  throw std::runtime_error(fmt::format(
      "{}: unknown kind of file; known: .txt, .jsonl, .parquet, each also with .gz or .zst",
      file.string()));
}

}  // namespace

void check_text_file(const fs::path& file) {
  if (!fs::exists(file)) throw std::runtime_error(fmt::format("{}: no such file", file.string()));
  if (!fs::is_regular_file(file)) {
    throw std::runtime_error(fmt::format("{}: is not a file", file.string()));
  }
  format_of(file);
}

LeftOut for_each_document(const fs::path& file, const DocumentOptions& options,
                          const std::function<void(std::string_view text)>& work) {
  Reader reader(file, options, work);
  (reader.*format_of(file).read)();
  return reader.left_out();
}

}  // namespace ssa
