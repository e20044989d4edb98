#include "tokenizer/pre_tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <stdexcept>

#include "tokenizer/byte_level.h"
#include "tokenizer/newer_characters.h"
#include "tokenizer/regular_expression.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kPreTokenizerNames[] = {
    "BertPreTokenizer", "ByteLevel",   "CharDelimiterSplit",
    "Digits",           "FixedLength", "Metaspace",
    "Punctuation",      "Split",       "Whitespace",
    "WhitespaceSplit",  "Sequence"};
constexpr std::string_view kBehaviors[] = {"Removed", "Isolated", "MergedWithPrevious",
                                           "MergedWithNext", "Contiguous"};
constexpr std::string_view kSchemes[] = {"always", "first", "never"};
constexpr std::size_t kMostLength = 1 << 20;

/// \w+|[^\w\s]+ of Rust, whose \w has the joiners.
constexpr const char* kWordsAndSigns =
    "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]+|"
    "[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}\\s]+";

/// A part of a text that matches, or one between two that do.
struct Part {
  TextRange range;
  bool match;
};

void append_part(std::size_t begin, std::size_t end, bool match, std::vector<Part>& parts) {
  if (begin < end || match) parts.push_back({{begin, end}, match});
}

/// The whole text as parts: the pattern's matches and what is between them.
void find_parts(std::string_view text, const Pattern& pattern, bool invert,
                std::vector<Part>& parts) {
  thread_local std::vector<TextRange> matches;
  matches.clear();
  pattern.find(text, matches);
  std::size_t done = 0;
  for (const TextRange& match : matches) {
    if (done < match.begin) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, invert});
}

/// The same where every character that `is_match` is a match.
template <class IsMatch>
void find_characters(std::string_view text, const IsMatch& is_match, std::vector<Part>& parts) {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(text.substr(at));
    const std::size_t end = at + point.length;
    if (is_match(point.value)) {
      append_part(done, at, false, parts);
      parts.push_back({{at, end}, true});
      done = end;
    }
    at = end;
  }
  append_part(done, text.size(), false, parts);
}

/// Joins matches to the part before or after them; a match after a match stays by itself.
void merge(std::vector<Part>& parts, bool with_next) {
  std::vector<Part> merged;
  if (with_next) std::ranges::reverse(parts);
  bool after_match = false;
  for (const Part& part : parts) {
    if (part.match && !after_match && !merged.empty()) {
      TextRange& range = merged.back().range;
      range = {std::min(range.begin, part.range.begin), std::max(range.end, part.range.end)};
    } else {
      merged.push_back({part.range, false});
    }
    after_match = part.match;
  }
  if (with_next) std::ranges::reverse(merged);
  parts = std::move(merged);
}

/// Joins matches that follow one another.
void join_matches(std::vector<Part>& parts) {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].match == parts[kept].match) {
      parts[kept].range.end = parts[i].range.end;
    } else {
      parts[++kept] = parts[i];
    }
  }
  parts.resize(std::min(parts.size(), kept + 1));
}

void append_pieces(const Piece& piece, SplitBehavior behavior, std::vector<Part>& parts,
                   std::vector<Piece>& out) {
  if (behavior == SplitBehavior::merged_with_previous) merge(parts, /*with_next=*/false);
  if (behavior == SplitBehavior::merged_with_next) merge(parts, /*with_next=*/true);
  if (behavior == SplitBehavior::contiguous) join_matches(parts);
  for (const auto& [range, match] : parts) {
    if (range.begin == range.end || (match && behavior == SplitBehavior::removed)) continue;
    out.push_back({piece.text.substr(range.begin, range.end - range.begin),
                   piece.at_start && range.begin == 0});
  }
}

/// A step at work.
class Splitter {
 public:
  Splitter(const PreTokenizerStep& step, bool spell, Pieces& pieces)
      : step_(step), spell_(spell), pieces_(pieces) {}

  void run(const Piece& piece) {
    switch (step_.kind) {
      case PreTokenizerKind::bert:
        bert(piece);
        return;
      case PreTokenizerKind::byte_level:
        byte_level(piece);
        return;
      case PreTokenizerKind::char_delimiter: {
        const char32_t delimiter = first_code_point(step_.character).value;
        characters(piece, SplitBehavior::removed, [=](char32_t c) { return c == delimiter; });
        return;
      }
      case PreTokenizerKind::digits:
        characters(piece, step_.individual ? SplitBehavior::isolated : SplitBehavior::contiguous,
                   is_numeric);
        return;
      case PreTokenizerKind::fixed_length:
        fixed_length(piece);
        return;
      case PreTokenizerKind::metaspace:
        metaspace(piece);
        return;
      case PreTokenizerKind::punctuation:
        characters(piece, step_.behavior, is_bert_punctuation);
        return;
      case PreTokenizerKind::split:
        matches(piece, step_.behavior, step_.invert);
        return;
      case PreTokenizerKind::whitespace:
        matches(piece, SplitBehavior::removed, /*invert=*/true);
        return;
      case PreTokenizerKind::whitespace_split:
        characters(piece, SplitBehavior::removed, is_space);
        return;
    }
  }

 private:
  static bool is_space(char32_t c) { return char_class(c) == CharClass::space; }

  template <class IsMatch>
  void characters(const Piece& piece, SplitBehavior behavior, const IsMatch& is_match) {
    parts_.clear();
    find_characters(piece.text, is_match, parts_);
    append_pieces(piece, behavior, parts_, pieces_.list);
  }

  void matches(const Piece& piece, SplitBehavior behavior, bool invert) {
    parts_.clear();
    find_parts(piece.text, *step_.pattern, invert, parts_);
    append_pieces(piece, behavior, parts_, pieces_.list);
  }

  std::string_view keep(std::string text) { return pieces_.texts.emplace_back(std::move(text)); }

  void bert(const Piece& piece) {
    const std::size_t first = pieces_.list.size();
    characters(piece, SplitBehavior::removed, is_space);
    const std::vector<Piece> words(pieces_.list.begin() + static_cast<std::ptrdiff_t>(first),
                                   pieces_.list.end());
    pieces_.list.resize(first);
    for (const Piece& word : words) characters(word, SplitBehavior::isolated, is_bert_punctuation);
  }

  void byte_level(Piece piece) {
    if (step_.prefix_space && piece.text.front() != ' ') {
      piece.text = keep(std::string(" ").append(piece.text));
    }
    std::string_view rest = piece.text;
    while (!rest.empty()) {
      const std::size_t length = step_.by_words ? first_word_length(rest) : rest.size();
      const std::string_view word = rest.substr(0, length);
      pieces_.list.push_back({spell_ ? keep(spell_bytes(word)) : word,
                              piece.at_start && word.data() == piece.text.data()});
      rest.remove_prefix(length);
    }
  }

  void fixed_length(const Piece& piece) {
    std::size_t begin = 0, end = 0;
    while (end < piece.text.size()) {
      for (std::size_t i = 0; i < step_.length && end < piece.text.size(); ++i) {
        end += first_code_point(piece.text.substr(end)).length;
      }
      pieces_.list.push_back({piece.text.substr(begin, end - begin), piece.at_start && begin == 0});
      begin = end;
    }
  }

  void metaspace(const Piece& piece) {
    std::string text;
    text.reserve(piece.text.size() + step_.character.size());
    for (const char c : piece.text) {
      if (c == ' ') {
        text += step_.character;
      } else {
        text += c;
      }
    }
    const bool wanted = step_.scheme == PrependScheme::always ||
                        (step_.scheme == PrependScheme::first && piece.at_start);
    if (wanted && !text.starts_with(step_.character)) text.insert(0, step_.character);
    const Piece changed{keep(std::move(text)), piece.at_start};
    if (step_.split) {
      const char32_t mark = first_code_point(step_.character).value;
      characters(changed, SplitBehavior::merged_with_next, [=](char32_t c) { return c == mark; });
    } else {
      pieces_.list.push_back(changed);
    }
  }

  const PreTokenizerStep& step_;
  bool spell_;
  Pieces& pieces_;
  static thread_local std::vector<Part> parts_;  ///< kept: an allocation for every text otherwise
};

thread_local std::vector<Part> Splitter::parts_;

template <class Enum>
Enum read_name(const JsonNode& node, Names names) {
  const auto found = std::ranges::find(names, node.text());
  if (found == names.end()) {
    node.refuse(
        fmt::format("\"{}\" is not supported; supported: {}", node.text(), fmt::join(names, ", ")));
  }
  return static_cast<Enum>(found - names.begin());
}

void read_metaspace(const JsonNode& node, PreTokenizerStep& step) {
  node.allow_only(
      {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  step.character = node.at("replacement").character();
  step.scheme = read_prepend_scheme(node);
  const JsonNode split = node.find("split");
  step.split = split.is_null() || split.flag();
}

void read_step(const JsonNode& node, PreTokenizerStep& step) {
  switch (step.kind) {
    case PreTokenizerKind::byte_level: {
      node.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
      step.prefix_space = node.at("add_prefix_space").flag();
      const JsonNode use_regex = node.find("use_regex");  // of early versions, which always did
      step.by_words = use_regex.is_null() || use_regex.flag();
      return;
    }
    case PreTokenizerKind::char_delimiter:
      node.allow_only({"type", "delimiter"});
      step.character = node.at("delimiter").character();
      return;
    case PreTokenizerKind::digits:
      node.allow_only({"type", "individual_digits"});
      step.individual = node.at("individual_digits").flag();
      return;
    case PreTokenizerKind::fixed_length:
      node.allow_only({"type", "length"});
      step.length = node.at("length").count(kMostLength);
      if (step.length == 0) node.at("length").refuse_type("at least 1");
      return;
    case PreTokenizerKind::metaspace:
      read_metaspace(node, step);
      return;
    case PreTokenizerKind::punctuation: {
      node.allow_only({"type", "behavior"});
      const JsonNode behavior = node.find("behavior");
      step.behavior = behavior.is_null() ? SplitBehavior::isolated
                                         : read_name<SplitBehavior>(behavior, kBehaviors);
      return;
    }
    case PreTokenizerKind::split:
      node.allow_only({"type", "pattern", "behavior", "invert"});
      step.pattern = read_pattern(node.at("pattern"));
      step.behavior = read_name<SplitBehavior>(node.at("behavior"), kBehaviors);
      step.invert = node.at("invert").flag();
      return;
    case PreTokenizerKind::whitespace:
      node.allow_only({"type"});
      step.pattern = std::make_shared<RegularExpression>(kWordsAndSigns);
      return;
    case PreTokenizerKind::bert:
    case PreTokenizerKind::whitespace_split:
      node.allow_only({"type"});
      return;
  }
}

}  // namespace

PrependScheme read_prepend_scheme(const JsonNode& metaspace) {
  const JsonNode name = metaspace.find("prepend_scheme");
  const auto scheme =
      name.is_null() ? PrependScheme::always : read_name<PrependScheme>(name, kSchemes);
  const JsonNode prefix = metaspace.find("add_prefix_space");
  if (prefix.is_null() || prefix.flag()) return scheme;
  if (!name.is_null() && scheme != PrependScheme::never) {
    prefix.refuse("false, but prepend_scheme is not \"never\"");
  }
  return PrependScheme::never;
}

PreTokenizer::PreTokenizer(const JsonNode& node) { read(node); }

void PreTokenizer::read(const JsonNode& node) {
  if (node.is_null()) return;
  const std::size_t type = node.type("pre-tokenizer", kPreTokenizerNames);
  if (type + 1 == std::size(kPreTokenizerNames)) {
    node.allow_only({"type", "pretokenizers"});
    for (const JsonNode& part : node.at("pretokenizers").elements()) read(part);
    return;
  }
  PreTokenizerStep step;
  step.kind = static_cast<PreTokenizerKind>(type);
  read_step(node, step);
  steps_.push_back(std::move(step));
}

bool PreTokenizer::ends_in_bytes() const {
  return !steps_.empty() && steps_.back().kind == PreTokenizerKind::byte_level;
}

void PreTokenizer::split(const Piece& text, bool spell, Pieces& pieces) const {
  pieces.texts.clear();
  pieces.list.assign(1, text);
  for (const PreTokenizerStep& step : steps_) {
    pieces.before.swap(pieces.list);
    pieces.list.clear();
    Splitter splitter(step, spell || &step != &steps_.back(), pieces);
    for (const Piece& piece : pieces.before) splitter.run(piece);
  }
}

std::vector<std::string> PreTokenizer::names() const {
  std::vector<std::string> names;
  for (const PreTokenizerStep& step : steps_) {
    names.emplace_back(kPreTokenizerNames[static_cast<std::size_t>(step.kind)]);
  }
  return names;
}

}  // namespace ssa
