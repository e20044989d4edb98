// A softmax model on texts: what turns it into one of another score that computes what it did
// there.
#pragma once

#include <string>
#include <vector>

#include "model/model.h"
#include "ssa/score_parametrisation.h"
#include "tokenizer/token_id.h"

namespace ssa {

/// Sequences of at least 2 ids, each read by itself.
using TokenTexts = std::vector<std::vector<TokenId>>;

/// One attention layer of a converted model; each list has an entry a head, sizes and values one
/// where the heads of a layer share the score's parameters.
struct MatchedLayer {
  std::vector<double> sizes;                ///< S of SoftmaxLimit::departure: the largest met
  std::vector<std::vector<double>> values;  ///< of the score's parameters, in its order
  /// Share of a row's attention that moves to other keys: half of Σ |w − w'| of softmax's and the
  /// score's weights for the same queries and keys, mean over the rows that see several.
  std::vector<double> moved;
};

/// Values for each layer of a model of softmax at which the score departs from it by `strength` for
/// scores of the size that the head meets in the texts. Throws std::invalid_argument as
/// match_softmax does.
std::vector<MatchedLayer> match_on_texts(Model& model, const TokenTexts& texts,
                                         const std::string& score, double strength,
                                         Parametrisation how);

/// What a model makes of texts, to be compared before and after.
struct TextMeasure {
  double perplexity = 0;                      ///< of decoders, over all tokens but each first
  std::vector<std::vector<float>> embedding;  ///< of encoders: the mean hidden state of each text
};

TextMeasure measure_texts(Model& model, const TokenTexts& texts);

/// The mean cosine of the embeddings.
double similarity(const TextMeasure& one, const TextMeasure& other);

}  // namespace ssa
