// The functions of row_maps.h and cosformer.h as operators, for test_row_maps.py.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "op/cosformer.h"
#include "op/row_maps.h"

namespace {

at::Tensor weights(const std::string& name, const at::Tensor& scores, const at::Tensor& hidden,
                   const std::vector<at::Tensor>& params) {
  return ssa::find_row_map(name).weights({scores, hidden, params});
}

/// The gradient by the scores, then one for each parameter.
std::vector<at::Tensor> gradients(const std::string& name, const at::Tensor& scores,
                                  const at::Tensor& hidden, const std::vector<at::Tensor>& params,
                                  const at::Tensor& weights, const at::Tensor& d_weights) {
  const ssa::RowGradients result =
      ssa::find_row_map(name).gradients({scores, hidden, params}, weights, d_weights);
  std::vector<at::Tensor> all = {result.scores};
  all.insert(all.end(), result.params.begin(), result.params.end());
  return all;
}

// cosFormer with m as a number.

at::Tensor cosformer_forward(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const std::optional<at::Tensor>& key_lengths,
                             bool causal, double m) {
  return ssa::cosformer_forward(query, key, value, key_lengths, causal,
                                at::scalar_tensor(m, at::kDouble));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cosformer_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const std::optional<at::Tensor>& key_lengths, bool causal, double m) {
  return ssa::cosformer_backward(grad_out, query, key, value, key_lengths, causal,
                                 at::scalar_tensor(m, at::kDouble));
}

at::Tensor cosformer_weights(const at::Tensor& query, const at::Tensor& key,
                             const std::optional<at::Tensor>& key_lengths, bool causal, double m) {
  return ssa::cosformer_weights(query, key, key_lengths, causal, at::scalar_tensor(m, at::kDouble));
}

}  // namespace

TORCH_LIBRARY(ssa_row_maps, library) {
  library.def("weights", &weights);
  library.def("gradients", &gradients);
  library.def("cosformer_forward", &cosformer_forward);
  library.def("cosformer_backward", &cosformer_backward);
  library.def("cosformer_weights", &cosformer_weights);
}
