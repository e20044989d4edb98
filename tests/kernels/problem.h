// Attention problems for tests: inputs in every layout, and the three implementations side by side.
// No GoogleTest here: neon_check.cc runs without it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/plain_loops.h"
#include "ssa/attention.h"

namespace ssa::test {

/// Under a sanitizer, where everything takes 10 to 50 times longer, tests take every kThin-th
/// problem.
#if defined(__SANITIZE_THREAD__)
inline constexpr int kThin = 20;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr int kThin = 3;
#else
inline constexpr int kThin = 1;
#endif

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

using Sizes = std::array<std::int64_t, 4>;

/// How a tensor lies in memory. Elements that do not belong to it hold NaN, also before and behind.
enum class Layout {
  kContiguous,  ///< (batch, head, token, dim)
  kTokenMajor,  ///< (batch, token, head, dim): what a projection gives
  kStrided,     ///< stride 3 in the last dimension
  kReversed,    ///< tokens in reverse order
};

/// Between the types of tensors.
template <class T, class U>
T convert(U value) {
  if constexpr (std::is_same_v<U, BFloat16>) {
    return static_cast<T>(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Sizes& sizes, Layout layout, std::array<bool, 4> broadcast = {}) : sizes_(sizes) {
    Sizes stored = sizes;
    for (int d = 0; d < 4; ++d)
      stored[d] = broadcast[d] ? std::min<std::int64_t>(1, sizes[d]) : sizes[d];
    std::array<int, 4> order{0, 1, 2, 3};
    if (layout == Layout::kTokenMajor) order = {0, 2, 1, 3};
    std::int64_t step = layout == Layout::kStrided ? 3 : 1;
    for (int k = 3; k >= 0; --k) {
      stride_[order[k]] = step;
      step *= std::max<std::int64_t>(1, stored[order[k]]);
    }
    std::int64_t start = 0;
    if (layout == Layout::kReversed && stored[2] > 0) {
      start = (stored[2] - 1) * stride_[2];
      stride_[2] = -stride_[2];
    }
    for (int d = 0; d < 4; ++d) stride_[d] = broadcast[d] ? 0 : stride_[d];
    data_.assign(static_cast<std::size_t>(step + 2 * kGuard), filler());
    start_ = start + kGuard;
  }

  View4<T> view() {
    return {data_.empty() ? nullptr : reinterpret_cast<T*>(data_.data()) + start_, stride_};
  }
  View4<const T> view() const {
    return {data_.empty() ? nullptr : reinterpret_cast<const T*>(data_.data()) + start_, stride_};
  }

  /// Calls f(element) for every index, in order; a broadcast element comes more than once.
  template <class F>
  void each(F&& f) {
    for (std::int64_t a = 0; a < sizes_[0]; ++a) {
      for (std::int64_t b = 0; b < sizes_[1]; ++b) {
        for (std::int64_t c = 0; c < sizes_[2]; ++c) {
          for (std::int64_t d = 0; d < sizes_[3]; ++d) f(*view().at(a, b, c, d));
        }
      }
    }
  }

  /// Calls f(element) once for every element in memory.
  template <class F>
  void each_stored(F&& f) {
    for (auto& x : data_) f(x);
  }

  /// Whether the elements that do not belong to the tensor are what they were.
  bool guards_intact() const {
    Tensor untouched = *this;
    untouched.each([&](T& x) { x = filler(); });
    const Stored expected = filler();
    return std::all_of(untouched.data_.begin(), untouched.data_.end(),
                       [&](const Stored& x) { return std::memcmp(&x, &expected, sizeof(x)) == 0; });
  }

  const Sizes& sizes() const { return sizes_; }
  bool empty() const { return data_.empty(); }

  /// The same tensor in another type, same layout.
  template <class U>
  Tensor<U> as() const {
    Tensor<U> other;
    other.sizes_ = sizes_;
    other.stride_ = stride_;
    other.start_ = start_;
    for (const Stored x : data_) other.data_.push_back(convert<U>(x));
    return other;
  }

 private:
  static constexpr std::int64_t kGuard = 32;

  template <class>
  friend class Tensor;
  using Stored = std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>;

  static Stored filler() {
    if constexpr (std::is_same_v<T, bool>) return Stored{};
    return convert<Stored>(std::numeric_limits<float>::quiet_NaN());
  }

  Sizes sizes_{}, stride_{};
  std::int64_t start_ = 0;
  std::vector<Stored> data_;
};

struct Options {
  std::string_view score = "ssa";
  std::int64_t batch = 1, query_heads = 1, kv_heads = 1, query_length = 1, key_length = 1;
  std::int64_t qk_dim = 8, v_dim = 8;
  bool causal = false, mask = false, bias = false, key_lengths = false, d_lse = false;
  bool infinite_bias = false;  ///< some entries of the bias are −inf
  bool shared_params = false;  ///< one value for all heads
  std::array<bool, 4> mask_broadcast{}, bias_broadcast{};
  Layout layout = Layout::kContiguous;
  std::int64_t window = 0;
  double alibi = 0;  ///< largest slope; 0: none
  double dropout = 0;
  /// Packed sequences; query_length and key_length are the sums.
  std::vector<std::int64_t> query_lengths, key_lengths_packed;
  double magnitude = 1;                          ///< of query
  double scale = 0;                              ///< 0: 1/sqrt(qk_dim)
  std::array<double, kMaxScoreParams> params{};  ///< 0: spread around the initial values
  std::uint64_t seed = 1;
};

/// Two batch rows, grouped heads, odd dimensions.
inline Options base(std::int64_t query_length, std::int64_t key_length) {
  Options o;
  o.query_length = query_length;
  o.key_length = key_length;
  o.query_heads = 4;
  o.kv_heads = 2;
  o.qk_dim = 20;
  o.v_dim = 12;
  o.batch = 2;
  return o;
}

inline std::ostream& operator<<(std::ostream& stream, const Options& o) {
  const auto flags = [](const std::array<bool, 4>& set) {
    std::string text;
    for (const bool flag : set) text += flag ? '0' : 'x';
    return text;
  };
  return stream << o.score << " batch " << o.batch << " heads " << o.query_heads << "/"
                << o.kv_heads << " lengths " << o.query_length << "x" << o.key_length << " dims "
                << o.qk_dim << "/" << o.v_dim << (o.causal ? " causal" : "")
                << (o.mask ? " mask " + flags(o.mask_broadcast) : "")
                << (o.bias ? " bias " + flags(o.bias_broadcast) : "")
                << (o.infinite_bias ? " -inf" : "") << (o.key_lengths ? " key_lengths" : "")
                << (o.window > 0 ? " window " + std::to_string(o.window) : "")
                << (o.alibi != 0 ? " alibi " + std::to_string(o.alibi) : "")
                << (o.dropout > 0 ? " dropout " + std::to_string(o.dropout) : "")
                << (o.query_lengths.empty()
                        ? ""
                        : " packed " + std::to_string(o.query_lengths.size()) + " sequences")
                << (o.d_lse ? " d_lse" : "") << (o.shared_params ? " shared" : "") << " layout "
                << static_cast<int>(o.layout) << " magnitude " << o.magnitude << " seed " << o.seed;
}

/// A random problem: every feature on or off, every layout, small and middle sizes, zero included.
inline Options random_options(std::string_view score, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const auto coin = [&] { return below(2) == 1; };
  Options o;
  o.seed = seed;
  o.score = score;
  o.batch = 1 + below(3);
  o.kv_heads = 1 + below(3);
  o.query_heads = o.kv_heads * (1 + below(3));
  const std::int64_t longest = below(4) == 0 ? 200 : 40;
  o.query_length = 1 + below(longest);
  o.key_length = coin() ? o.query_length : 1 + below(longest);
  o.qk_dim = 1 + below(40);
  o.v_dim = coin() ? o.qk_dim : 1 + below(70);
  o.causal = coin();
  o.mask = coin();
  o.bias = coin();
  o.infinite_bias = coin();
  o.key_lengths = coin();
  o.d_lse = coin();
  o.shared_params = coin();
  for (bool& flag : o.mask_broadcast) flag = coin();
  for (bool& flag : o.bias_broadcast) flag = coin();
  o.layout = static_cast<Layout>(below(4));
  // 30: for softmax far beyond what the bound allows, so the running maximum works.
  o.magnitude = below(4) == 0 ? 30 : 1;
  if (below(3) == 0) o.window = 1 + below(longest);
  if (below(3) == 0) o.alibi = std::array{1.0, 0.02, -0.02}[below(3)];
  if (below(3) == 0) o.dropout = std::array{0.1, 0.3, 0.5}[below(3)];
  return o;
}

/// Cuts the options' lengths, made longer, into sequences of any lengths, 0 included.
inline Options packed(Options o, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  o.batch = 1;
  o.mask = o.bias = o.infinite_bias = o.key_lengths = false;
  o.query_length = o.key_length = 0;
  for (std::uint64_t left = 1 + random() % 6; left > 0; --left) {
    const auto rows = static_cast<std::int64_t>(random() % (random() % 3 == 0 ? 150 : 15));
    const bool same = random() % 2 == 0;
    o.query_lengths.push_back(rows);
    o.key_lengths_packed.push_back(same ? rows : static_cast<std::int64_t>(random() % 150));
    o.query_length += o.query_lengths.back();
    o.key_length += o.key_lengths_packed.back();
  }
  return o;
}

/// The inputs, in float and in double with the same values.
template <class T>
struct Inputs {
  Tensor<T> query, key, value, d_out;
  Tensor<ScoreType<T>> bias;
  Tensor<bool> mask;
  std::vector<ScoreType<T>> params[kMaxScoreParams], d_lse;
  std::vector<ScoreType<T>> slopes;
  std::vector<std::int64_t> key_lengths, cu_query, cu_key;
  AttentionArgs<T> args;

  void connect(const Options& o) {
    args.score = o.score;
    args.batch = o.batch;
    args.query_heads = o.query_heads;
    args.kv_heads = o.kv_heads;
    args.query_length = o.query_length;
    args.key_length = o.key_length;
    args.qk_dim = o.qk_dim;
    args.v_dim = o.v_dim;
    args.causal = o.causal;
    args.window = o.window;
    if (o.alibi != 0) {
      slopes.clear();
      for (std::int64_t h = 0; h < std::max<std::int64_t>(1, o.query_heads); ++h) {
        slopes.push_back(static_cast<float>(o.alibi * std::exp2(-static_cast<double>(h))));
      }
      args.alibi_slopes = {slopes.data(), o.shared_params ? 0 : 1};
    }
    args.dropout = o.dropout;
    args.seed = o.seed << 32 | 77;  // both words of the key
    // Rounded to float first, so that all see the same number.
    args.scale = static_cast<float>(
        o.scale != 0 ? o.scale : 1 / std::sqrt(double(std::max<std::int64_t>(1, o.qk_dim))));
    args.query = std::as_const(query).view();
    args.key = std::as_const(key).view();
    args.value = std::as_const(value).view();
    if (o.mask) args.mask = std::as_const(mask).view();
    if (o.bias) args.bias = std::as_const(bias).view();
    if (o.key_lengths) args.key_lengths = key_lengths.data();
    if (!o.query_lengths.empty()) {
      cu_query.assign(1, 0);
      cu_key.assign(1, 0);
      for (const std::int64_t n : o.query_lengths) cu_query.push_back(cu_query.back() + n);
      for (const std::int64_t n : o.key_lengths_packed) cu_key.push_back(cu_key.back() + n);
      args.sequences = static_cast<std::int64_t>(o.query_lengths.size());
      args.cu_query = cu_query.data();
      args.cu_key = cu_key.data();
    }
    for (std::size_t k = 0; k < kMaxScoreParams; ++k) {
      args.params[k] = {params[k].data(), o.shared_params ? 0 : 1};
    }
  }
};

inline Inputs<float> make_inputs(const Options& o) {
  std::mt19937_64 random(o.seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform;
  Inputs<float> in;
  const auto fill = [&](const Sizes& sizes, Layout layout, double magnitude,
                        std::array<bool, 4> broadcast = {}) {
    Tensor<float> tensor(sizes, layout, broadcast);
    tensor.each([&](float& x) { x = static_cast<float>(magnitude * normal(random)); });
    return tensor;
  };
  in.query = fill({o.batch, o.query_heads, o.query_length, o.qk_dim}, o.layout, o.magnitude);
  in.key = fill({o.batch, o.kv_heads, o.key_length, o.qk_dim}, o.layout, 1);
  in.value = fill({o.batch, o.kv_heads, o.key_length, o.v_dim}, o.layout, 1);
  in.d_out = fill({o.batch, o.query_heads, o.query_length, o.v_dim}, o.layout, 1);
  const Sizes pairs{o.batch, o.query_heads, o.query_length, o.key_length};
  const Layout pair_layout = o.layout == Layout::kTokenMajor ? Layout::kContiguous : o.layout;
  if (o.bias) {
    in.bias = fill(pairs, pair_layout, 1, o.bias_broadcast);
    if (o.infinite_bias) {
      in.bias.each([&](float& x) {
        x = uniform(random) < 0.2f ? -std::numeric_limits<float>::infinity() : x;
      });
    }
  }
  if (o.mask) {
    in.mask = Tensor<bool>(pairs, pair_layout, o.mask_broadcast);
    in.mask.each([&](bool& x) { x = uniform(random) < 0.7f; });
  }
  for (std::int64_t b = 0; b < o.batch; ++b) {
    in.key_lengths.push_back(
        static_cast<std::int64_t>(uniform(random) * static_cast<float>(o.key_length + 1)));
  }
  const ScoreInfo& score = find_score(o.score);
  for (std::size_t k = 0; k < score.params.size(); ++k) {
    for (std::int64_t h = 0; h < std::max<std::int64_t>(1, o.query_heads); ++h) {
      double value = score.params[k].initial * (0.6 + uniform(random));
      if (score.params[k].above == kAnyNumber) value = 2 * normal(random);
      if (o.params[k] != 0) value = o.params[k];
      in.params[k].push_back(static_cast<float>(value));
    }
  }
  if (o.d_lse) {
    for (std::int64_t i = 0; i < o.batch * o.query_heads * o.query_length; ++i)
      in.d_lse.push_back(normal(random));
  }
  in.connect(o);
  return in;
}

/// The same inputs in another type.
template <class T, class From>
Inputs<T> inputs_as(const Inputs<From>& in, const Options& o) {
  Inputs<T> out;
  out.query = in.query.template as<T>();
  out.key = in.key.template as<T>();
  out.value = in.value.template as<T>();
  out.bias = in.bias.template as<ScoreType<T>>();
  out.d_out = in.d_out.template as<T>();
  out.mask = in.mask;
  out.key_lengths = in.key_lengths;
  for (std::size_t k = 0; k < kMaxScoreParams; ++k)
    out.params[k].assign(in.params[k].begin(), in.params[k].end());
  out.d_lse.assign(in.d_lse.begin(), in.d_lse.end());
  out.connect(o);
  return out;
}

/// Where results go: filled with NaN beforehand.
template <class T>
struct Results {
  Tensor<T> out, d_query, d_key, d_value;
  Tensor<ScoreType<T>> d_bias;
  std::vector<ScoreType<T>> lse, d_params[kMaxScoreParams];
  AttentionGradients<T> gradients;

  explicit Results(const Options& o) {
    const Layout layout = o.layout;
    out = Tensor<T>({o.batch, o.query_heads, o.query_length, o.v_dim}, layout);
    d_query = Tensor<T>({o.batch, o.query_heads, o.query_length, o.qk_dim}, layout);
    d_key = Tensor<T>({o.batch, o.kv_heads, o.key_length, o.qk_dim}, layout);
    d_value = Tensor<T>({o.batch, o.kv_heads, o.key_length, o.v_dim}, layout);
    if (o.bias) {
      d_bias = Tensor<ScoreType<T>>({o.batch, o.query_heads, o.query_length, o.key_length},
                                    layout == Layout::kTokenMajor ? Layout::kContiguous : layout,
                                    o.bias_broadcast);
    }
    constexpr auto kNan = std::numeric_limits<ScoreType<T>>::quiet_NaN();
    lse.assign(static_cast<std::size_t>(o.batch * o.query_heads * o.query_length), kNan);
    gradients.query = d_query.view();
    gradients.key = d_key.view();
    gradients.value = d_value.view();
    if (o.bias) gradients.bias = d_bias.view();
    const std::size_t params = find_score(o.score).params.size();
    for (std::size_t k = 0; k < params; ++k) {
      d_params[k].assign(
          static_cast<std::size_t>(o.shared_params ? 1 : std::max<std::int64_t>(1, o.query_heads)),
          kNan);
      gradients.params[k] = {d_params[k].data(), o.shared_params ? 0 : 1};
    }
  }
};

inline const float* data_or_null(const std::vector<float>& v) {
  return v.empty() ? nullptr : v.data();
}
inline const double* data_or_null(const std::vector<double>& v) {
  return v.empty() ? nullptr : v.data();
}

template <class T>
Results<T> run_fused(const Inputs<T>& in, const Options& o, const Parallel& parallel) {
  Results<T> r(o);
  attention_forward(in.args, r.out.view(), r.lse.data(), parallel);
  attention_backward(in.args, std::as_const(r.out).view(), r.lse.data(), in.d_out.view(),
                     data_or_null(in.d_lse), r.gradients, parallel);
  return r;
}

template <class T>
Results<T> run_plain(const Inputs<T>& in, const Options& o) {
  Results<T> r(o);
  plain_forward(in.args, r.out.view(), r.lse.data());
  plain_backward(in.args, in.d_out.view(), data_or_null(in.d_lse), r.gradients);
  return r;
}

/// Hides keys from every query where the options have a mask or bias.
inline void hide_keys(Inputs<float>& in, const Options& o,
                      const std::vector<std::int64_t>& hidden) {
  for (std::int64_t b = 0; b < o.batch; ++b) {
    for (std::int64_t h = 0; h < o.query_heads; ++h) {
      for (std::int64_t i = 0; i < o.query_length; ++i) {
        for (const std::int64_t j : hidden) {
          if (o.mask) *in.mask.view().at(b, h, i, j) = false;
          if (o.bias) *in.bias.view().at(b, h, i, j) = -kInf;
        }
      }
    }
  }
}

/// NaN and infinities into keys and their values.
inline void poison_keys(Inputs<float>& in, const Options& o,
                        const std::vector<std::int64_t>& keys) {
  for (std::int64_t b = 0; b < o.batch; ++b) {
    for (std::int64_t h = 0; h < o.kv_heads; ++h) {
      for (const std::int64_t j : keys) {
        *in.key.view().at(b, h, j, j % 3) = kNan;
        *in.key.view().at(b, h, j, 7) = -kInf;
        *in.value.view().at(b, h, j, j % 5) = j % 2 == 0 ? kInf : kNan;
      }
    }
  }
}

/// Largest error against the truth and largest |truth|. −inf must meet −inf; NaN counts as
/// infinite.
struct Error {
  double error = 0, truth = 0;

  void add(double value, double exact) {
    if (std::isinf(exact) || value == exact) {
      if (value != exact) error = std::numeric_limits<double>::infinity();
      return;
    }
    const double difference = std::abs(value - exact);
    error = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                   : std::max(error, difference);
    truth = std::max(truth, std::abs(exact));
  }
};

template <class T>
std::vector<double> values_of(const Tensor<T>& tensor) {
  std::vector<double> values;
  const_cast<Tensor<T>&>(tensor).each([&](T& x) { values.push_back(convert<double>(x)); });
  return values;
}
template <class T>
std::vector<double> values_of(const std::vector<T>& v) {
  return {v.begin(), v.end()};
}

template <class A, class B>
Error error_of(const A& result, const B& truth) {
  const std::vector<double> values = values_of(result), exact = values_of(truth);
  Error error;
  if (values.size() != exact.size()) error.error = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(values.size(), exact.size()); ++i) {
    error.truth = std::max(error.truth, std::isfinite(exact[i]) ? std::abs(exact[i]) : 0);
    error.add(values[i], exact[i]);
  }
  return error;
}

/// All values that a run wrote, in one row.
inline std::vector<float> all_values(const Results<float>& r) {
  std::vector<float> all;
  const auto append = [&](const auto& values) {
    for (const double v : values_of(values)) all.push_back(static_cast<float>(v));
  };
  append(r.out);
  append(r.lse);
  append(r.d_query);
  append(r.d_key);
  append(r.d_value);
  append(r.d_bias);
  for (const auto& values : r.d_params) append(values);
  return all;
}

inline bool same_bits(const Results<float>& a, const Results<float>& b) {
  const std::vector<float> x = all_values(a), y = all_values(b);
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

/// Runs tasks last to first and claims to have that many threads: the plan splits as for them.
inline Parallel pretend(int threads) {
  return {threads, [](std::int64_t count, const std::function<void(std::int64_t)>& task) {
            for (std::int64_t i = count; i-- > 0;) task(i);
          }};
}

}  // namespace ssa::test
