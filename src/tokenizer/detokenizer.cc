#include "tokenizer/detokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <iterator>
#include <utility>

#include "tokenizer/byte_level.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace {

using Tokens = std::vector<std::string>;

constexpr std::string_view kDecoderNames[] = {"BPEDecoder", "ByteFallback", "ByteLevel",
                                              "Fuse",       "Metaspace",    "Replace",
                                              "Strip",      "WordPiece",    "Sequence"};
constexpr std::size_t kMostStripped = 1 << 20;

std::string replace_all(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  if (what.empty()) return std::string(text);
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what)) {
    out.append(text.substr(0, at)).append(by);
    text.remove_prefix(at + what.size());
  }
  return out.append(text);
}

std::string fuse(const Tokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

/// The byte of a token <0x41>.
bool read_byte(std::string_view token, char& byte) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with(">")) return false;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  byte = static_cast<char>(value);
  return error == std::errc() && end == token.data() + 5;
}

/// Runs of <0x..> become their text, or one U+FFFD a byte where they are none.
Tokens byte_fallback(const Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto end_run = [&] {
    if (bytes.empty()) return;
    if (find_invalid_utf8(bytes)) {
      out.insert(out.end(), bytes.size(), "\uFFFD");
    } else {
      out.push_back(bytes);
    }
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    char byte = 0;
    if (read_byte(token, byte)) {
      bytes += byte;
    } else {
      end_run();
      out.push_back(token);
    }
  }
  end_run();
  return out;
}

Tokens byte_level(const Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += token_bytes(token).value_or(token);
  return {replace_invalid_utf8(std::move(bytes))};
}

std::string replace_matches(std::string_view token, const DetokenizerStep& step) {
  std::vector<TextRange> matches;
  step.pattern->find(token, matches);
  std::string out;
  std::size_t done = 0;
  for (const TextRange& match : matches) {
    out.append(token.substr(done, match.begin - done)).append(step.text);
    done = match.end;
  }
  return out.append(token.substr(done));
}

std::string strip(std::string_view token, const DetokenizerStep& step) {
  for (std::size_t i = 0; i < step.start && token.starts_with(step.text); ++i) {
    token.remove_prefix(step.text.size());
  }
  for (std::size_t i = 0; i < step.stop && token.ends_with(step.text); ++i) {
    token.remove_suffix(step.text.size());
  }
  return std::string(token);
}

/// What BERT's original code does to English.
std::string clean_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, by] : kRules) text = replace_all(text, what, by);
  return text;
}

std::string word_piece(std::string token, bool first, const DetokenizerStep& step) {
  if (!first) {
    if (token.starts_with(step.text)) {
      token.erase(0, step.text.size());
    } else {
      token = std::string(" ").append(token);
    }
  }
  return step.clean_up ? clean_up(std::move(token)) : token;
}

Tokens apply(const DetokenizerStep& step, Tokens tokens) {
  switch (step.kind) {
    case DetokenizerKind::byte_fallback:
      return byte_fallback(tokens);
    case DetokenizerKind::byte_level:
      return byte_level(tokens);
    case DetokenizerKind::fuse:
      return {fuse(tokens)};
    default:
      break;
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string& token = tokens[i];
    const bool first = i == 0, last = i + 1 == tokens.size();
    switch (step.kind) {
      case DetokenizerKind::byte_pairs:
        token = replace_all(token, step.text, last ? "" : " ");
        break;
      case DetokenizerKind::metaspace:
        token = replace_all(token, step.text, first && step.drop_first ? "" : " ");
        break;
      case DetokenizerKind::replace:
        token = replace_matches(token, step);
        break;
      case DetokenizerKind::strip:
        token = strip(token, step);
        break;
      case DetokenizerKind::word_piece:
        token = word_piece(std::move(token), first, step);
        break;
      default:
        break;
    }
  }
  return tokens;
}

void read_step(const JsonNode& node, DetokenizerStep& step) {
  switch (step.kind) {
    case DetokenizerKind::byte_pairs:
      node.allow_only({"type", "suffix"});
      step.text = node.at("suffix").text();
      return;
    case DetokenizerKind::byte_fallback:
    case DetokenizerKind::fuse:
      node.allow_only({"type"});
      return;
    case DetokenizerKind::byte_level:
      node.allow_only({"type", "trim_offsets", "add_prefix_space", "use_regex"});
      return;
    case DetokenizerKind::metaspace:
      node.allow_only(
          {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
      step.text = node.at("replacement").character();
      step.drop_first = read_prepend_scheme(node) != PrependScheme::never;
      return;
    case DetokenizerKind::replace:
      node.allow_only({"type", "pattern", "content"});
      step.pattern = read_pattern(node.at("pattern"));
      step.text = node.at("content").text();
      return;
    case DetokenizerKind::strip:
      node.allow_only({"type", "content", "start", "stop"});
      step.text = node.at("content").character();
      step.start = node.at("start").count(kMostStripped);
      step.stop = node.at("stop").count(kMostStripped);
      return;
    case DetokenizerKind::word_piece:
      node.allow_only({"type", "prefix", "cleanup"});
      step.text = node.at("prefix").text();
      step.clean_up = node.at("cleanup").flag();
      return;
  }
}

}  // namespace

Detokenizer::Detokenizer(const JsonNode& node) : none_(node.is_null()) { read(node); }

void Detokenizer::read(const JsonNode& node) {
  if (node.is_null()) return;
  const std::size_t type = node.type("decoder", kDecoderNames);
  if (type + 1 == std::size(kDecoderNames)) {
    node.allow_only({"type", "decoders"});
    for (const JsonNode& part : node.at("decoders").elements()) read(part);
    return;
  }
  DetokenizerStep step;
  step.kind = static_cast<DetokenizerKind>(type);
  read_step(node, step);
  steps_.push_back(std::move(step));
}

std::string Detokenizer::join(Tokens tokens) const {
  if (none_) return fmt::format("{}", fmt::join(tokens, " "));
  for (const DetokenizerStep& step : steps_) tokens = apply(step, std::move(tokens));
  return fuse(tokens);
}

std::vector<std::string> Detokenizer::names() const {
  std::vector<std::string> names;
  for (const DetokenizerStep& step : steps_) {
    names.emplace_back(kDecoderNames[static_cast<std::size_t>(step.kind)]);
  }
  return names;
}

}  // namespace ssa
