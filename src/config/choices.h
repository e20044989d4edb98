// The choices that a config offers: for each an enum, and the table of its names in files and
// flags. Code asks by `switch` without default, so that the compiler finds every place that a new
// choice concerns.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ssa/score_parametrisation.h"

namespace ssa {

template <class Enum>
struct NamedChoice {
  Enum value;
  std::string_view name;
};

/// The names of an enum's values, in the order of users' lists: specialised for each choice below.
template <class Enum>
inline constexpr bool kNamedChoices = false;

/// An enum that stands in a config.
template <class T>
concept Choice = std::is_enum_v<T> && !std::is_same_v<decltype(kNamedChoices<T>), const bool>;

/// Where a model comes from: it says which options belong together, and the names of weights and
/// config in files (src/model/hugging_face).
enum class Family { number, gpt2, nemotron, llama, roberta, bert };
template <>
inline constexpr auto kNamedChoices<Family> = std::to_array<NamedChoice<Family>>({
    {Family::number, "number"},
    {Family::gpt2, "gpt2"},
    {Family::nemotron, "nemotron"},
    {Family::llama, "llama"},
    {Family::roberta, "roberta"},
    {Family::bert, "bert"},
});

enum class Activation { gelu, gelu_tanh, relu, relu_squared, silu };
template <>
inline constexpr auto kNamedChoices<Activation> = std::to_array<NamedChoice<Activation>>({
    {Activation::gelu, "gelu"},
    {Activation::gelu_tanh, "gelu-tanh"},
    {Activation::relu, "relu"},
    {Activation::relu_squared, "relu-squared"},
    {Activation::silu, "silu"},
});

/// Which linear layers of blocks have a bias.
enum class Biases { all, attention, query_key_value, none };
template <>
inline constexpr auto kNamedChoices<Biases> = std::to_array<NamedChoice<Biases>>({
    {Biases::all, "all"},
    {Biases::attention, "attention"},
    {Biases::query_key_value, "query-key-value"},
    {Biases::none, "none"},
});

enum class NormKind { layer, layer_1p, rms, none };
template <>
inline constexpr auto kNamedChoices<NormKind> = std::to_array<NamedChoice<NormKind>>({
    {NormKind::layer, "layer"},
    {NormKind::layer_1p, "layer-1p"},
    {NormKind::rms, "rms"},
    {NormKind::none, "none"},
});

enum class NormPlace { before, after };
template <>
inline constexpr auto kNamedChoices<NormPlace> = std::to_array<NamedChoice<NormPlace>>({
    {NormPlace::before, "before"},
    {NormPlace::after, "after"},
});

enum class Positions { learned, rope, none };
template <>
inline constexpr auto kNamedChoices<Positions> = std::to_array<NamedChoice<Positions>>({
    {Positions::learned, "learned"},
    {Positions::rope, "rope"},
    {Positions::none, "none"},
});

/// How the angles of rotary positions are stretched for longer texts.
enum class RotaryScaling { none, linear, llama3, yarn };
template <>
inline constexpr auto kNamedChoices<RotaryScaling> = std::to_array<NamedChoice<RotaryScaling>>({
    {RotaryScaling::none, "none"},
    {RotaryScaling::linear, "linear"},
    {RotaryScaling::llama3, "llama3"},
    {RotaryScaling::yarn, "yarn"},
});

enum class InputKind { scalar, tokens };
template <>
inline constexpr auto kNamedChoices<InputKind> = std::to_array<NamedChoice<InputKind>>({
    {InputKind::scalar, "scalar"},
    {InputKind::tokens, "tokens"},
});

enum class ScoreKernel { automatic, fused, composed };
template <>
inline constexpr auto kNamedChoices<ScoreKernel> = std::to_array<NamedChoice<ScoreKernel>>({
    {ScoreKernel::automatic, "auto"},
    {ScoreKernel::fused, "fused"},
    {ScoreKernel::composed, "composed"},
});

enum class ScoreShare { head, layer };
template <>
inline constexpr auto kNamedChoices<ScoreShare> = std::to_array<NamedChoice<ScoreShare>>({
    {ScoreShare::head, "head"},
    {ScoreShare::layer, "layer"},
});

template <>
inline constexpr auto kNamedChoices<Parametrisation> = std::to_array<NamedChoice<Parametrisation>>({
    {Parametrisation::softplus, "softplus"},
    {Parametrisation::exp, "exp"},
    {Parametrisation::raw, "raw"},
});

enum class TaskName { icl_every, icl_some, icl_linear, lm, mlm };
template <>
inline constexpr auto kNamedChoices<TaskName> = std::to_array<NamedChoice<TaskName>>({
    {TaskName::icl_every, "icl-every"},
    {TaskName::icl_some, "icl-some"},
    {TaskName::icl_linear, "icl-linear"},
    {TaskName::lm, "lm"},
    {TaskName::mlm, "mlm"},
});

/// How the inputs of the quantifier tasks are drawn (tasks/icl.h).
enum class IclSampler { balanced, plain };
template <>
inline constexpr auto kNamedChoices<IclSampler> = std::to_array<NamedChoice<IclSampler>>({
    {IclSampler::balanced, "balanced"},
    {IclSampler::plain, "plain"},
});

/// Values of the shifts of `icl-shift` (eval/icl_shift.h).
enum class ShiftGrid { reduced, full };
template <>
inline constexpr auto kNamedChoices<ShiftGrid> = std::to_array<NamedChoice<ShiftGrid>>({
    {ShiftGrid::reduced, "reduced"},
    {ShiftGrid::full, "full"},
});

/// What a special token that is written in a text is read as.
enum class SpecialTokens { text, found };
template <>
inline constexpr auto kNamedChoices<SpecialTokens> = std::to_array<NamedChoice<SpecialTokens>>({
    {SpecialTokens::text, "text"},
    {SpecialTokens::found, "found"},
});

/// Whether tokens see those of their own document alone.
enum class Documents { apart, across };
template <>
inline constexpr auto kNamedChoices<Documents> = std::to_array<NamedChoice<Documents>>({
    {Documents::apart, "apart"},
    {Documents::across, "across"},
});

enum class Masking { babyberta, roberta };
template <>
inline constexpr auto kNamedChoices<Masking> = std::to_array<NamedChoice<Masking>>({
    {Masking::babyberta, "babyberta"},
    {Masking::roberta, "roberta"},
});

enum class TextOrder { shuffle, file };
template <>
inline constexpr auto kNamedChoices<TextOrder> = std::to_array<NamedChoice<TextOrder>>({
    {TextOrder::shuffle, "shuffle"},
    {TextOrder::file, "file"},
});

enum class Precision { float32, bfloat16 };
template <>
inline constexpr auto kNamedChoices<Precision> = std::to_array<NamedChoice<Precision>>({
    {Precision::float32, "float32"},
    {Precision::bfloat16, "bfloat16"},
});

enum class OptimizerKind { adam, adamw, muon };
template <>
inline constexpr auto kNamedChoices<OptimizerKind> = std::to_array<NamedChoice<OptimizerKind>>({
    {OptimizerKind::adam, "adam"},
    {OptimizerKind::adamw, "adamw"},
    {OptimizerKind::muon, "muon"},
});

enum class ScheduleKind { constant, linear, cosine };
template <>
inline constexpr auto kNamedChoices<ScheduleKind> = std::to_array<NamedChoice<ScheduleKind>>({
    {ScheduleKind::constant, "constant"},
    {ScheduleKind::linear, "linear"},
    {ScheduleKind::cosine, "cosine"},
});

/// The name of a value; every value of the enum must stand in its table.
template <Choice C>
constexpr std::string_view name_of(C value) {
  for (const auto& entry : kNamedChoices<C>) {
    if (entry.value == value) return entry.name;
  }
  throw std::logic_error("a choice without a name");
}

template <Choice C>
std::vector<std::string> choice_names() {
  std::vector<std::string> names;
  for (const auto& entry : kNamedChoices<C>) names.emplace_back(entry.name);
  return names;
}

/// The value of that name; nothing if there is none.
template <Choice C>
constexpr std::optional<C> find_choice(std::string_view name) {
  for (const auto& entry : kNamedChoices<C>) {
    if (entry.name == name) return entry.value;
  }
  return {};
}

}  // namespace ssa
