// Minimal pairs: two sentences that differ in what grammar says of them, scored by a language
// model.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "config/field.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace ssa {

/// The pairs that test one thing.
struct Paradigm {
  std::string name;                               ///< as its source names it; unique
  std::string phenomenon;                         ///< group of paradigms
  std::vector<std::array<std::string, 2>> pairs;  ///< {grammatical, ungrammatical}
};

/// A folder of Zorro's PHENOMENON-PARADIGM.txt (Huebner, Sulem, Fisher, Roth 2021): an
/// ungrammatical line, then its grammatical partner. In the order of names. Throws
/// std::runtime_error naming the folder without such files, or the file (and line) that does not
/// hold pairs.
std::vector<Paradigm> read_zorro(const std::filesystem::path& folder);

/// A folder of BLiMP's PARADIGM.jsonl (Warstadt et al. 2020): sentence_good, sentence_bad,
/// linguistics_term, UID. Throws as read_zorro.
std::vector<Paradigm> read_blimp(const std::filesystem::path& folder);

enum class SentenceScore {
  /// Mean cross-entropy (nats) over all tokens, special ones included, of the sentence as it
  /// stands,
  /// nothing masked; the lower one of a pair wins.
  holistic,
  /// Sum of the log-probabilities (nats) of all tokens but special ones, each masked alone in a
  /// forward pass of its own (Salazar et al. 2020); the higher one wins.
  pseudo_log_likelihood,
};

/// How far two scores of a pair may lie apart, as a share of the larger one, and still be one score
/// but for the rounding of the precision that computed them: 16 units of float32's last place, one
/// of bfloat16's (sums are in float32 there too).
double rounding_of(Precision precision);

struct ParadigmResult {
  std::string name, phenomenon;
  std::int64_t pairs = 0, right = 0, ties = 0;
  /// Pairs whose scores lie within the rounding (ties among them), and of these the right ones: how
  /// they are decided says nothing.
  std::int64_t close = 0, close_right = 0;
  std::vector<std::array<double, 2>> scores = {};  ///< of each pair's sentences

  /// Percent, a tie counting one half.
  double accuracy() const;
  /// Percent, were all close pairs wrong, or right.
  double least_accuracy() const;
  double most_accuracy() const;
  /// Of the accuracy, in percent, over pairs.
  double standard_error() const;
};

/// The score of each sentence; each is asked for once, wherever it stands.
using SentenceScores =
    std::function<std::vector<double>(const std::vector<std::string>& sentences)>;

std::vector<ParadigmResult> evaluate_minimal_pairs(const std::vector<Paradigm>& paradigms,
                                                   const SentenceScores& scores_of, bool lower_wins,
                                                   double rounding);

/// Of a language model: the sum of the log-probabilities (nats) of a sentence's tokens after
/// `begin`; the higher one wins. `report` hears how many sentences are done.
std::vector<ParadigmResult> evaluate_minimal_pairs(
    Model& decoder, const Tokenizer& tokenizer, TokenId begin, std::int64_t max_positions,
    const std::vector<Paradigm>& paradigms, double rounding,
    const std::function<void(std::int64_t, std::int64_t)>& report = {});

/// Of a masked language model. `report` hears how many of the sentences are
/// done. Throws std::runtime_error naming a sentence that is longer than the model's max_positions,
/// or whose score is not finite.
std::vector<ParadigmResult> evaluate_minimal_pairs(
    Model& model, const Tokenizer& tokenizer, std::int64_t max_positions,
    const std::vector<Paradigm>& paradigms, SentenceScore score, double rounding,
    const std::function<void(std::int64_t done, std::int64_t all)>& report = {});

/// Rows of docs/formats.md: accuracy of each paradigm, each phenomenon (mean of its paradigms) and
/// the average (mean of all paradigms).
Json to_json(const std::vector<ParadigmResult>& results);

}  // namespace ssa
