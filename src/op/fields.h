// The arguments of ssa::attention, each once: kFields is the order of the schema. The schema's
// text, the signatures of its kernels, calls through the dispatcher and what autograd saves are
// made from it.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/StringUtil.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "op/call.h"

namespace ssa {

/// One argument: a member of AttentionCall, and whether ssa::attention_weights has it too.
template <auto kMemberOf>
struct Field {
  static constexpr auto kMember = kMemberOf;
  using Value = std::remove_cvref_t<decltype(std::declval<AttentionCall>().*kMemberOf)>;
  std::string_view name;
  bool of_weights = true;
};

inline constexpr auto kFields = std::make_tuple(  // add an argument at the end, or callers' break
    Field<&AttentionCall::query>{"query"}, Field<&AttentionCall::key>{"key"},
    Field<&AttentionCall::value>{"value", false}, Field<&AttentionCall::score>{"score"},
    Field<&AttentionCall::params>{"params"}, Field<&AttentionCall::mask>{"mask"},
    Field<&AttentionCall::bias>{"bias"}, Field<&AttentionCall::key_lengths>{"key_lengths"},
    Field<&AttentionCall::causal>{"causal"}, Field<&AttentionCall::scale>{"scale"},
    Field<&AttentionCall::dropout>{"dropout", false}, Field<&AttentionCall::seed>{"seed", false},
    Field<&AttentionCall::kernel>{"kernel", false}, Field<&AttentionCall::window>{"window"},
    Field<&AttentionCall::alibi_slopes>{"alibi_slopes"},
    Field<&AttentionCall::cu_query>{"cu_query", false},
    Field<&AttentionCall::cu_key>{"cu_key", false});

/// How an argument of that type stands in a schema, and how a kernel for the dispatcher takes it.
template <class Value>
struct ArgumentType;
template <>
struct ArgumentType<at::Tensor> {
  static constexpr std::string_view kSchema = "Tensor";
  using Type = const at::Tensor&;
};
template <>
struct ArgumentType<std::optional<at::Tensor>> {
  static constexpr std::string_view kSchema = "Tensor?";
  using Type = const std::optional<at::Tensor>&;
};
template <>
struct ArgumentType<std::vector<at::Tensor>> {
  static constexpr std::string_view kSchema = "Tensor[]";
  using Type = at::TensorList;
};
template <>
struct ArgumentType<std::string> {
  static constexpr std::string_view kSchema = "str";
  using Type = std::string_view;
};
template <>
struct ArgumentType<bool> {
  static constexpr std::string_view kSchema = "bool";
  using Type = bool;
};
template <>
struct ArgumentType<double> {
  static constexpr std::string_view kSchema = "float";
  using Type = double;
};
template <>
struct ArgumentType<std::optional<double>> {
  static constexpr std::string_view kSchema = "float?";
  using Type = std::optional<double>;
};
template <>
struct ArgumentType<std::optional<std::int64_t>> {
  static constexpr std::string_view kSchema = "int?";
  using Type = std::optional<std::int64_t>;
};

template <class F>
using Argument = typename ArgumentType<typename F::Value>::Type;

/// Calls visit(name, member) for every argument of a call (const or not).
template <class Call, class Visit>
void visit_fields(Call& call, Visit&& visit) {
  std::apply([&](const auto&... field) { (visit(field.name, call.*field.kMember), ...); }, kFields);
}

/// "Tensor query, Tensor key, …"; only_weights: those that ssa::attention_weights has.
inline std::string schema_arguments(bool only_weights = false) {
  std::string text;
  std::apply(
      [&]<class... F>(const F&... field) {
        const auto add = [&](std::string_view type, std::string_view name, bool of_weights) {
          if (only_weights && !of_weights) return;
          text += c10::str(text.empty() ? "" : ", ", type, " ", name);
        };
        (add(ArgumentType<typename F::Value>::kSchema, field.name, field.of_weights), ...);
      },
      kFields);
  return text;
}

/// The dispatcher's argument as the call keeps it.
inline std::string kept(std::string_view text) { return std::string(text); }
inline std::vector<at::Tensor> kept(at::TensorList tensors) { return tensors.vec(); }
template <class T>
T kept(const T& value) {
  return value;
}

/// Kernels over the structs as kernels over the schema's arguments, and their types.
template <class Fields>
struct Unpacked;
template <class... F>
struct Unpacked<const std::tuple<F...>> {
  using AttentionType = AttentionTensors(Argument<F>...);
  using BackwardType = std::vector<at::Tensor>(const at::Tensor&, const at::Tensor&,
                                               const std::optional<at::Tensor>&,
                                               const std::optional<at::Tensor>&,
                                               const c10::List<bool>&, Argument<F>...);

  static AttentionCall call(Argument<F>... arguments) {
    AttentionCall result;
    ((result.*F::kMember = kept(arguments)), ...);
    return result;
  }

  template <AttentionTensors (*kKernel)(const AttentionCall&)>
  static AttentionTensors attention(Argument<F>... arguments) {
    return kKernel(call(arguments...));
  }

  template <std::vector<at::Tensor> (*kKernel)(const AttentionCall&)>
  static std::vector<at::Tensor> prepare(Argument<F>... arguments) {
    return kKernel(call(arguments...));
  }

  template <std::vector<at::Tensor> (*kKernel)(const BackwardCall&)>
  static std::vector<at::Tensor> backward(const at::Tensor& out, const at::Tensor& lse,
                                          const std::optional<at::Tensor>& grad_out,
                                          const std::optional<at::Tensor>& grad_lse,
                                          const c10::List<bool>& wanted, Argument<F>... arguments) {
    return kKernel(
        {call(arguments...), out, lse, grad_out, grad_lse, {wanted.begin(), wanted.end()}});
  }
};
using AttentionSchema = Unpacked<decltype(kFields)>;

/// The fields that ssa::attention_weights has, in order, as a tuple.
template <std::size_t... kIndex>
constexpr auto weights_fields(std::index_sequence<kIndex...>) {
  return std::tuple_cat([]<std::size_t k>(std::integral_constant<std::size_t, k>) {
    if constexpr (std::get<k>(kFields).of_weights) {
      return std::make_tuple(std::get<k>(kFields));
    } else {
      return std::tuple<>();
    }
  }(std::integral_constant<std::size_t, kIndex>())...);
}
inline constexpr auto kWeightsFields =
    weights_fields(std::make_index_sequence<std::tuple_size_v<decltype(kFields)>>());

template <class Fields>
struct UnpackedWeights;
template <class... F>
struct UnpackedWeights<const std::tuple<F...>> {
  using Type = at::Tensor(Argument<F>...);

  template <at::Tensor (*kKernel)(const AttentionCall&)>
  static at::Tensor weights(Argument<F>... arguments) {
    AttentionCall call;
    ((call.*F::kMember = kept(arguments)), ...);
    return kKernel(call);
  }
};
using WeightsSchema = UnpackedWeights<decltype(kWeightsFields)>;

}  // namespace ssa
