// How much a predicted answer has in common with a right one, word for word: SQuAD's exact match
// and F1 (Rajpurkar et al. 2016, arXiv 1606.05250), by which SuperGLUE measures ReCoRD.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace ssa {

/// The words of an answer that count: in lower case, without ASCII punctuation and without the
/// articles a, an and the.
std::vector<std::string> answer_words(std::string_view answer);

/// 1 where the words are the same in the same order, else 0.
double exact_match(const std::vector<std::string>& predicted,
                   const std::vector<std::string>& right);

/// Harmonic mean of the shares of words of either that the other has too, each as often as it has
/// it. Of answers without words: whether neither has any.
double word_f1(const std::vector<std::string>& predicted, const std::vector<std::string>& right);

struct AnswerMetric {
  std::string_view name;
  double (*of)(const std::vector<std::string>& predicted, const std::vector<std::string>& right);
};
inline constexpr std::array kAnswerMetrics = {AnswerMetric{"em", exact_match},
                                              AnswerMetric{"f1", word_f1}};

inline std::vector<std::string> answer_metric_names() {
  std::vector<std::string> names;
  for (const AnswerMetric& metric : kAnswerMetrics) names.emplace_back(metric.name);
  return names;
}

}  // namespace ssa
