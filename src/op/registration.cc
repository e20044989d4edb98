// ssa::attention for the dispatcher: schema, kernels for every device, Meta, autocast.
// Autograd stands in autograd.cc.
#include <ATen/autocast_mode.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <mutex>

#include "op/attention.h"
#include "op/call.h"
#include "op/composed.h"
#include "op/fields.h"
#include "op/fused.h"
#include "ssa/attention.h"

namespace ssa {
namespace {

thread_local std::string_view last_path;

/// Remembers the path for last_attention_path() and logs it once per process and path (torch's own
/// log: environment variable TORCH_CPP_LOG_LEVEL=INFO shows it on stderr).
void note_path(std::string_view path) {
  static std::once_flag fused_logged, composed_logged, triton_logged;
  if (path == "triton") {
    last_path = "triton";
    std::call_once(triton_logged, [] { LOG(INFO) << "ssa::attention: Triton kernels"; });
    return;
  }
  last_path = path;
  if (path == "fused") {
    std::call_once(fused_logged,
                   [] { LOG(INFO) << "ssa::attention: fused kernels, " << kernel_target(); });
  } else {
    std::call_once(composed_logged,
                   [] { LOG(INFO) << "ssa::attention: composed path (ATen operations)"; });
  }
}

AttentionTensors attention_kernel(const AttentionCall& given) {
  check_call(given);
  check_values(given);
  AttentionCall call = given;
  call.seed = resolve_seed(given);
  const std::string_view path = choose_path(call);
  note_path(path);
  const auto outputs = make_outputs(call);
  const auto& [out, lse] = outputs;
  path == "fused" ? fused_forward(call, out, lse) : composed_forward(call, out, lse);
  return outputs;
}

/// For kernels that Python registers: what all of them do before they compute. Returns out and lse
/// to write to, and dropout's seed where there is one.
std::vector<at::Tensor> prepare_attention(const AttentionCall& call) {
  check_call(call);
  check_values(call);
  const auto [out, lse] = make_outputs(call);
  std::vector<at::Tensor> prepared{out, lse};
  if (const auto seed = resolve_seed(call)) prepared.push_back(*seed);
  return prepared;
}

/// The composed path whatever other kernels there are: what such kernels leave to it.
AttentionTensors composed_attention(const AttentionCall& given) {
  AttentionCall call = given;
  call.kernel = "composed";
  return attention_kernel(call);
}

AttentionTensors attention_meta(const AttentionCall& call) {
  check_call(call);
  return make_outputs(call);
}

void check_backward(const BackwardCall& backward) {
  const AttentionCall& call = backward.call;
  check_call(call);
  const std::size_t inputs = differentiable_inputs(call).size();
  TORCH_CHECK_VALUE(backward.wanted.size() == inputs, "ssa::attention_backward: wanted must have ",
                    inputs, " entries, got ", backward.wanted.size());
  const c10::SymInt rows[] = {call.query.sym_size(0), call.query.sym_size(1),
                              call.query.sym_size(2), call.value.sym_size(3)};
  const c10::SymInt none[] = {0};
  const c10::SymIntArrayRef out_shape(rows),
      lse_shape = is_phi(call) ? out_shape.slice(0, 3) : c10::SymIntArrayRef(none);
  const std::tuple<const char*, const OptionalTensor, c10::SymIntArrayRef, at::ScalarType>
      expected[] = {{"out", backward.out, out_shape, call.query.scalar_type()},
                    {"lse", backward.lse, lse_shape, compute_type(call)},
                    {"grad_out", backward.grad_out, out_shape, call.query.scalar_type()},
                    {"grad_lse", backward.grad_lse, lse_shape, compute_type(call)}};
  for (const auto& [name, tensor, shape, type] : expected) {
    TORCH_CHECK_VALUE(!tensor || (tensor->sym_sizes() == shape && tensor->scalar_type() == type),
                      "ssa::attention_backward: ", name, " must be ", type, " of shape ", shape,
                      ", got ", tensor->scalar_type(), " of shape ", tensor->sym_sizes());
  }
  TORCH_CHECK_VALUE(call.dropout <= 0 || call.seed,
                    "ssa::attention_backward: dropout needs the forward's seed");
}

std::vector<at::Tensor> backward_kernel(const BackwardCall& backward) {
  check_backward(backward);
  return choose_path(backward.call) == "fused" ? fused_backward(backward)
                                               : composed_backward(backward);
}

std::vector<at::Tensor> composed_attention_backward(const BackwardCall& backward) {
  check_backward(backward);
  return composed_backward(backward);
}

/// See prepare_attention.
std::vector<at::Tensor> prepare_attention_backward(const BackwardCall& backward) {
  check_backward(backward);
  return {};
}

std::vector<at::Tensor> backward_meta(const BackwardCall& backward) {
  check_backward(backward);
  std::vector<at::Tensor> results;
  const std::vector<at::Tensor> inputs = differentiable_inputs(backward.call);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (backward.wanted[i]) results.push_back(at::empty_like(inputs[i]));
  }
  return results;
}

/// query, key and value in autocast's type; the score's parameters, the bias and ALiBi's slopes
/// stay float32, for they are few and their gradients are sums that cancel.
template <at::DeviceType kDevice>
AttentionTensors attention_autocast(const AttentionCall& given) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
  const at::ScalarType type = at::autocast::get_autocast_dtype(kDevice);
  AttentionCall call = given;
  for (at::Tensor* tensor : {&call.query, &call.key, &call.value}) {
    *tensor = at::autocast::cached_cast(type, *tensor, kDevice);
  }
  for (at::Tensor& param : call.params)
    param = at::autocast::cached_cast(at::kFloat, param, kDevice);
  for (OptionalTensor* tensor : {&call.bias, &call.alibi_slopes}) {
    if (*tensor) *tensor = at::autocast::cached_cast(at::kFloat, **tensor, kDevice);
  }
  return call_attention(call);
}

at::Tensor weights_kernel(const AttentionCall& given) {
  const at::NoGradGuard no_grad;
  AttentionCall call = given;
  call.value = call.key;  // not read
  check_call(call);
  check_values(call);
  return composed_weights(call);
}

/// Whatever the inputs require: the weights have no gradient.
at::Tensor weights_autograd(const AttentionCall& call) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ssa::attention_weights", "")
                             .typed<WeightsSchema::Type>();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return std::apply([&](const auto&... field) { return op.call(call.*field.kMember...); },
                    kWeightsFields);
}

at::Tensor weights_meta(const AttentionCall& given) {
  AttentionCall call = given;
  call.value = call.key;
  check_call(call);
  return at::empty_symint({call.query.sym_size(0), call.query.sym_size(1), call.query.sym_size(2),
                           call.key.sym_size(2)},
                          call.query.options().dtype(compute_type(call)));
}

using ScoreFacts = std::tuple<std::string, std::string, std::string, std::string,
                              std::vector<std::string>, std::vector<double>, std::vector<double>,
                              std::vector<double>, c10::List<bool>, std::vector<std::string>>;

const char* family_name(ScoreFamily family) {
  switch (family) {
    case ScoreFamily::kPhi:
      return "phi";
    case ScoreFamily::kRowMap:
      return "row map";
    case ScoreFamily::kLinear:
      break;
  }
  return "linear";
}

ScoreFacts score_facts(std::string_view name) {
  const ScoreInfo& info = find_score(name);
  ScoreFacts facts;
  auto& [family, formula, sink, help, names, initial, above, lower, trained, param_help] = facts;
  family = family_name(info.family);
  formula = info.formula;
  sink = info.sink;
  help = info.help;
  for (const ParamInfo& param : info.params) {
    names.emplace_back(param.name);
    initial.push_back(param.initial);
    above.push_back(param.above);
    lower.push_back(param.module_lower);
    trained.push_back(param.trained);
    param_help.emplace_back(param.help);
  }
  return facts;
}

std::vector<std::string> score_names() {
  std::vector<std::string> names;
  for (const ScoreInfo& info : scores()) names.emplace_back(info.name);
  return names;
}

TORCH_LIBRARY(ssa, library) {
  const std::string all = schema_arguments(), of_weights = schema_arguments(true);
  const std::string forward = c10::str("attention(", all, ") -> (Tensor out, Tensor lse)"),
                    backward = c10::str(
                        "attention_backward(Tensor out, Tensor lse, Tensor? grad_out, Tensor? "
                        "grad_lse, bool[] wanted, ",
                        all, ") -> Tensor[]"),
                    weights = c10::str("attention_weights(", of_weights, ") -> Tensor");
  library.def(forward.c_str());
  library.def(backward.c_str());
  library.def(weights.c_str());
  for (const auto& [name, rest] :
       {std::pair{"_composed_attention(", ") -> (Tensor out, Tensor lse)"},
        std::pair{"_prepare_attention(", ") -> Tensor[]"}}) {
    library.def(c10::str(name, all, rest).c_str());
  }
  for (const char* name : {"_composed_attention_backward(", "_prepare_attention_backward("}) {
    library.def(c10::str(name,
                         "Tensor out, Tensor lse, Tensor? grad_out, Tensor? grad_lse, bool[] "
                         "wanted, ",
                         all, ") -> Tensor[]")
                    .c_str());
  }
  library.def("_note_attention_path(str path) -> ()",
              [](std::string_view path) { note_path(path); });
  library.def(
      "merge(Tensor[] out, Tensor[] lse, str score, Tensor[] params) -> (Tensor out, Tensor lse)",
      merge_parts);
  library.def("last_attention_path() -> str", last_attention_path);
  library.def("last_dropout_seed() -> int?", last_dropout_seed);
  library.def("scores() -> str[]", score_names);
  library.def(
      "score_facts(str name) -> (str family, str formula, str sink, str help, str[] params, "
      "float[] "
      "initial, float[] above, float[] module_lower, bool[] trained, str[] param_help)",
      score_facts);
}

TORCH_LIBRARY_IMPL(ssa, CompositeExplicitAutograd, library) {
  library.impl("attention", AttentionSchema::attention<attention_kernel>);
  library.impl("attention_backward", AttentionSchema::backward<backward_kernel>);
  library.impl("attention_weights", WeightsSchema::weights<weights_kernel>);
  library.impl("_composed_attention", AttentionSchema::attention<composed_attention>);
  library.impl("_composed_attention_backward",
               AttentionSchema::backward<composed_attention_backward>);
  library.impl("_prepare_attention", AttentionSchema::prepare<prepare_attention>);
  library.impl("_prepare_attention_backward",
               AttentionSchema::backward<prepare_attention_backward>);
}

TORCH_LIBRARY_IMPL(ssa, Meta, library) {
  library.impl("attention", AttentionSchema::attention<attention_meta>);
  library.impl("attention_backward", AttentionSchema::backward<backward_meta>);
  library.impl("attention_weights", WeightsSchema::weights<weights_meta>);
}

TORCH_LIBRARY_IMPL(ssa, Autograd, library) {
  library.impl("attention_weights", WeightsSchema::weights<weights_autograd>);
}

TORCH_LIBRARY_IMPL(ssa, AutocastCPU, library) {
  library.impl("attention", AttentionSchema::attention<attention_autocast<at::kCPU>>);
}

TORCH_LIBRARY_IMPL(ssa, AutocastCUDA, library) {
  library.impl("attention", AttentionSchema::attention<attention_autocast<at::kCUDA>>);
}

}  // namespace

std::string last_attention_path() { return std::string(last_path); }

}  // namespace ssa
