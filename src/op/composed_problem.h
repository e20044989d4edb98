// A call of ssa::attention cut into blocks of query rows, for the composed path.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "op/call.h"
#include "op/tensor_math.h"
#include "ssa/scores-inl.h"

namespace ssa {

/// Calls f(Score{}) for the score of that name, if it is of the φ family. scores-inl.h is compiled
/// for the baseline target: tensors do not depend on it.
template <class F>
void with_score(const std::string& name, F&& f) {
  HWY_NAMESPACE::for_each_score(HWY_NAMESPACE::ScoreList{}, [&](auto score) {
    if (score.kName == name) f(score);
  });
}

/// Query rows [first, first + rows), which can see keys [0, columns) at most.
struct Block {
  std::int64_t first, rows, columns;
};

/// Scores of a block and what became of them.
struct BlockScores {
  at::Tensor scores;  ///< s, (batch, query heads, rows, columns); 0 where hidden, so that
                      ///< derivatives stay finite
  at::Tensor hidden;  ///< true where the pair is excluded; broadcasts to scores
  std::vector<at::Tensor> params;  ///< of the score, then ln N where it counts keys
};

/// The tensors of a call in the type that the scores are computed in, keys that no row may see
/// zeroed.
class ComposedProblem {
 public:
  explicit ComposedProblem(const AttentionCall& call);

  std::vector<Block> blocks() const;
  BlockScores scores(const Block& block) const;
  /// φ family: φ(s)·log2(e), -inf where hidden.
  at::Tensor phi2(const BlockScores& scores) const;
  /// φ family: log2 of the sink's term of the normaliser, (1, query heads or 1, 1, 1); undefined
  /// without a sink.
  at::Tensor sink2() const;
  /// Query rows of the block, (batch, query heads, rows, head dimension).
  at::Tensor query_rows(const Block& block) const { return rows(call_.query, block); }
  at::Tensor rows(const at::Tensor& tensor, const Block& block) const {
    return tensor.narrow(2, block.first, block.rows).to(type_);
  }
  /// Part of a rank 4 mask or bias that belongs to the block; dimensions of size 1 stay.
  static at::Tensor part(const at::Tensor& rank4, const Block& block);
  /// a (batch, query heads, rows, x) times b (batch, key heads, x, y): heads of a group share b.
  at::Tensor grouped_matmul(const at::Tensor& a, const at::Tensor& b) const;
  /// Σ over rows and over the heads of a group of a_r^T·b_r: (batch, key heads, x, y).
  at::Tensor grouped_outer(const at::Tensor& a, const at::Tensor& b) const;
  /// Dropout's factor 0 or 1/(1-p) for a block's weights; undefined without dropout.
  at::Tensor dropout_factor(const Block& block) const;

  at::Tensor key, value;           ///< contiguous
  std::vector<at::Tensor> params;  ///< (1, query heads or 1, 1, 1)
  TensorMath math;
  double scale;

 private:
  at::Tensor distances(const Block& block) const;
  void subtract_distances(const Block& block, const at::Tensor& scores) const;
  at::Tensor hidden_by_structure(const Block& block) const;
  at::Tensor never_seen() const;

  const AttentionCall& call_;
  at::ScalarType type_;
  std::int64_t batch_, query_heads_, kv_heads_, query_length_, key_length_;
};

}  // namespace ssa
