// What ssa::attention accepts, said in terms of tensors. Paths below it check nothing again; the
// kernels check the plain structs that they get (kernels/check_args.cc) once more, as they are an
// interface of their own for C++ without torch.
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "op/attention.h"
#include "op/call.h"
#include "op/dropout.h"
#include "ssa/score_info.h"

namespace ssa {
namespace {

constexpr const char* kOp = "ssa::attention: ";

const ScoreInfo& score_of(const AttentionCall& call) {
  const auto all = scores();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const ScoreInfo& info) { return info.name == call.score; });
  if (found == all.end()) {
    std::ostringstream names;
    for (const ScoreInfo& info : all) names << (&info == &all[0] ? "" : ", ") << info.name;
    TORCH_CHECK_VALUE(false, kOp, "score \"", call.score,
                      "\" is unknown; known scores: ", names.str());
  }
  return *found;
}

void check_query_key_value(const AttentionCall& call) {
  const auto& [query, key, value] = std::tie(call.query, call.key, call.value);
  const std::pair<const char*, const at::Tensor*> tensors[] = {
      {"query", &query}, {"key", &key}, {"value", &value}};
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK_VALUE(tensor->dim() == 4, kOp, name,
                      " must have 4 dimensions (batch, heads, length, head dimension), got shape ",
                      tensor->sym_sizes());
    TORCH_CHECK_VALUE(tensor->layout() == at::kStrided, kOp, name,
                      " must be a dense tensor, got layout ", tensor->layout());
    TORCH_CHECK_TYPE(tensor->scalar_type() == query.scalar_type(), kOp, name, " is ",
                     tensor->scalar_type(), " but query is ", query.scalar_type(),
                     "; query, key and value must share one dtype");
    TORCH_CHECK_VALUE(tensor->device() == query.device(), kOp, name, " is on ", tensor->device(),
                      " but query is on ", query.device());
  }
  const at::ScalarType type = query.scalar_type();
  TORCH_CHECK_TYPE(
      type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble, kOp,
      "query, key and value must be float32, bfloat16, float16 or float64, got ", type);
  TORCH_CHECK_VALUE(key.sym_size(0) == query.sym_size(0) && value.sym_size(0) == query.sym_size(0),
                    kOp, "batch sizes differ: query ", query.sym_sizes(), ", key ", key.sym_sizes(),
                    ", value ", value.sym_sizes());
  TORCH_CHECK_VALUE(key.sym_size(3) == query.sym_size(3), kOp,
                    "head dimensions of query and key differ: query ", query.sym_sizes(), ", key ",
                    key.sym_sizes());
  TORCH_CHECK_VALUE(value.sym_size(1) == key.sym_size(1) && value.sym_size(2) == key.sym_size(2),
                    kOp, "heads and lengths of key and value differ: key ", key.sym_sizes(),
                    ", value ", value.sym_sizes());
  const c10::SymInt query_heads = query.sym_size(1), kv_heads = key.sym_size(1);
  TORCH_CHECK_VALUE(kv_heads == query_heads || (kv_heads > 0 && query_heads % kv_heads == 0), kOp,
                    "query heads must be a multiple of key heads (grouped heads), got ",
                    query_heads, " and ", kv_heads, ": query ", query.sym_sizes(), ", key ",
                    key.sym_sizes());
}

void check_params(const AttentionCall& call) {
  const ScoreInfo& score = score_of(call);
  if (call.params.size() != score.params.size()) {
    std::ostringstream names;
    for (const ParamInfo& info : score.params) {
      names << (&info == &score.params[0] ? " (" : ", ") << info.name;
    }
    TORCH_CHECK_VALUE(false, kOp, "score \"", score.name, "\" has ", score.params.size(), " params",
                      names.str(), score.params.empty() ? "" : ")", ", got ", call.params.size());
  }
  const c10::SymInt query_heads = call.query.sym_size(1);
  for (std::size_t i = 0; i < call.params.size(); ++i) {
    const at::Tensor& param = call.params[i];
    const std::string_view name = score.params[i].name;
    TORCH_CHECK_TYPE(param.scalar_type() == compute_type(call), kOp, "parameter ", name,
                     " must be ", compute_type(call), " with a query of ", call.query.scalar_type(),
                     ", got ", param.scalar_type());
    TORCH_CHECK_VALUE(
        param.dim() <= 1 && (param.sym_numel() == 1 || param.sym_numel() == query_heads), kOp,
        "parameter ", name, " must have shape [1] or [query heads] = [", query_heads, "], got ",
        param.sym_sizes());
    TORCH_CHECK_VALUE(param.device() == call.query.device(), kOp, "parameter ", name, " is on ",
                      param.device(), " but query is on ", call.query.device());
  }
}

void check_broadcast(const AttentionCall& call, const char* name, const at::Tensor& tensor) {
  const c10::SymInt target[] = {call.query.sym_size(0), call.query.sym_size(1),
                                call.query.sym_size(2), call.key.sym_size(2)};
  const std::int64_t rank = tensor.dim();
  bool fits = rank >= 2 && rank <= 4;
  for (std::int64_t i = 0; fits && i < rank; ++i) {
    const c10::SymInt size = tensor.sym_size(i);
    fits = size == target[4 - rank + i] || size == 1;
  }
  TORCH_CHECK_VALUE(fits, kOp, name, " of shape ", tensor.sym_sizes(), " does not broadcast to ",
                    c10::SymIntArrayRef(target),
                    " (batch, query heads, query length, key length) from 2 to 4 dimensions");
  TORCH_CHECK_VALUE(tensor.device() == call.query.device(), kOp, name, " is on ", tensor.device(),
                    " but query is on ", call.query.device());
}

void check_hidden_keys(const AttentionCall& call) {
  if (call.mask) {
    TORCH_CHECK_TYPE(call.mask->scalar_type() == at::kBool, kOp,
                     "mask must be bool (True = may attend), got ", call.mask->scalar_type(),
                     " of shape ", call.mask->sym_sizes(), "; additive values go into bias");
    check_broadcast(call, "mask", *call.mask);
  }
  if (call.bias) {
    TORCH_CHECK_TYPE(call.bias->scalar_type() == compute_type(call), kOp, "bias must be ",
                     compute_type(call), " with a query of ", call.query.scalar_type(), ", got ",
                     call.bias->scalar_type());
    check_broadcast(call, "bias", *call.bias);
  }
  if (call.key_lengths) {
    const at::Tensor& lengths = *call.key_lengths;
    TORCH_CHECK_TYPE(lengths.scalar_type() == at::kLong, kOp, "key_lengths must be int64, got ",
                     lengths.scalar_type());
    TORCH_CHECK_VALUE(lengths.dim() == 1 && lengths.sym_size(0) == call.query.sym_size(0), kOp,
                      "key_lengths must have shape [batch] = [", call.query.sym_size(0), "], got ",
                      lengths.sym_sizes());
    TORCH_CHECK_VALUE(lengths.device() == call.query.device(), kOp, "key_lengths is on ",
                      lengths.device(), " but query is on ", call.query.device());
  }
}

void check_alibi(const AttentionCall& call) {
  if (!call.alibi_slopes) return;
  const at::Tensor& slopes = *call.alibi_slopes;
  const c10::SymInt query_heads = call.query.sym_size(1);
  TORCH_CHECK_TYPE(slopes.scalar_type() == compute_type(call), kOp, "alibi_slopes must be ",
                   compute_type(call), " with a query of ", call.query.scalar_type(), ", got ",
                   slopes.scalar_type());
  TORCH_CHECK_VALUE(
      slopes.dim() == 1 && (slopes.sym_size(0) == 1 || slopes.sym_size(0) == query_heads), kOp,
      "alibi_slopes must have shape [1] or [query heads] = [", query_heads, "], got ",
      slopes.sym_sizes());
  TORCH_CHECK_VALUE(slopes.device() == call.query.device(), kOp, "alibi_slopes is on ",
                    slopes.device(), " but query is on ", call.query.device());
  TORCH_CHECK_VALUE(!slopes.requires_grad(), kOp,
                    "alibi_slopes are fixed and have no gradient; pass alibi_slopes.detach(), or a "
                    "bias for penalties that are learnt");
}

void check_packed(const AttentionCall& call) {
  TORCH_CHECK_VALUE(call.cu_query.has_value() == call.cu_key.has_value(), kOp,
                    "cu_query and cu_key must be given together; only ",
                    call.cu_query ? "cu_query" : "cu_key", " is");
  if (!call.cu_query) return;
  const std::pair<const char*, bool> arguments[] = {{"mask", call.mask.has_value()},
                                                    {"bias", call.bias.has_value()},
                                                    {"key_lengths", call.key_lengths.has_value()}};
  for (const auto& [name, given] : arguments) {
    TORCH_CHECK_VALUE(!given, kOp, "packed sequences (cu_query, cu_key) take no ", name);
  }
  TORCH_CHECK_VALUE(call.query.sym_size(0) == 1, kOp,
                    "packed sequences (cu_query, cu_key) lie in a batch of 1, got query ",
                    call.query.sym_sizes());
  for (const auto& [name, cu] :
       {std::pair{"cu_query", &*call.cu_query}, std::pair{"cu_key", &*call.cu_key}}) {
    TORCH_CHECK_TYPE(cu->scalar_type() == at::kLong || cu->scalar_type() == at::kInt, kOp, name,
                     " must be int64 or int32, got ", cu->scalar_type());
    TORCH_CHECK_VALUE(cu->dim() == 1 && cu->sym_size(0) >= 1, kOp, name,
                      " must have one dimension of (number of sequences) + 1 elements, got shape ",
                      cu->sym_sizes());
  }
  TORCH_CHECK_VALUE(call.cu_query->sym_size(0) == call.cu_key->sym_size(0), kOp,
                    "cu_query and cu_key must have the same number of elements, got ",
                    call.cu_query->sym_sizes(), " and ", call.cu_key->sym_sizes());
}

void check_cumulative(const char* name, const at::Tensor& given, std::int64_t length) {
  const at::Tensor cu = cumulative(given);
  const std::int64_t* value = cu.const_data_ptr<std::int64_t>();
  const std::int64_t last = cu.numel() - 1;
  TORCH_CHECK_VALUE(value[0] == 0, kOp, name, "[0] must be 0, got ", value[0]);
  for (std::int64_t s = 0; s < last; ++s) {
    TORCH_CHECK_VALUE(value[s] <= value[s + 1], kOp, name, " must not decrease, but ", name, "[", s,
                      "] = ", value[s], " and ", name, "[", s + 1, "] = ", value[s + 1]);
  }
  TORCH_CHECK_VALUE(value[last] == length, kOp, "the last element of ", name,
                    " must be the length ", length, ", got ", value[last]);
}

/// What linear attention cannot do: there is no score that a bias or mask could change.
void check_linear(const AttentionCall& call) {
  if (score_of(call).family != ScoreFamily::kLinear) return;
  const std::pair<const char*, bool> arguments[] = {{"mask", call.mask.has_value()},
                                                    {"bias", call.bias.has_value()},
                                                    {"window", call.window.has_value()},
                                                    {"alibi_slopes", call.alibi_slopes.has_value()},
                                                    {"dropout", call.dropout > 0}};
  for (const auto& [name, given] : arguments) {
    TORCH_CHECK_VALUE(!given, kOp, "score \"", call.score, "\" is linear attention and takes no ",
                      name, "; causal and key_lengths work");
  }
  TORCH_CHECK_VALUE(!call.scale || *call.scale > 0, kOp, "score \"", call.score,
                    "\" is normalised: a positive scale changes nothing, got ", *call.scale);
  TORCH_CHECK_VALUE(!call.params[0].requires_grad(), kOp, "parameter ",
                    score_of(call).params[0].name, " of score \"", call.score,
                    "\" is fixed and has no gradient");
}

/// Why the fused kernels cannot take this call; empty when they can.
std::string fused_obstacle(const AttentionCall& call) {
  if (!is_phi(call)) return "score \"" + call.score + "\" is not of the phi family";
  if (!call.query.is_cpu())
    return "inputs are on " + call.query.device().str() + ", not on the CPU";
  if (call.query.scalar_type() == at::kDouble) return "inputs are float64";
  return {};
}

/// The values of a tensor of at most one dimension. Those that lie on the CPU as float are read as
/// they are: by way of other tensors two parameters cost 5 µs, a third of a small call.
std::vector<double> values_of(const at::Tensor& tensor) {
  if (tensor.is_cpu() && tensor.scalar_type() == at::kFloat) {
    const float* value = tensor.const_data_ptr<float>();
    const std::int64_t stride = tensor.dim() == 0 ? 0 : tensor.stride(0);
    std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = value[static_cast<std::int64_t>(i) * stride];
    }
    return values;
  }
  const at::Tensor copy = tensor.detach().reshape({-1}).to(at::kCPU, at::kDouble).contiguous();
  const double* value = copy.const_data_ptr<double>();
  return {value, value + copy.numel()};
}

void check_seed(const AttentionCall& call) {
  if (!call.seed) return;
  const at::Tensor& seed = *call.seed;
  TORCH_CHECK_TYPE(seed.scalar_type() == at::kLong, kOp, "seed must be int64, got ",
                   seed.scalar_type());
  TORCH_CHECK_VALUE(seed.sym_numel() == 1, kOp, "seed must be one number, got shape ",
                    seed.sym_sizes());
  TORCH_CHECK_VALUE(seed.is_cpu() || seed.device() == call.query.device(), kOp, "seed is on ",
                    seed.device(), " but query is on ", call.query.device());
}

/// Whether values may be read: they always may on the CPU.
bool may_read_values(const AttentionCall& call) {
  static const bool always = [] {
    const char* text = std::getenv("SSA_CHECK_VALUES");
    return text != nullptr && std::string_view(text) == "1";
  }();
  return always || call.query.is_cpu();
}

thread_local at::Tensor last_seed;

}  // namespace

void check_call(const AttentionCall& call) {
  check_query_key_value(call);
  check_params(call);
  check_hidden_keys(call);
  check_alibi(call);
  check_packed(call);
  check_linear(call);
  check_seed(call);
  TORCH_CHECK_VALUE(!call.scale || std::isfinite(*call.scale), kOp, "scale must be finite, got ",
                    *call.scale);
  TORCH_CHECK_VALUE(!call.window || *call.window >= 1, kOp,
                    "window must be >= 1 (1: only the query's own position) or None, got ",
                    *call.window);
  TORCH_CHECK_VALUE(call.dropout >= 0 && call.dropout < 1, kOp, "dropout must be in [0, 1), got ",
                    call.dropout);
  TORCH_CHECK_VALUE(call.kernel == "auto" || call.kernel == "fused" || call.kernel == "composed",
                    kOp, "kernel must be \"auto\", \"fused\" or \"composed\", got \"", call.kernel,
                    "\"");
}

void check_values(const AttentionCall& call) {
  if (!may_read_values(call)) return;
  const ScoreInfo& score = score_of(call);
  for (std::size_t i = 0; i < call.params.size(); ++i) {
    const std::vector<double> values = values_of(call.params[i]);
    for (std::size_t head = 0; head < values.size(); ++head) {
      TORCH_CHECK_VALUE(score.params[i].allows(values[head]), kOp, "parameter ",
                        score.params[i].name, " of score \"", score.name, "\" must be ",
                        range_of(score.params[i]), ", got ", values[head], " at index ", head,
                        " of shape ", call.params[i].sizes());
    }
  }
  if (score.family == ScoreFamily::kLinear) {
    const at::Tensor& length = call.params[0];
    const std::int64_t longest = std::max(call.query.size(2), call.key.size(2));
    TORCH_CHECK_VALUE(length.min().item<double>() == length.max().item<double>() &&
                          length.min().item<double>() >= static_cast<double>(longest),
                      kOp, "parameter ", score.params[0].name, " of score \"", score.name,
                      "\" must be one number for all heads, at least the length ", longest,
                      ", got ", length);
  }
  if (call.alibi_slopes) {
    const at::Tensor slopes = call.alibi_slopes->detach().to(at::kCPU, at::kDouble).contiguous();
    for (std::int64_t head = 0; head < slopes.numel(); ++head) {
      const double slope = slopes.const_data_ptr<double>()[head];
      TORCH_CHECK_VALUE(std::isfinite(slope), kOp, "alibi_slopes must be finite, got ", slope,
                        " at index ", head);
    }
  }
  if (call.cu_query) {
    check_cumulative("cu_query", *call.cu_query, call.query.size(2));
    check_cumulative("cu_key", *call.cu_key, call.key.size(2));
  }
  if (call.key_lengths) {
    const at::Tensor lengths = call.key_lengths->to(at::kCPU).contiguous();
    const std::int64_t key_length = call.key.size(2);
    for (std::int64_t i = 0; i < lengths.numel(); ++i) {
      const std::int64_t length = lengths.const_data_ptr<std::int64_t>()[i];
      TORCH_CHECK_VALUE(length >= 0 && length <= key_length, kOp, "key_lengths[", i, "] = ", length,
                        " is outside [0, key length = ", key_length, "]");
    }
  }
}

bool is_phi(const AttentionCall& call) { return score_of(call).family == ScoreFamily::kPhi; }

std::string_view choose_path(const AttentionCall& call) {
  if (call.kernel == "composed") return "composed";
  const std::string obstacle = fused_obstacle(call);
  TORCH_CHECK_VALUE(call.kernel != "fused" || obstacle.empty(), kOp,
                    "kernel=\"fused\" cannot run this call: ", obstacle);
  return obstacle.empty() ? "fused" : "composed";
}

at::Tensor cumulative(const at::Tensor& cu) { return cu.to(at::kCPU, at::kLong).contiguous(); }

double scale_of(const AttentionCall& call) {
  const std::int64_t dim = call.query.size(3);
  return call.scale.value_or(dim == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(dim)));
}

at::ScalarType compute_type(const AttentionCall& call) {
  return call.query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

std::optional<at::Tensor> resolve_seed(const AttentionCall& call) {
  if (call.dropout <= 0) return std::nullopt;
  const bool traced = call.query.unsafeGetTensorImpl()->is_python_dispatch();
  const at::Tensor seed = call.seed ? *call.seed : draw_dropout_seed(call.query.device(), traced);
  if (!traced) last_seed = seed;
  return seed;
}

std::optional<std::int64_t> last_dropout_seed() {
  if (!last_seed.defined() || last_seed.is_meta()) return std::nullopt;
  return last_seed.item<std::int64_t>();
}

std::vector<at::Tensor> differentiable_inputs(const AttentionCall& call) {
  std::vector<at::Tensor> inputs{call.query, call.key, call.value};
  inputs.insert(inputs.end(), call.params.begin(), call.params.end());
  if (call.bias) inputs.push_back(*call.bias);
  return inputs;
}

at::Tensor as_rank4(const at::Tensor& tensor) {
  at::Tensor view = tensor;
  while (view.dim() < 4) view = view.unsqueeze(0);
  return view;
}

AttentionTensors make_outputs(const AttentionCall& call) {
  const at::Tensor& query = call.query;
  const c10::SymInt batch = query.sym_size(0), heads = query.sym_size(1),
                    length = query.sym_size(2), dim = call.value.sym_size(3);
  const bool heads_inside = query.sym_stride(1) < query.sym_stride(2);
  const at::Tensor out =
      heads_inside ? at::empty_symint({batch, length, heads, dim}, query.options()).transpose(1, 2)
                   : at::empty_symint({batch, heads, length, dim}, query.options());
  const auto lse_options = query.options().dtype(compute_type(call));
  return {out, is_phi(call) ? at::empty_symint({batch, heads, length}, lse_options)
                            : at::empty({0}, lse_options)};
}

}  // namespace ssa
