#include "text/corpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "config/counted.h"
#include "files/lines.h"
#include "ssa/check.h"
#include "text/words.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

std::vector<TokenId> encoded(std::string_view line, const Tokenizer& tokenizer,
                             const CorpusOptions& options) {
  std::vector<TokenId> ids = tokenizer.encode(line, /*add_special_tokens=*/true);
  SSA_CHECK(!options.padding || std::ranges::find(ids, *options.padding) == ids.end(),
            "the token of padding (id " << *options.padding << ") is written in the text");
  return ids;
}

}  // namespace

std::string CorpusReport::text(const CorpusOptions& options) const {
  std::string out = fmt::format("{}: {}, {}", file.string(), counted(lines, "line"),
                                counted(sentences, "sentence"));
  std::vector<std::string> reasons;
  const auto reason = [&](std::int64_t count, const std::string& words) {
    if (count > 0) reasons.push_back(fmt::format("{} {}", count, words));
  };
  reason(blank, "blank");
  reason(few_words, "of fewer than " + counted(options.least_words, "word"));
  reason(many_tokens, "of more than " + counted(options.most_tokens, "token"));
  reason(bad, "that are not UTF-8, or have padding written in them");
  if (!reasons.empty()) out += fmt::format("; left out: {}", fmt::join(reasons, ", "));
  if (carriage_returns > 0)
    out += fmt::format("; \\r\\n ends {}", counted(carriage_returns, "line"));
  if (byte_order_mark) out += "; begins with a byte order mark";
  return out;
}

void Corpus::read_file(const fs::path& file, const Tokenizer& tokenizer,
                       const CorpusOptions& options) {
  CorpusReport report{.file = file};
  for_each_text_line(file, [&](const TextLine& line) {
    ++report.lines;
    report.byte_order_mark = report.byte_order_mark || line.byte_order_mark;
    report.carriage_returns += line.carriage_return;
    const std::int64_t words = count_words(line.text);
    if (words < options.least_words || words == 0) {
      ++(words == 0 ? report.blank : report.few_words);
      return;
    }
    std::vector<TokenId> ids;
    try {
      ids = encoded(line.text, tokenizer, options);
    } catch (const std::invalid_argument& error) {
      if (!options.skip_bad_lines) {
        throw std::invalid_argument(
            fmt::format("{} (skip_bad_lines leaves such lines out)", error.what()));
      }
      ++report.bad;
      return;
    }
    if (static_cast<std::int64_t>(ids.size()) > options.most_tokens) {
      ++report.many_tokens;
      return;
    }
    ++report.sentences;
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    starts_.push_back(static_cast<std::int64_t>(ids_.size()));
  });
  reports_.push_back(std::move(report));
}

Corpus Corpus::read(const std::vector<fs::path>& files, const Tokenizer& tokenizer,
                    const CorpusOptions& options) {
  Corpus corpus;
  for (const fs::path& file : files) corpus.read_file(file, tokenizer, options);
  if (corpus.size() == 0) {
    std::vector<std::string> reports;
    for (const CorpusReport& report : corpus.reports_) reports.push_back(report.text(options));
    throw std::runtime_error(fmt::format("no sentence in the text: {}", fmt::join(reports, "; ")));
  }
  return corpus;
}

}  // namespace ssa
