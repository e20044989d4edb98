#include "eval/answer_metric.h"

#include <algorithm>
#include <iterator>

#include "tokenizer/unicode.h"

namespace ssa {
namespace {

bool is_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

bool is_article(std::string_view run) { return run == "a" || run == "an" || run == "the"; }

}  // namespace

std::vector<std::string> answer_words(std::string_view answer) {
  std::string text = lowercase(answer);
  std::erase_if(text, is_punctuation);
  std::vector<std::string> words;
  std::string word, run;  // `run`: the letters and numbers at its end, which may be an article
  const auto end_run = [&] {
    const bool article = is_article(run);
    if (!article) word += run;
    run.clear();
    return article;
  };
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(word);
    word.clear();
  };
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint point = first_code_point(rest);
    const std::string_view character = rest.substr(0, point.length);
    rest.remove_prefix(point.length);
    const CharClass kind = char_class(point.value);
    if (kind == CharClass::letter || kind == CharClass::number) {
      run += character;
      continue;
    }
    if (end_run() || kind == CharClass::space) end_word();
    if (kind != CharClass::space) word += character;
  }
  end_run();
  end_word();
  return words;
}

double exact_match(const std::vector<std::string>& predicted,
                   const std::vector<std::string>& right) {
  return predicted == right ? 1 : 0;
}

double word_f1(const std::vector<std::string>& predicted, const std::vector<std::string>& right) {
  if (predicted.empty() || right.empty()) return exact_match(predicted, right);
  std::vector<std::string> a = predicted, b = right, common;
  std::ranges::sort(a);
  std::ranges::sort(b);
  std::ranges::set_intersection(a, b, std::back_inserter(common));
  return 2.0 * static_cast<double>(common.size()) / static_cast<double>(a.size() + b.size());
}

}  // namespace ssa
