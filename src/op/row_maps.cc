#include "op/row_maps.h"

#include <ATen/ATen.h>

#include <array>
#include <limits>
#include <tuple>

#include "op/hidden.h"

namespace ssa {
namespace {

/// Scores minus the largest that the row sees; -inf where hidden. A visible NaN makes its whole row
/// NaN.
at::Tensor shifted_scores(const ScoreRows& rows) {
  at::Tensor shifted = minus_infinity_where_hidden(rows.scores, rows.hidden);
  at::Tensor peak = shifted.amax(-1, true);
  peak.masked_fill_(peak == -kInf, 0);  // rows that see nothing
  return shifted.sub_(peak);
}

/// Number of keys that each row sees, broadcasts to (batch, query heads, rows, 1).
at::Tensor visible_keys(const ScoreRows& rows) {
  std::vector<std::int64_t> sizes = rows.hidden.sizes().vec();
  sizes.back() = rows.scores.size(-1);  // hidden may be one column that stands for all
  return rows.hidden.logical_not().expand(sizes).sum(-1, true, rows.scores.scalar_type());
}

/// 1, 2, ..., keys.
at::Tensor ranks(const ScoreRows& rows) {
  return at::arange(1, rows.scores.size(-1) + 1, rows.scores.options());
}

/// Softmax over the visible keys; 0 where hidden.
at::Tensor visible_softmax(const ScoreRows& rows) {
  return zero_hidden(at::softmax(minus_infinity_where_hidden(rows.scores, rows.hidden), -1),
                     rows.hidden);
}

// Entmax of any α (Peters et al. 2019, arXiv 1905.05702): with g = w^(2−α) on the support and 0
// off it, ds = g·(dw − Σ g·dw / Σ g).

/// dw − Σ g·dw / Σ g
at::Tensor centred(const at::Tensor& g, const at::Tensor& d_weights) {
  at::Tensor total = g.sum(-1, true);
  total.masked_fill_(total == 0, 1);  // rows that see nothing
  return d_weights - (g * d_weights).sum(-1, true).div_(total);
}

// sparsemax: Martins and Astudillo 2016, arXiv 1602.02068, algorithm 1. w = max(z − τ, 0), Σ w = 1.

at::Tensor sparsemax(const ScoreRows& rows) {
  // The largest z is 0 and has weight −τ ≤ 1: keys at −1 or below have weight 0, whatever they
  // hold.
  at::Tensor z = shifted_scores(rows).clamp_min_(-1);
  at::Tensor sorted = std::get<0>(z.sort(-1, true));
  at::Tensor support = (sorted * ranks(rows)).add_(1) > sorted.cumsum(-1);
  support.logical_and_(sorted > -1);
  const at::Tensor size = support.sum(-1, true, z.scalar_type()).clamp_min_(1);
  // Added up again: a sum over the support is rounded less than the running one.
  const at::Tensor threshold = sorted.mul_(support).sum(-1, true).sub_(1).div_(size);
  return z.sub_(threshold).clamp_min_(0);
}

RowGradients sparsemax_gradients(const ScoreRows& /*rows*/, const at::Tensor& weights,
                                 const at::Tensor& d_weights) {
  const at::Tensor g = weights.sign().add_(weights, 0);  // 1 on the support, and NaN stays NaN
  return {centred(g, d_weights).mul_(g), {}};
}

// entmax15: Peters et al. 2019, arXiv 1905.05702, algorithm 2. w = max(z − τ, 0)², Σ w = 1.

at::Tensor entmax15(const ScoreRows& rows) {
  at::Tensor z = shifted_scores(rows).div_(2).clamp_min_(-1);  // −1: as in sparsemax
  const at::Tensor sorted = std::get<0>(z.sort(-1, true));
  const at::Tensor rank = ranks(rows);
  const at::Tensor mean = sorted.cumsum(-1).div_(rank);
  // τ of the first j keys alone: mean − sqrt((1 − Σ (z − mean)²) / j)
  at::Tensor root = sorted.square().cumsum_(-1).div_(rank).sub_(mean.square()).neg_();
  root.add_(rank.reciprocal()).clamp_min_(0).sqrt_();
  const at::Tensor support = (mean - root < sorted).logical_and_(sorted > -1);
  // Once more over the support and about its mean: the running sums of squares cancel.
  const at::Tensor size = support.sum(-1, true, z.scalar_type()).clamp_min_(1);
  const at::Tensor centre = (sorted * support).sum(-1, true).div_(size);
  const at::Tensor spread = (sorted - centre).square_().mul_(support).sum(-1, true);
  const at::Tensor threshold = centre - spread.neg_().add_(1).div_(size).clamp_min_(0).sqrt_();
  return z.sub_(threshold).clamp_min_(0).square_();
}

RowGradients entmax15_gradients(const ScoreRows& /*rows*/, const at::Tensor& weights,
                                const at::Tensor& d_weights) {
  const at::Tensor g = weights.sqrt();
  return {centred(g, d_weights).mul_(g), {}};
}

// entmax: Correia et al. 2019, arXiv 1909.00015, α per head. With order = α − 1, x = order·z and
// u = −τ, w = [x + u]₊^(1/order) = u^(1/order)·[1 + x/u]₊^(1/order). The first factor, the largest
// weight, leaves with the normalisation. The second keeps all digits, also as α → 1, where it
// becomes e^z and the first would be known to ε/order only.

/// out = [1 + x/u]₊^(1/order)
at::Tensor& relative_weights_out(at::Tensor& out, const at::Tensor& x, const at::Tensor& u,
                                 const at::Tensor& order) {
  return at::div_out(out, x, u).clamp_min_(-1).log1p_().div_(order).exp_();
}

/// The u with Σ w = 1, by Newton's method on (Σ w)^order = 1, whose left side is a norm of x + u
/// for α ≤ 2 and so convex, linear where the keys are equal: started at the largest u it never
/// overshoots, and 3 to 8 rounds do where bisection takes 57. Above α = 2 a bracket catches what it
/// throws out, and every fourth round halves that (20 to 60 rounds).
at::Tensor entmax_threshold(const at::Tensor& x, const at::Tensor& count, const at::Tensor& order) {
  // On a device that is not asked: 3 to 8 rounds do up to α = 2, beyond that the bracket halves.
  const int most_rounds = x.is_cpu() ? 200 : 64;
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  const at::Tensor power = order.reciprocal(), convex = order <= 1;
  const at::Tensor close = power * (4 * kEpsilon) + 1e-12;  // u^power is rounded by ε·power
  // Between N equal keys (not under 1e-30, so that x/u stays finite) and the largest key alone.
  at::Tensor low = count.clamp_min(1).pow(-order).clamp_min_(1e-30);
  at::Tensor high = at::ones_like(low), u = high;
  at::Tensor weights = at::empty_like(x), ratio = at::empty_like(x);
  for (int round = 1; round <= most_rounds; ++round) {
    const at::Tensor largest = u.pow(power);
    const at::Tensor sum = relative_weights_out(weights, x, u, order).sum(-1, true).mul_(largest);
    const at::Tensor above = sum >= 1;
    low = at::where(above, low, u);
    high = at::where(above, u, high);
    at::Tensor done = (sum - 1).abs_() <= close;
    done.logical_or_(high - low <= high * (2 * kEpsilon)).logical_or_(count == 0);
    // On another device the question would wait for it: there all rounds run.
    if (x.is_cpu() && done.logical_or(sum.isnan()).all().item<bool>()) break;
    // Σ (x + u)^(power − 1) over the support; as w^(1 − order), with a power instead of a division,
    // it took a fifth of all the time.
    at::div_out(ratio, x, u).add_(1).clamp_min_(1e-300);  // off the support w is 0 as well
    const at::Tensor slope = at::div_out(ratio, weights, ratio).sum(-1, true);
    const at::Tensor newton = u - (sum - sum.pow(1 - order)).div_(slope.mul_(largest).div_(u));
    at::Tensor inside = (newton >= low).logical_and_(newton <= high);
    if (round % 4 == 0) inside.logical_and_(convex);
    u = at::where(done, u, at::where(inside, newton, (low + high).div_(2)));
  }
  return u;
}

/// In double whatever the type, or above α = 2, where weights rise vertically from 0, the rounding
/// of u would show in the first digits.
at::Tensor entmax(const ScoreRows& rows) {
  const at::Tensor order = rows.params[0].to(at::kDouble) - 1;
  const at::Tensor x = shifted_scores(rows).to(at::kDouble).mul_(order);
  const at::Tensor count = visible_keys(rows).to(at::kDouble).expand_as(x.narrow(-1, 0, 1));
  const at::Tensor u = entmax_threshold(x, count, order);
  at::Tensor weights = at::empty_like(x);
  at::Tensor total = relative_weights_out(weights, x, u, order).sum(-1, true);
  total.masked_fill_(total == 0, 1);  // rows that see nothing
  return weights.div_(total).to(rows.scores.scalar_type());
}

/// (e^x − 1 − x)/x² for x ≥ 0. Below 0.1, where the formula cancels, by its series Σ x^k/(k+2)!,
/// whose first term left out is under 2e-17.
at::Tensor exp_remainder(const at::Tensor& x) {
  double coefficient = 1.0 / 39916800;  // 1/11!
  at::Tensor series = at::full_like(x, coefficient);
  for (int factor = 11; factor >= 3; --factor) {
    coefficient *= factor;
    series.mul_(x).add_(coefficient);
  }
  return at::where(x < 0.1, series, x.expm1().sub_(x).div_(x).div_(x));
}

RowGradients entmax_gradients(const ScoreRows& rows, const at::Tensor& weights,
                              const at::Tensor& d_weights) {
  const at::Tensor order = rows.params[0] - 1;
  const at::Tensor outside = weights == 0;
  const at::Tensor g = weights.pow(1 - order).masked_fill_(outside, 0);
  const at::Tensor d_scores = centred(g, d_weights).mul_(g);
  // dα = Σ d_scores·r, r = (b(1 − log b) − 1)/order² with b = w^order. As Σ d_scores = 0, r may be
  // taken from that of the row's largest weight W on: with y = log(w/W) and x = −order·y,
  // r = −W^order·[log W·(e^−x − 1)/order + e^−x·y²·(e^x − 1 − x)/x²], where nothing cancels.
  at::Tensor peak = weights.amax(-1, true);
  peak.masked_fill_(peak == 0, 1);  // rows that see nothing
  const at::Tensor y = (weights / peak).masked_fill_(outside, 1).log_();
  at::Tensor log_b = y * order;
  at::Tensor r = exp_remainder(log_b.neg()).mul_(y).mul_(y).mul_(log_b.exp());
  r.add_(log_b.expm1_().mul_(peak.log().div_(order)));
  return {d_scores, {r.mul_(d_scores).sum(-1, true).mul_(peak.pow(order)).neg_()}};
}

// SA-softmax: arXiv 2502.18277. w = s·p, p = softmax(s).

at::Tensor sa_softmax(const ScoreRows& rows) {
  return visible_softmax(rows).mul_(zero_hidden(rows.scores, rows.hidden));
}

RowGradients sa_softmax_gradients(const ScoreRows& rows, const at::Tensor& weights,
                                  const at::Tensor& d_weights) {
  // ds = p·(s·dw − Σ w·dw + dw), in this order: of a row of one key, dw is left whole
  at::Tensor d_scores = rows.scores * d_weights;
  d_scores.sub_((weights * d_weights).sum(-1, true)).add_(d_weights).mul_(visible_softmax(rows));
  return {d_scores, {}};
}

// The normalised form, same paper: w = (s − low)/(high − low)·p with low = min(0, min s) and
// high = max(0, max s).

struct Span {
  at::Tensor scores;  ///< 0 where hidden, which moves neither low nor high
  at::Tensor low, high;
  at::Tensor width;  ///< high − low; infinite for rows of zeros alone, so that they become 0
};

Span span_of(const ScoreRows& rows) {
  Span span;
  span.scores = zero_hidden(rows.scores, rows.hidden);
  span.low = span.scores.amin(-1, true).clamp_max_(0);
  span.high = span.scores.amax(-1, true).clamp_min_(0);
  span.width = span.high - span.low;
  span.width.masked_fill_(span.width == 0, kInf);
  return span;
}

at::Tensor sa_softmax_normalised(const ScoreRows& rows) {
  const Span span = span_of(rows);
  return (span.scores - span.low).div_(span.width).mul_(visible_softmax(rows));
}

/// `amount`, one a row, in equal shares to the visible scores equal to `edge`. Where the edge is
/// the constant 0 and no score has that value, nobody gets it.
at::Tensor edge_gradient(const ScoreRows& rows, const at::Tensor& edge, const at::Tensor& amount) {
  const at::Tensor at_edge = (rows.scores == edge).logical_and_(rows.hidden.logical_not());
  return at_edge * (amount / at_edge.sum(-1, true).clamp_min_(1));
}

RowGradients sa_softmax_normalised_gradients(const ScoreRows& rows, const at::Tensor& weights,
                                             const at::Tensor& d_weights) {
  const Span span = span_of(rows);
  // ds = p·(r·dw − Σ w·dw) + p·dw/width with r = (s − low)/width, and through the edges
  // dhigh = −Σ w·dw/width, dlow = (Σ w·dw − Σ p·dw)/width. In these steps it all cancels to 0 where
  // the row is one key.
  const at::Tensor softmax = visible_softmax(rows);
  const at::Tensor d_ratio = softmax * d_weights;
  const at::Tensor centre = (weights * d_weights).sum(-1, true);
  const at::Tensor d_low = (centre - d_ratio.sum(-1, true)).div_(span.width);
  at::Tensor d_scores = (span.scores - span.low).div_(span.width).mul_(d_weights);
  d_scores.sub_(centre).mul_(softmax).add_(d_ratio.div_(span.width));
  d_scores.sub_(edge_gradient(rows, span.high, centre / span.width));
  d_scores.add_(edge_gradient(rows, span.low, d_low));
  return {d_scores, {}};
}

// sigmoid: Ramapuram et al. 2024, arXiv 2409.04431. w = 1/(1 + e^−(s + β − log N)).

at::Tensor sigmoid(const ScoreRows& rows) {
  return (rows.scores + (rows.params[0] - visible_keys(rows).log_())).sigmoid_();
}

RowGradients sigmoid_gradients(const ScoreRows& /*rows*/, const at::Tensor& weights,
                               const at::Tensor& d_weights) {
  const at::Tensor d_scores = (1 - weights).mul_(weights).mul_(d_weights);
  return {d_scores, {d_scores.sum(-1, true)}};
}

// What all maps owe their callers, in one place: empty tensors, and nothing from hidden keys.

template <auto kMap>
at::Tensor visible_weights(const ScoreRows& rows) {
  if (rows.scores.numel() == 0) return at::zeros_like(rows.scores);
  return zero_hidden(kMap(rows), rows.hidden);
}

template <auto kGradients>
RowGradients visible_gradients(const ScoreRows& rows, const at::Tensor& weights,
                               const at::Tensor& d_weights) {
  if (rows.scores.numel() == 0) {
    std::vector<std::int64_t> row_sums = rows.scores.sizes().vec();
    row_sums.back() = 1;
    return {at::zeros_like(rows.scores),
            {rows.params.size(), at::zeros(row_sums, rows.scores.options())}};
  }
  // 0·NaN is NaN, so a hidden key's gradient goes before the sums.
  RowGradients result = kGradients(rows, weights, zero_hidden(d_weights, rows.hidden));
  zero_hidden_(result.scores, rows.hidden);
  return result;
}

template <auto kMap, auto kGradients>
constexpr RowMap row_map(std::string_view name) {
  return {name, visible_weights<kMap>, visible_gradients<kGradients>};
}

constexpr std::array kRowMaps = {
    row_map<sparsemax, sparsemax_gradients>("sparsemax"),
    row_map<entmax15, entmax15_gradients>("entmax15"),
    row_map<entmax, entmax_gradients>("entmax"),
    row_map<sa_softmax, sa_softmax_gradients>("sa-softmax"),
    row_map<sa_softmax_normalised, sa_softmax_normalised_gradients>("sa-softmax-normalised"),
    row_map<sigmoid, sigmoid_gradients>("sigmoid"),
};

}  // namespace

const RowMap& find_row_map(std::string_view name) {
  for (const RowMap& map : kRowMaps) {
    if (map.name == name) return map;
  }
  TORCH_CHECK(false, "there is no row map named '", name, "'");
}

}  // namespace ssa
