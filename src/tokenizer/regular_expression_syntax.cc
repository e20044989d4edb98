// From Oniguruma's syntax to PCRE2's: what is known to mean the same, piece by piece. Everything
// else is refused, since it would split texts in other places.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "tokenizer/regular_expression.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace {

constexpr std::string_view kCategories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc",
                                            "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps",
                                            "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So",
                                            "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cn", "Co"};
/// Of these Oniguruma means the script, PCRE2 by itself also characters that others share.
constexpr std::string_view kScripts[] = {"Han",   "Hiragana", "Katakana",  "Hangul",
                                         "Latin", "Greek",    "Cyrillic",  "Arabic",
                                         "Thai",  "Hebrew",   "Devanagari"};
/// Oniguruma's \w, which takes a few numbers of Latin-1 as well.
constexpr std::string_view kWord =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
/// What a letter must not stand beside where case is ignored: Oniguruma takes one character (ß, ﬁ,
/// ŉ, …) for such pairs.
constexpr std::string_view kFoldedPairs[] = {"ss", "st", "ff", "fi", "fl", "hi", "ij",
                                             "th", "wi", "yi", "ai", "ji", "ʼn"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hexadecimal(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

template <std::size_t kCount>
bool is_one_of(std::string_view name, const std::string_view (&names)[kCount]) {
  return std::ranges::find(names, name) != std::end(names);
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern), pattern_(pattern) {}

  std::string run() {
    while (!rest_.empty()) step();
    if (!groups_.empty()) refuse("a group that is not closed");
    return std::move(out_);
  }

 private:
  struct Group {
    std::size_t start;
    bool ignores_case;
  };

  [[noreturn]] void refuse(std::string_view what) const {
    throw std::invalid_argument(
        fmt::format("{} in the regular expression \"{}\" is not supported", what, pattern_));
  }

  char take() {
    if (rest_.empty()) refuse("an end too early");
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  bool take(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  void begin_atom() { atom_ = out_.size(); }

  void step() {
    const char c = take();
    switch (c) {
      case '(':
        open_group();
        return;
      case ')':
        close_group();
        return;
      case '[':
        begin_atom();
        character_class();
        return;
      case '|':
        out_ += c;
        atom_ = std::string::npos;
        return;
      case '*':
      case '+':
      case '?':
        quantifier(std::string(1, c));
        return;
      case '{':
        interval();
        return;
      case '\\':
        begin_atom();
        escape(/*in_class=*/false);
        return;
      default:
        literal(c);
    }
  }

  void literal(char c) {
    const std::string_view whole = pattern_.substr(pattern_.size() - rest_.size() - 1);
    const std::size_t length = first_code_point(whole).length;
    begin_atom();
    out_ += whole.substr(0, length);
    rest_.remove_prefix(length - 1);
    if (ignores_case()) check_folding(whole, c);
  }

  bool ignores_case() const { return !groups_.empty() && groups_.back().ignores_case; }

  void check_folding(std::string_view here, char c) const {
    if (static_cast<unsigned char>(c) >= 0x80)
      refuse("a letter beyond ASCII whose case is ignored");
    std::string pair(here.substr(0, 2));
    for (char& letter : pair) letter |= is_letter(letter) ? 0x20 : 0;
    if (is_one_of(pair, kFoldedPairs)) refuse(fmt::format("\"{}\" with its case ignored", pair));
  }

  void open_group() {
    Group group{out_.size(), ignores_case()};
    if (take("?:")) {
      out_ += "(?:";
    } else if (take("?i:")) {
      group.ignores_case = true;
      out_ += "(?i:";
    } else if (take("?>")) {
      out_ += "(?>";
    } else if (take("?=") || take("?!")) {
      out_ += pattern_[pattern_.size() - rest_.size() - 1] == '=' ? "(?=" : "(?!";
    } else if (take("?<=") || take("?<!")) {
      out_ += pattern_[pattern_.size() - rest_.size() - 1] == '=' ? "(?<=" : "(?<!";
    } else if (rest_.starts_with('?')) {
      refuse(fmt::format("(?{}", rest_.substr(1, 1)));
    } else {
      out_ += "(";
    }
    groups_.push_back(group);
    atom_ = std::string::npos;
  }

  void close_group() {
    if (groups_.empty()) refuse("a ) without (");
    out_ += ')';
    atom_ = groups_.back().start;
    groups_.pop_back();
  }

  /// After *, + or ? also a ? (as few as possible) or + (no way back).
  void quantifier(const std::string& text) {
    if (atom_ == std::string::npos) refuse("a repetition of nothing");
    out_ += text;
    if (rest_.starts_with('?') || rest_.starts_with('+')) out_ += take();
    if (rest_.starts_with('*') || rest_.starts_with('+') || rest_.starts_with('?')) {
      refuse("a repetition of a repetition");
    }
  }

  void interval() {
    const std::size_t end = rest_.find('}');
    const std::string_view inside = rest_.substr(0, end);
    const std::size_t comma = std::min(inside.find(','), inside.size());
    const bool numbers =
        std::ranges::all_of(inside, [](char c) { return is_digit(c) || c == ','; });
    if (end == rest_.npos || inside.empty() || inside == "," || !numbers ||
        std::ranges::count(inside, ',') > 1) {
      refuse("a { that is no repetition");
    }
    if (atom_ == std::string::npos) refuse("a repetition of nothing");
    const std::string least(comma == 0 ? "0" : inside.substr(0, comma));
    out_ += fmt::format("{{{}{}}}", least, inside.substr(comma));
    rest_.remove_prefix(end + 1);
    if (rest_.starts_with('?')) {  // "{n}?" may be left out altogether, says Oniguruma
      if (comma == inside.size()) refuse("{n}?");
      out_ += take();
    } else if (take("+")) {  // a repetition of the repetition, not one without a way back
      out_.insert(atom_, "(?:");
      out_ += ")+";
    }
  }

  void character_class() {
    out_ += '[';
    if (take("^")) out_ += '^';
    if (rest_.starts_with(']')) refuse("a class that begins with ]");
    while (true) {
      const char c = take();
      if (c == ']') break;
      if (c == '[') refuse("a class in a class");
      if (c == '&' && rest_.starts_with('&')) refuse("&& in a class");
      if (c == '\\') {
        escape(/*in_class=*/true);
      } else {
        out_ += c;
      }
      if (ignores_case() && static_cast<unsigned char>(c) >= 0x80) {
        refuse("a letter beyond ASCII whose case is ignored");
      }
    }
    out_ += ']';
  }

  void escape(bool in_class) {
    const char c = take();
    const auto code_point = [&](std::string_view digits) {
      if (digits.empty() || digits.size() > 6 || !std::ranges::all_of(digits, is_hexadecimal)) {
        refuse("a \\x that is no code point");
      }
      out_ += fmt::format("\\x{{{}}}", digits);
    };
    switch (c) {
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
      case 's':
      case 'S':
      case 'd':
      case 'D':
        out_ += {'\\', c};
        return;
      case 'v':
        out_ += "\\x{0B}";
        return;
      case 'w':
        out_ += in_class ? std::string(kWord) : fmt::format("[{}]", kWord);
        return;
      case 'W':
        if (in_class) refuse("\\W in a class");
        out_ += fmt::format("[^{}]", kWord);
        return;
      case 'p':
      case 'P':
        property(c == 'P');
        return;
      case 'u':
        code_point(rest_.substr(0, 4));
        rest_.remove_prefix(4);
        return;
      case 'x': {
        if (!take("{")) {
          code_point(rest_.substr(0, 2));
          if (rest_.front() > '7') refuse("a byte \\x80 or above");
          rest_.remove_prefix(2);
          return;
        }
        const std::size_t end = std::min(rest_.find('}'), rest_.size());
        code_point(rest_.substr(0, end));
        rest_.remove_prefix(std::min(end + 1, rest_.size()));
        return;
      }
      default:
        if (is_letter(c) || is_digit(c)) refuse(fmt::format("\\{}", c));
        if (static_cast<unsigned char>(c) < 0x80) out_ += '\\';
        out_ += c;
    }
  }

  void property(bool negated) {
    if (!take("{")) refuse("\\p without {");
    if (take("^")) negated = !negated;
    const std::size_t end = std::min(rest_.find('}'), rest_.size());
    const std::string_view name = rest_.substr(0, end);
    if (end == rest_.size()) refuse("\\p{ without }");
    const bool script = is_one_of(name, kScripts);
    if (!script && !is_one_of(name, kCategories) && name != "Alphabetic") {
      refuse(fmt::format("\\p{{{}}}", name));
    }
    out_ += fmt::format("\\{}{{{}{}}}", negated ? 'P' : 'p', script ? "sc:" : "", name);
    rest_.remove_prefix(end + 1);
  }

  std::string_view rest_, pattern_;
  std::string out_;
  std::vector<Group> groups_;
  std::size_t atom_ = std::string::npos;  ///< where in `out_` what may be repeated begins
};

}  // namespace

std::string translate_regular_expression(std::string_view pattern) {
  check_utf8(pattern);
  return Translator(pattern).run();
}

}  // namespace ssa
