#include "op/cosformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ssa {
namespace {

constexpr double kHalfPi = 1.57079632679489661923;

// Rows of a chunk, inside which s is formed: twice the usual head dimension of 64, where that costs
// as much as meeting the sums over all keys in front of the chunk.
constexpr std::int64_t kChunkRows = 128;

// The least divisor: far below the sums of rows that see something (usually 1 to 100 a key), but it
// bounds what 1/Σ s does to gradients. The same for all types, so that the function is.
constexpr double kLeastSum = 1e-6;

/// Query rows and the keys that they meet one by one: with causality the keys at the same
/// positions; without it all if they are few (through sums, the largest error of dk in 30 problems
/// of 3 keys was 40 times that of eager PyTorch), else none. All rows see the keys in front.
struct Chunk {
  std::int64_t row, rows, key, keys;
};

at::Tensor transposed(const at::Tensor& x) { return x.transpose(-2, -1); }

/// By query (in groups), key and value.
struct CosformerGradients {
  at::Tensor query, key, value;
};

/// A call's tensors, query heads by group: q' (batch, key heads, group, query length, d), k'
/// (batch, key heads, key length, d). Products fold the group into the rows, so that no key is
/// copied.
///
/// With e_i = [q'_i cos a_i, q'_i sin a_i], f_j = [k'_j cos a_j, k'_j sin a_j] and a_i = π/2·i/m,
/// s_ij = e_i·f_j. Values get a column of ones, whose sum is the divisor.
class Cosformer {
 public:
  Cosformer(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
            const std::optional<at::Tensor>& key_lengths, bool causal, const at::Tensor& m);

  /// Σ_j s_ij [v_j, 1]: (batch, key heads, group, query length, dv + 1).
  at::Tensor sums() const;
  CosformerGradients gradients(const at::Tensor& grad_out) const;
  /// s, 0 where hidden: (batch, key heads, group, query length, key length).
  at::Tensor scores() const;

 private:
  /// x (batch, query heads, query length, n) by group; 0 in sequences that have no key.
  at::Tensor by_group(const at::Tensor& x) const;
  std::vector<Chunk> chunks() const;
  at::Tensor angles(std::int64_t first, std::int64_t count) const;
  /// cos(π/2·(i − j)/m) for rows from position `first` on and keys from 0 on.
  at::Tensor cosines(std::int64_t first, std::int64_t rows, std::int64_t keys) const;
  /// cos a and sin a of the positions from `first` on, a column each.
  std::pair<at::Tensor, at::Tensor> turn(std::int64_t first, std::int64_t count) const;
  at::Tensor features(const at::Tensor& x, std::int64_t first) const;
  at::Tensor through_features(const at::Tensor& d_features, std::int64_t first) const;
  at::Tensor key_features(std::int64_t first, std::int64_t count) const {
    return features(key_.narrow(2, first, count), first);
  }
  /// Σ f_j^T [v_j, 1] over `count` keys.
  at::Tensor key_state(std::int64_t first, std::int64_t count) const {
    return at::matmul(transposed(key_features(first, count)), value_.narrow(2, first, count));
  }

  // Query rows of a chunk with the group folded into the rows, and back.
  static at::Tensor query_rows(const at::Tensor& x, const Chunk& chunk) {
    return x.narrow(3, chunk.row, chunk.rows).flatten(2, 3);
  }
  at::Tensor query_features(const Chunk& chunk) const {
    return features(query_.narrow(3, chunk.row, chunk.rows), chunk.row + shift_).flatten(2, 3);
  }
  at::Tensor ungrouped(const at::Tensor& x, std::int64_t rows) const {
    return x.view({x.size(0), x.size(1), group_, rows, x.size(-1)});
  }
  /// Multiplies the products q'_i·k'_j of a chunk by their cosines, in place; 0 where hidden.
  at::Tensor met(const at::Tensor& products, const Chunk& chunk) const;
  /// The gradient of a chunk's sums, from d_out and the state of the keys in front; adds to the
  /// gradients what comes from meetings inside the chunk.
  at::Tensor through_chunk(const Chunk& chunk, const at::Tensor& d_out, const at::Tensor& state,
                           CosformerGradients& d) const;
  /// Adds to the gradients of `count` keys: df_j = state·[v_j, 1], d[v_j, 1] = f_j·state.
  void add_keys(const at::Tensor& state, std::int64_t first, std::int64_t count,
                CosformerGradients& d) const;

  const bool causal_;
  const at::Tensor m_;  ///< one number, on the device
  const std::int64_t kv_heads_, group_, rows_, keys_;
  const std::int64_t shift_;      ///< position of query row 0
  const std::int64_t first_row_;  ///< rows in front of it see nothing
  const std::int64_t prior_;      ///< keys in front of it are seen by all rows from first_row_ on
  at::Tensor hidden_keys_;        ///< bool, (batch, 1, key length, 1); undefined: none
  at::Tensor query_, key_;        ///< q', k'
  at::Tensor value_;              ///< [v, 1]
  at::Tensor cosines_;            ///< of the first chunk; without causality of all rows
};

Cosformer::Cosformer(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const std::optional<at::Tensor>& key_lengths, bool causal, const at::Tensor& m)
    : causal_(causal),
      m_(m.to(at::kDouble)),
      kv_heads_(key.size(1)),
      group_(query.size(1) / key.size(1)),
      rows_(query.size(2)),
      keys_(key.size(2)),
      shift_(keys_ - rows_),
      first_row_(causal ? std::max<std::int64_t>(0, -shift_) : 0),
      prior_(causal ? std::max<std::int64_t>(0, shift_) : (keys_ > kChunkRows ? keys_ : 0)),
      key_(key),
      value_(value) {
  if (key_lengths) {
    const at::Tensor column = at::arange(keys_, key_lengths->options()).unsqueeze(-1);
    hidden_keys_ = column >= key_lengths->view({-1, 1, 1, 1});
    key_ = key.masked_fill(hidden_keys_, 0);  // whatever they hold: 0·NaN would be NaN
    value_ = value.masked_fill(hidden_keys_, 0);
  }
  query_ = by_group(query).relu();
  key_ = key_.relu();
  value_ = at::cat({value_, at::ones_like(value.narrow(-1, 0, 1))}, -1);
  const std::int64_t chunk = std::min(kChunkRows, rows_);
  cosines_ = causal ? cosines(0, chunk, chunk) : cosines(shift_, rows_, keys_ - prior_);
}

at::Tensor Cosformer::by_group(const at::Tensor& x) const {
  at::Tensor grouped = x.reshape({x.size(0), kv_heads_, group_, rows_, x.size(3)});
  if (!hidden_keys_.defined()) return grouped;
  return grouped.masked_fill(hidden_keys_.all(2, true).unsqueeze(2), 0);
}

std::vector<Chunk> Cosformer::chunks() const {
  std::vector<Chunk> result;
  for (std::int64_t row = first_row_; row < rows_; row += kChunkRows) {
    const std::int64_t rows = std::min(kChunkRows, rows_ - row);
    result.push_back(causal_ ? Chunk{row, rows, row + shift_, rows}
                             : Chunk{row, rows, 0, keys_ - prior_});
  }
  return result;
}

// In float64 whatever the type: an angle rounded to float32 would cost digits at every use.
at::Tensor Cosformer::angles(std::int64_t first, std::int64_t count) const {
  return at::arange(first, first + count, key_.options().dtype(at::kDouble)).mul_(kHalfPi).div_(m_);
}

at::Tensor Cosformer::cosines(std::int64_t first, std::int64_t rows, std::int64_t keys) const {
  return (angles(first, rows).unsqueeze(-1) - angles(0, keys)).cos_().to(key_.scalar_type());
}

std::pair<at::Tensor, at::Tensor> Cosformer::turn(std::int64_t first, std::int64_t count) const {
  const at::Tensor angle = angles(first, count).unsqueeze(-1);
  return {angle.cos().to(key_.scalar_type()), angle.sin().to(key_.scalar_type())};
}

at::Tensor Cosformer::features(const at::Tensor& x, std::int64_t first) const {
  const auto [cosine, sine] = turn(first, x.size(-2));
  return at::cat({x * cosine, x * sine}, -1);
}

at::Tensor Cosformer::through_features(const at::Tensor& d_features, std::int64_t first) const {
  const auto [cosine, sine] = turn(first, d_features.size(-2));
  const std::vector<at::Tensor> halves = d_features.chunk(2, -1);
  return (halves[0] * cosine).add_(halves[1] * sine);
}

at::Tensor Cosformer::met(const at::Tensor& products, const Chunk& chunk) const {
  const at::Tensor grouped = ungrouped(products, chunk.rows);
  grouped.mul_(cosines_.narrow(0, causal_ ? 0 : chunk.row, chunk.rows).narrow(1, 0, chunk.keys));
  if (causal_) grouped.tril_();
  return products;
}

at::Tensor Cosformer::scores() const {
  const at::Tensor product = at::matmul(query_.flatten(2, 3), transposed(key_));
  const at::Tensor scores = ungrouped(product, rows_).mul_(cosines(shift_, rows_, keys_));
  return causal_ ? scores.tril_(shift_) : scores;
}

at::Tensor Cosformer::sums() const {
  at::Tensor result =
      at::zeros({key_.size(0), kv_heads_, group_, rows_, value_.size(3)}, key_.options());
  at::Tensor state = key_state(0, prior_);
  for (const Chunk& chunk : chunks()) {
    const at::Tensor query = query_rows(query_, chunk);
    const at::Tensor scores =
        met(at::matmul(query, transposed(key_.narrow(2, chunk.key, chunk.keys))), chunk);
    at::Tensor sum = at::matmul(query_features(chunk), state);
    sum.add_(at::matmul(scores, value_.narrow(2, chunk.key, chunk.keys)));
    result.narrow(3, chunk.row, chunk.rows).copy_(ungrouped(sum, chunk.rows));
    if (causal_) state.add_(key_state(chunk.key, chunk.keys));
  }
  return result;
}

at::Tensor Cosformer::through_chunk(const Chunk& chunk, const at::Tensor& d_out,
                                    const at::Tensor& state, CosformerGradients& d) const {
  const std::int64_t dv = d_out.size(-1);
  const at::Tensor query = query_rows(query_, chunk);
  const at::Tensor key = key_.narrow(2, chunk.key, chunk.keys);
  const at::Tensor value = value_.narrow(2, chunk.key, chunk.keys).narrow(-1, 0, dv);
  const at::Tensor scores = met(at::matmul(query, transposed(key)), chunk);
  const at::Tensor in_front = at::matmul(query_features(chunk), state);
  // out = Σ s v / total, total = max(Σ s, ε)
  const at::Tensor sum = in_front.narrow(-1, dv, 1) + scores.sum(-1, true);
  const at::Tensor total = sum.clamp_min(kLeastSum);
  const at::Tensor d_weighted = d_out / total;
  // ds = dw − Σ w·dw with dw = d_weighted·v, summed from these very numbers: where a row sees few
  // keys they cancel and total may be small. With the sum from out, dk had 8 times the error of
  // eager PyTorch in a problem of 150 rows.
  const at::Tensor d_scores = at::matmul(d_weighted, transposed(value));
  at::Tensor centre = (in_front.narrow(-1, 0, dv) / total).mul_(d_weighted).sum(-1, true);
  centre.add_((scores / total).mul_(d_scores).sum(-1, true));
  centre.masked_fill_(sum < kLeastSum, 0);  // a total of ε does not move
  // s = q'·k'·cosine
  const at::Tensor d_products = met(d_scores.sub_(centre), chunk);
  d.query.narrow(3, chunk.row, chunk.rows)
      .copy_(ungrouped(at::matmul(d_products, key), chunk.rows));
  d.key.narrow(2, chunk.key, chunk.keys).add_(at::matmul(transposed(d_products), query));
  d.value.narrow(2, chunk.key, chunk.keys).add_(at::matmul(transposed(scores), d_weighted));
  return at::cat({d_weighted, centre.neg_()}, -1);
}

void Cosformer::add_keys(const at::Tensor& state, std::int64_t first, std::int64_t count,
                         CosformerGradients& d) const {
  const at::Tensor d_features = at::matmul(value_.narrow(2, first, count), transposed(state));
  d.key.narrow(2, first, count).add_(through_features(d_features, first));
  const at::Tensor d_value = at::matmul(key_features(first, count), state);
  d.value.narrow(2, first, count).add_(d_value.narrow(-1, 0, d.value.size(3)));
}

CosformerGradients Cosformer::gradients(const at::Tensor& grad_out) const {
  const at::Tensor d_out = by_group(grad_out);
  CosformerGradients d = {at::zeros_like(query_), at::zeros_like(key_),
                          at::zeros_like(value_.narrow(-1, 0, d_out.size(4)))};
  const std::vector<Chunk> all = chunks();
  std::vector<at::Tensor> d_sums;
  // Forwards, with the state of all keys in front: de_i = state·d_i.
  at::Tensor state = key_state(0, prior_);
  for (const Chunk& chunk : all) {
    d_sums.push_back(through_chunk(chunk, query_rows(d_out, chunk), state, d));
    const at::Tensor d_features = at::matmul(d_sums.back(), transposed(state));
    d.query.narrow(3, chunk.row, chunk.rows)
        .add_(through_features(ungrouped(d_features, chunk.rows), chunk.row + shift_));
    if (causal_) state.add_(key_state(chunk.key, chunk.keys));
  }
  // Backwards, with the state of all later rows: Σ e_i^T d_i.
  state.zero_();
  for (std::size_t i = all.size(); i-- > 0;) {
    if (causal_) add_keys(state, all[i].key, all[i].keys, d);
    state.add_(at::matmul(transposed(query_features(all[i])), d_sums[i]));
  }
  add_keys(state, 0, prior_, d);
  d.query.masked_fill_(query_ == 0, 0);  // relu
  d.key.masked_fill_(key_ == 0, 0);      // and hidden keys
  if (hidden_keys_.defined()) d.value.masked_fill_(hidden_keys_, 0);
  return d;
}

}  // namespace

at::Tensor cosformer_forward(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const std::optional<at::Tensor>& key_lengths,
                             bool causal, const at::Tensor& m) {
  const std::int64_t dv = value.size(3);
  if (query.numel() == 0 || key.numel() == 0 || dv == 0) {
    return at::zeros({query.size(0), query.size(1), query.size(2), dv}, query.options());
  }
  const at::Tensor sums = Cosformer(query, key, value, key_lengths, causal, m).sums();
  const at::Tensor total = sums.narrow(-1, dv, 1).clamp_min(kLeastSum);
  return sums.narrow(-1, 0, dv).div_(total).flatten(1, 2);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cosformer_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const std::optional<at::Tensor>& key_lengths, bool causal,
    const at::Tensor& m) {
  const std::int64_t dv = value.size(3);
  if (query.numel() == 0 || key.numel() == 0 || dv == 0) {
    return {at::zeros_like(query), at::zeros_like(key), at::zeros_like(value)};
  }
  const CosformerGradients d =
      Cosformer(query, key, value, key_lengths, causal, m).gradients(grad_out);
  return {d.query.flatten(1, 2), d.key, d.value};
}

at::Tensor cosformer_weights(const at::Tensor& query, const at::Tensor& key,
                             const std::optional<at::Tensor>& key_lengths, bool causal,
                             const at::Tensor& m) {
  if (query.numel() == 0 || key.numel() == 0) {
    return at::zeros({query.size(0), query.size(1), query.size(2), key.size(2)}, query.options());
  }
  at::Tensor scores = Cosformer(query, key, key, key_lengths, causal, m).scores();
  return scores.div_(scores.sum(-1, true).clamp_min_(kLeastSum)).flatten(1, 2);
}

}  // namespace ssa
