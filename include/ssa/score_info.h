// What a scoring function tells about itself. The list itself is scores-inl.h.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace ssa {

/// Room for a scoring function's parameters (and ln N, where it counts keys) in plain structs. It
/// costs nothing: kernels hold as many as their score has. A list that needs more does not compile
/// (scores.cc) until this number is larger.
inline constexpr std::size_t kMaxScoreParams = 4;

inline constexpr double kAnyNumber = -std::numeric_limits<double>::infinity();

/// One parameter of a scoring function (one value per query head, or one for all heads).
struct ParamInfo {
  std::string_view name;
  double initial;       ///< value when the caller gives none
  double module_lower;  ///< a trained module keeps the value above this: lower + softplus(raw);
                        ///< kAnyNumber: it trains the value as it is
  bool trained;         ///< whether a module trains it unless told otherwise
  std::string_view help;
  double above = 0;  ///< the function is defined for finite values above this

  bool allows(double value) const { return std::isfinite(value) && value > above; }
};

/// φ and its derivatives at one point, from 30-digit arithmetic: the values tests compare with.
struct GoldenPoint {
  double s;
  std::array<double, kMaxScoreParams> params;  ///< then ln N, where the score counts keys
  double phi;
  double dphi_ds;
  std::array<double, kMaxScoreParams> dphi_dparam;
};

/// "finite", or "finite and > 1": what a message says of the values that a parameter may have.
std::string range_of(const ParamInfo& param);

enum class ScoreFamily {
  kPhi,     ///< weights are softmax(φ(s)): scores-inl.h; fused kernels
  kRowMap,  ///< weights are a function of the whole row of scores: row_map_list.h
  kLinear,  ///< no scores at all: linear in the length (cosFormer)
};

/// A scoring function.
struct ScoreInfo {
  std::string_view name;
  /// φ(s), or the weights, as users read it; N is the number of keys a row sees.
  std::string_view formula;
  std::string_view sink;  ///< x of an extra term e^x of the normaliser; "" = none
  std::string_view help;  ///< one line
  std::span<const ParamInfo> params;
  std::span<const GoldenPoint> golden;  ///< φ family only
  ScoreFamily family = ScoreFamily::kPhi;
  bool counts_keys = false;  ///< φ family: whether N enters
};

/// Every scoring function: the φ family in the order of scores-inl.h, then the others.
std::span<const ScoreInfo> scores();

/// Those of the φ family: what kernels and their tests know.
std::span<const ScoreInfo> phi_scores();

/// The function of that name. Throws std::invalid_argument that lists the known names.
const ScoreInfo& find_score(std::string_view name);

}  // namespace ssa
