// What a scoring function tells about itself. The list itself is scores-inl.h.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

namespace ssa {

/// No scoring function has more parameters than this.
inline constexpr std::size_t kMaxScoreParams = 2;

/// One parameter of a scoring function (one value per query head, or one for all heads).
struct ParamInfo {
  std::string_view name;
  double initial;       ///< value when the caller gives none
  double module_lower;  ///< a trained module keeps the value above this: lower + softplus(raw)
  bool trained;         ///< whether a module trains it unless told otherwise
  std::string_view help;
};

/// φ and its derivatives at one point, from 30-digit arithmetic: the values tests compare with.
struct GoldenPoint {
  double s;
  std::array<double, kMaxScoreParams> params;
  double phi;
  double dphi_ds;
  std::array<double, kMaxScoreParams> dphi_dparam;
};

/// A scoring function of the φ family: attention weights are softmax(φ(s)).
struct ScoreInfo {
  std::string_view name;
  std::string_view formula;  ///< φ(s), as users read it
  std::string_view help;     ///< one line
  std::span<const ParamInfo> params;
  std::span<const GoldenPoint> golden;
};

/// Every scoring function of the φ family, in the order of scores-inl.h.
std::span<const ScoreInfo> scores();

/// The function of that name. Throws std::invalid_argument that lists the known names.
const ScoreInfo& find_score(std::string_view name);

}  // namespace ssa
