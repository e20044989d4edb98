#include "tokenizer/normalizer.h"

#include <iterator>
#include <stdexcept>

#include "tokenizer/byte_level.h"
#include "tokenizer/newer_characters.h"
#include "tokenizer/normal_forms.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace {

constexpr std::string_view kNormalizerNames[] = {
    "BertNormalizer", "ByteLevel", "Lowercase", "NFC",   "NFD",          "NFKC",    "NFKD", "Nmt",
    "Precompiled",    "Prepend",   "Replace",   "Strip", "StripAccents", "Sequence"};

constexpr char32_t kReplacement = 0xFFFD;

/// Every character by itself. `at_start` as of apply(): nothing may become of the first ones.
template <class Append>
std::string each_character(std::string_view text, bool& at_start, const Append& append) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    append(out, point.value, text.substr(0, point.length));
    if (out.empty()) at_start = false;
    text.remove_prefix(point.length);
  }
  return out;
}

bool is_chinese(char32_t c) {
  // Without U+2B820 to U+2B91F, as Hugging Face's tokenizers have it.
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_space(char32_t c) { return char_class(c) == CharClass::space; }

/// Devlin, Chang, Lee, Toutanova (2019), BERT: the text's side of its WordPiece.
std::string bert(std::string text, const NormalizerStep& step, bool& at_start) {
  if (step.clean_text) {
    text = each_character(text, at_start, [](std::string& out, char32_t c, std::string_view bytes) {
      if (c == 0 || c == kReplacement || is_bert_control(c)) return;
      if (is_space(c)) {
        out += ' ';
      } else {
        out += bytes;
      }
    });
  }
  if (step.split_chinese) {
    text = each_character(text, at_start, [](std::string& out, char32_t c, std::string_view bytes) {
      if (is_chinese(c)) {
        out.append(" ").append(bytes).append(" ");
      } else {
        out += bytes;
      }
    });
  }
  if (step.strip_accents) {
    text = each_character(normal_form(text, NormalForm::nfd), at_start,
                          [](std::string& out, char32_t c, std::string_view bytes) {
                            if (!is_bert_mark(c)) out += bytes;
                          });
  }
  return step.lowercase ? lowercase(text) : text;
}

/// The rules of SentencePiece's name "nmt", without the normal form.
std::string nmt(std::string_view text, bool& at_start) {
  return each_character(text, at_start, [](std::string& out, char32_t c, std::string_view bytes) {
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
        c == 0x9F) {
      return;
    }
    const bool space = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == kReplacement;
    if (space) {
      out += ' ';
    } else {
      out += bytes;
    }
  });
}

std::string replace(std::string_view text, const NormalizerStep& step, bool& at_start) {
  std::vector<TextRange> matches;
  step.pattern->find(text, matches);
  std::string out;
  std::size_t done = 0;
  for (const TextRange& match : matches) {
    out.append(text.substr(done, match.begin - done)).append(step.content);
    done = match.end;
    if (out.empty() && done > 0) at_start = false;
  }
  return out.append(text.substr(done));
}

std::string strip(std::string_view text, const NormalizerStep& step, bool& at_start) {
  while (step.left && !text.empty()) {
    const CodePoint point = first_code_point(text);
    if (!is_space(point.value)) break;
    text.remove_prefix(point.length);
    at_start = false;
  }
  while (step.right && !text.empty()) {
    std::size_t last = text.size() - 1;
    while ((static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    if (!is_space(first_code_point(text.substr(last)).value)) break;
    text = text.substr(0, last);
  }
  return std::string(text);
}

std::string strip_accents(std::string_view text, bool& at_start) {
  return each_character(text, at_start, [](std::string& out, char32_t c, std::string_view bytes) {
    if (!is_accent(c)) out += bytes;
  });
}

std::string apply_step(const NormalizerStep& step, std::string text, bool& at_start) {
  switch (step.kind) {
    case NormalizerKind::bert:
      return bert(std::move(text), step, at_start);
    case NormalizerKind::byte_level:
      return spell_bytes(text);
    case NormalizerKind::lowercase:
      return lowercase(text);
    case NormalizerKind::nfc:
      return normal_form(text, NormalForm::nfc);
    case NormalizerKind::nfd:
      return normal_form(text, NormalForm::nfd);
    case NormalizerKind::nfkc:
      return normal_form(text, NormalForm::nfkc);
    case NormalizerKind::nfkd:
      return normal_form(text, NormalForm::nfkd);
    case NormalizerKind::nmt:
      return nmt(text, at_start);
    case NormalizerKind::precompiled:
      return step.characters->apply(text);
    case NormalizerKind::prepend:
      return text.empty() ? text : step.content + text;
    case NormalizerKind::replace:
      return replace(text, step, at_start);
    case NormalizerKind::strip:
      return strip(text, step, at_start);
    case NormalizerKind::strip_accents:
      return strip_accents(text, at_start);
  }
  throw std::logic_error("no such normalizer");
}

void read_bert(const JsonNode& node, NormalizerStep& step) {
  node.allow_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  step.clean_text = node.at("clean_text").flag();
  step.split_chinese = node.at("handle_chinese_chars").flag();
  step.lowercase = node.at("lowercase").flag();
  const JsonNode accents = node.find("strip_accents");
  step.strip_accents = accents.is_null() ? step.lowercase : accents.flag();
}

void read_precompiled(const JsonNode& node, NormalizerStep& step) {
  node.allow_only({"type", "precompiled_charsmap"});
  const JsonNode map = node.at("precompiled_charsmap");
  try {
    step.characters = std::make_shared<CharacterMap>(CharacterMap::of_base64(map.text()));
  } catch (const std::invalid_argument& error) {
    map.refuse(error.what());
  }
}

}  // namespace

Normalizer::Normalizer(const JsonNode& node) { read(node); }

void Normalizer::read(const JsonNode& node) {
  if (node.is_null()) return;
  const std::size_t type = node.type("normalizer", kNormalizerNames);
  if (type + 1 == std::size(kNormalizerNames)) {
    node.allow_only({"type", "normalizers"});
    for (const JsonNode& part : node.at("normalizers").elements()) read(part);
    return;
  }
  NormalizerStep step;
  step.kind = static_cast<NormalizerKind>(type);
  switch (step.kind) {
    case NormalizerKind::bert:
      read_bert(node, step);
      break;
    case NormalizerKind::precompiled:
      read_precompiled(node, step);
      break;
    case NormalizerKind::prepend:
      node.allow_only({"type", "prepend"});
      step.content = node.at("prepend").text();
      break;
    case NormalizerKind::replace:
      node.allow_only({"type", "pattern", "content"});
      step.pattern = read_pattern(node.at("pattern"));
      step.content = node.at("content").text();
      break;
    case NormalizerKind::strip:
      node.allow_only({"type", "strip_left", "strip_right"});
      step.left = node.at("strip_left").flag();
      step.right = node.at("strip_right").flag();
      break;
    default:
      node.allow_only({"type"});
  }
  steps_.push_back(std::move(step));
}

std::string Normalizer::apply(std::string text, bool& at_start) const {
  for (const NormalizerStep& step : steps_) text = apply_step(step, std::move(text), at_start);
  return text;
}

std::vector<std::string> Normalizer::names() const {
  std::vector<std::string> names;
  for (const NormalizerStep& step : steps_) {
    names.emplace_back(kNormalizerNames[static_cast<std::size_t>(step.kind)]);
  }
  return names;
}

}  // namespace ssa
