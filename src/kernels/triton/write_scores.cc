// Writes the scores of scores-inl.h as Triton functions: write_triton_scores FILE.
// With --golden it prints their golden points as JSON: what tests hold the functions against.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>

#include "kernels/triton/text_math.h"
#include "ssa/scores-inl.h"

namespace ssa {
namespace {

namespace target = HWY_NAMESPACE;

/// The Triton kernels' functions take as many. A score that needs more has none: on a device it
/// takes the composed path.
constexpr std::size_t kTritonValues = 2;

template <class Score>
constexpr std::size_t kValues = Score::kParams.size() + target::kCountsKeys<Score>;

constexpr std::string_view kUnused[kTritonValues] = {"_0", "_1"};

/// f(Score{}) for every score that the kernels can have.
template <class F>
void for_each_triton_score(F&& f) {
  target::for_each_score(target::ScoreList{}, [&]<class Score>(Score score) {
    if constexpr (kValues<Score> <= kTritonValues) f(score);
  });
}

/// Names of what p[0], p[1] are.
template <class Score>
std::array<std::string, kTritonValues> names() {
  std::array<std::string, kTritonValues> result;
  for (std::size_t k = 0; k < kTritonValues; ++k) {
    result[k] = k < Score::kParams.size() ? Score::kParams[k].name
                : k < kValues<Score>      ? "log_keys"
                                          : kUnused[k];
  }
  return result;
}

template <class Score>
std::array<Text, kTritonValues> values() {
  std::array<Text, kTritonValues> result;
  for (std::size_t k = 0; k < kTritonValues; ++k) result[k].code = names<Score>()[k];
  return result;
}

/// One function; `first` is its first argument with a comma, or "".
template <class Score>
void write_function(std::ostream& file, const std::string& role, const std::string& first,
                    const std::string& meaning, const Text& result) {
  const auto p = names<Score>();
  file << "\n\n@triton.jit\ndef " << Score::kName << "_" << role << "(" << first << p[0] << ", "
       << p[1] << ", careful):\n    \"\"\"" << meaning << "\"\"\"\n    return " << result.code
       << "\n";
}

/// Those with respect to parameter kParam and the ones after it.
template <class Score, int kParam = 0>
void write_derivatives(std::ostream& file) {
  if constexpr (kParam < static_cast<int>(Score::kParams.size())) {
    const TextMath m;
    const auto p = values<Score>();
    const std::string name(Score::kParams[kParam].name);
    write_function<Score>(file, "dphi_d" + name, "s, ", "∂φ/∂" + name,
                          Score::template dphi_dparam<kParam>(m, Text{"s"}, p.data()));
    if constexpr (target::kHasSink<Score>) {
      write_function<Score>(file, "dsink_d" + name, "", "∂x/∂" + name + " of the extra term e^x",
                            Score::template dsink_dparam<kParam>(m, p.data()));
    }
    write_derivatives<Score, kParam + 1>(file);
  }
}

template <class Score>
void write_functions(std::ostream& file) {
  const TextMath m;
  const Text s{"s"};
  const auto p = values<Score>();
  write_function<Score>(file, "phi2", "s, ", "φ·log2(e), φ = " + std::string(Score::kFormula),
                        Score::phi2(m, s, p.data()));
  write_function<Score>(file, "dphi_ds", "s, ", "∂φ/∂s", Score::dphi_ds(m, s, p.data()));
  write_derivatives<Score>(file);
  if constexpr (target::kHasSink<Score>) {
    write_function<Score>(
        file, "sink2", "",
        "x·log2(e) of the normaliser's extra term e^x, x = " + std::string(Score::kSink),
        Score::sink2(m, p.data()));
  }
}

template <class Score>
void write_entry(std::ostream& file) {
  const std::string name(Score::kName);
  const bool sink = target::kHasSink<Score>;
  const auto derivatives = [&](const std::string& role) {
    std::string list = "(";
    for (const ParamInfo& param : Score::kParams) {
      list += name + "_" + role + std::string(param.name) + ", ";
    }
    if (list.size() > 1) list.resize(list.size() - (Score::kParams.size() == 1 ? 1 : 2));
    return list + ")";
  };
  file << "    \"" << name << "\": Score(\n        phi2=" << name
       << "_phi2,\n        dphi_ds=" << name
       << "_dphi_ds,\n        dphi_dparams=" << derivatives("dphi_d")
       << ",\n        sink2=" << (sink ? name + "_sink2" : "None")
       << ",\n        dsink_dparams=" << (sink ? derivatives("dsink_d") : "()")
       << ",\n        counts_keys=" << (target::kCountsKeys<Score> ? "True" : "False")
       << ",\n    ),\n";
}

std::string module() {
  std::ostringstream file;
  file << "\"\"\"The scoring functions of include/ssa/scores-inl.h as Triton functions. Written by "
          "the build: edit that "
          "file.\n\n"
          "s is a tile of scores, then come the score's parameters (log_keys: ln of the number of "
          "keys that a row "
          "sees)\nand whether log2_1p must keep the digits of a small argument.\n\"\"\"\n\n"
          "from typing import Any, NamedTuple\n\nimport triton\nimport triton.language as tl\n\n"
          "from .primitives import copy_sign, log2_1p, tanh\n\n\n"
          "class Score(NamedTuple):\n    \"\"\"The functions of one score; None or fewer where it "
          "has none.\"\"\"\n\n"
          "    phi2: Any\n    dphi_ds: Any\n    dphi_dparams: tuple\n    sink2: Any\n    "
          "dsink_dparams: tuple\n"
          "    counts_keys: bool\n";
  for_each_triton_score([&](auto score) { write_functions<decltype(score)>(file); });
  file << "\n\nSCORES = {\n";
  for_each_triton_score([&](auto score) { write_entry<decltype(score)>(file); });
  file << "}\n";
  return file.str();
}

std::string golden() {
  std::ostringstream json;
  json.precision(std::numeric_limits<double>::max_digits10);
  json << "{";
  const char* between = "";
  for_each_triton_score([&]<class Score>(Score) {
    json << between << "\"" << Score::kName << "\": [";
    const char* comma = "";
    for (const GoldenPoint& point : Score::kGolden) {
      json << comma << "{\"s\": " << point.s << ", \"params\": [" << point.params[0] << ", "
           << point.params[1] << "], \"phi\": " << point.phi << ", \"dphi_ds\": " << point.dphi_ds
           << ", \"dphi_dparam\": [" << point.dphi_dparam[0] << ", " << point.dphi_dparam[1]
           << "]}";
      comma = ", ";
    }
    json << "]";
    between = ", ";
  });
  json << "}\n";
  return json.str();
}

/// Leaves a file alone that holds the same already, so that nothing after it is built again.
int write(const char* path) {
  const std::string text = module();
  {
    std::ifstream old(path);
    const std::string held{std::istreambuf_iterator<char>(old), {}};
    if (old && held == text) return 0;
  }
  const std::string temporary = std::string(path) + ".tmp";
  {
    std::ofstream file(temporary);
    file << text;
    file.flush();
    if (!file) {
      std::cerr << "write_triton_scores: cannot write " << temporary << "\n";
      return 1;
    }
  }
  if (std::rename(temporary.c_str(), path) != 0) {
    std::cerr << "write_triton_scores: cannot rename " << temporary << " to " << path << "\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace ssa

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: write_triton_scores FILE | --golden\n";
    return 1;
  }
  if (std::string_view(arguments[1]) == "--golden") {
    std::cout << ssa::golden();
    return 0;
  }
  return ssa::write(arguments[1]);
}
