// The unigram language model: of all ways to cut a text into tokens the likeliest. Kudo (2018),
// Subword Regularization.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "tokenizer/pattern.h"
#include "tokenizer/subword_model.h"

namespace ssa {

class Unigram : public SubwordModel {
 public:
  struct Options {
    std::optional<TokenId> unknown;
    bool byte_fallback = false;  ///< <0x00> … <0xFF> for characters without a token
  };

  /// `scores`: log-likelihoods by id. The vocabulary must outlive the model.
  Unigram(const Vocabulary& vocabulary, std::vector<double> scores, const Options& options);

  void encode(std::string_view piece, std::vector<TokenId>& ids) const override;

 private:
  /// A place in the tree of all tokens by their bytes.
  struct Edge {
    std::uint64_t key;  ///< node << 8 | byte; kNoKey marks an empty place
    std::uint32_t node;
  };
  static constexpr std::uint64_t kNoKey = ~std::uint64_t{0};
  static constexpr TokenId kNone = -1;
  struct Best;

  std::size_t place_of(std::uint64_t key) const;
  std::uint32_t child(std::uint32_t node, char byte) const;
  std::uint32_t add_child(std::uint32_t node, char byte);
  void grow();
  void append(std::string_view text, std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary_;
  std::vector<double> scores_;
  Options options_;
  double unknown_score_ = 0;
  std::optional<std::array<TokenId, 256>> byte_ids_;  ///< where all of them have a token
  std::vector<Edge> edges_;                           ///< open addressing; at most half full
  int shift_ = 0;
  std::vector<TokenId> ends_;  ///< by node: the token that ends there
};

}  // namespace ssa
