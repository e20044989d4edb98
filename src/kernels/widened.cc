#include "kernels/widened.h"

#include <tuple>
#include <vector>

namespace ssa {
namespace {

/// A tensor (batch, heads, length, dim) of floats of our own.
class Wide {
 public:
  Wide(std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t dim)
      : batch_(batch),
        heads_(heads),
        length_(length),
        dim_(dim),
        data_(static_cast<std::size_t>(batch * heads * length * dim)) {}

  Wide(const View4<const BFloat16>& from, std::int64_t batch, std::int64_t heads,
       std::int64_t length, std::int64_t dim, const Parallel& parallel)
      : Wide(batch, heads, length, dim) {
    each(parallel, [&](float& to, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
      to = static_cast<float>(*from.at(b, h, i, c));
    });
  }

  View4<float> view() { return {data_.data(), {heads_ * length_ * dim_, length_ * dim_, dim_, 1}}; }
  View4<const float> constant() { return {data_.data(), view().stride}; }

  void narrow(const View4<BFloat16>& to, const Parallel& parallel) {
    each(parallel, [&](float& from, std::int64_t b, std::int64_t h, std::int64_t i,
                       std::int64_t c) { *to.at(b, h, i, c) = BFloat16(from); });
  }

 private:
  template <class F>
  void each(const Parallel& parallel, F&& f) {
    parallel.run(batch_ * heads_, [&](std::int64_t t) {
      float* element = data_.data() + t * length_ * dim_;
      for (std::int64_t i = 0; i < length_; ++i) {
        for (std::int64_t c = 0; c < dim_; ++c) f(*element++, t / heads_, t % heads_, i, c);
      }
    });
  }

  std::int64_t batch_, heads_, length_, dim_;
  std::vector<float> data_;
};

/// The inputs of a call in float.
struct WideInputs {
  Wide query, key, value;
  AttentionArgs<float> args;

  WideInputs(const AttentionArgs<BFloat16>& narrow, const Parallel& parallel)
      : query(narrow.query, narrow.batch, narrow.query_heads, narrow.query_length, narrow.qk_dim,
              parallel),
        key(narrow.key, narrow.batch, narrow.kv_heads, narrow.key_length, narrow.qk_dim, parallel),
        value(narrow.value, narrow.batch, narrow.kv_heads, narrow.key_length, narrow.v_dim,
              parallel),
        args{narrow, query.constant(), key.constant(), value.constant()} {}
};

}  // namespace

void widened_forward(const AttentionArgs<BFloat16>& args, const View4<BFloat16>& out, float* lse,
                     const Parallel& parallel) {
  const WideInputs wide(args, parallel);
  Wide wide_out(args.batch, args.query_heads, args.query_length, args.v_dim);
  attention_forward(wide.args, wide_out.view(), lse, parallel);
  wide_out.narrow(out, parallel);
}

void widened_backward(const AttentionArgs<BFloat16>& args, const View4<const BFloat16>& out,
                      const float* lse, const View4<const BFloat16>& d_out, const float* d_lse,
                      const AttentionGradients<BFloat16>& gradients, const Parallel& parallel) {
  const WideInputs wide(args, parallel);
  const auto like_out = [&](const View4<const BFloat16>& view) {
    return Wide(view, args.batch, args.query_heads, args.query_length, args.v_dim, parallel);
  };
  Wide wide_out = like_out(out), wide_d_out = like_out(d_out);
  Wide query(args.batch, args.query_heads, args.query_length, args.qk_dim);
  Wide key(args.batch, args.kv_heads, args.key_length, args.qk_dim);
  Wide value(args.batch, args.kv_heads, args.key_length, args.v_dim);
  AttentionGradients<float> wide_gradients;
  wide_gradients.bias = gradients.bias;
  wide_gradients.params = gradients.params;
  const std::tuple<Wide*, View4<float>*, const View4<BFloat16>*> tensors[] = {
      {&query, &wide_gradients.query, &gradients.query},
      {&key, &wide_gradients.key, &gradients.key},
      {&value, &wide_gradients.value, &gradients.value}};
  for (const auto& [own, view, wanted] : tensors) {
    if (wanted->data != nullptr) *view = own->view();
  }
  attention_backward(wide.args, wide_out.constant(), lse, wide_d_out.constant(), d_lse,
                     wide_gradients, parallel);
  for (const auto& [own, view, wanted] : tensors) {
    if (wanted->data != nullptr) own->narrow(*wanted, parallel);
  }
}

}  // namespace ssa
