#include "text/text_documents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "files/byte_stream.h"
#include "files/file_descriptor.h"
#include "files/json.h"
#include "files/lines.h"
#include "files/utf8.h"
#include "ssa/check.h"
#include "text/parquet_column.h"
#include "text/words.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

/// The documents of one file.
class Reader {
 public:
  Reader(const fs::path& file, const DocumentOptions& options,
         const std::function<void(std::string_view)>& work)
      : file_(file), options_(options), work_(work) {}

  void read_text() {
    for_each_text_line(file_, [this](const TextLine& line) {
      if (line.text == options_.document_line) {
        end_text();
        return;
      }
      guarded(line.number, [&] {
        check_utf8(line.text);
        if (first_line_ == 0) first_line_ = line.number;
        text_.append(line.text).push_back('\n');
      });
    });
    if (!text_.empty()) end_text();
  }

  void read_json() {
    for_each_text_line(file_, [this](const TextLine& line) {
      if (line.text.find_first_not_of(" \t") == line.text.npos) return;
      guarded(line.number, [&] { document(field_of(line.text)); });
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
  void end_text() {
    if (!text_.empty()) text_.pop_back();
    guarded(std::exchange(first_line_, 0), [this] { document(text_); });
    text_.clear();
  }

  std::string field_of(std::string_view line) const {
    check_utf8(line);
    const auto object = parse_json<SortedJson>(line);
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
    return std::move(field->get<std::string>());
  }

  void document(std::string_view text) {
    if (is_blank(text)) {
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
  std::int64_t first_line_ = 0;
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
  format_of(file);
  open_to_read(file);
}

LeftOut for_each_document(const fs::path& file, const DocumentOptions& options,
                          const std::function<void(std::string_view text)>& work) {
  Reader reader(file, options, work);
  (reader.*format_of(file).read)();
  return reader.left_out();
}

}  // namespace ssa
