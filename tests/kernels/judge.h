// The error rule that judges the fused kernels, and the instruction sets to judge them on.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <map>

#include "kernels/problem.h"

namespace ssa::test {

/// Judges results by the error rule: at most `factor` times the error of plain float loops, plus
/// 4·ε·max|truth|. The largest error of one small tensor is as much luck as precision (the plain
/// loops' may be zero; a parameter gradient is one number, a sum of thousands of terms that nearly
/// cancel), so the rule is applied to the root mean square over families of similar problems: all
/// that this judge sees, those with large scores apart.
class Judge {
 public:
  ~Judge() {
    for (const auto& [name, family] : families_) verdict(name, family);
  }

  /// Runs all three implementations and keeps every error.
  void check(const Options& o, const Parallel& parallel) {
    SCOPED_TRACE(::testing::Message() << o);
    const Inputs<float> in = make_inputs(o);
    const Results<float> fused = run_fused(in, o, parallel), plain = run_plain(in, o);
    const Inputs<double> exact_in = to_double(in, o);
    const Results<double> exact = run_plain(exact_in, o);
    add(o, "out", 2, fused.out, plain.out, exact.out);
    add(o, "lse", 2, fused.lse, plain.lse, exact.lse);
    add(o, "d_query", 3, fused.d_query, plain.d_query, exact.d_query);
    add(o, "d_key", 3, fused.d_key, plain.d_key, exact.d_key);
    add(o, "d_value", 3, fused.d_value, plain.d_value, exact.d_value);
    if (o.bias) add(o, "d_bias", 3, fused.d_bias, plain.d_bias, exact.d_bias);
    const ScoreInfo& score = find_score(o.score);
    for (std::size_t k = 0; k < score.params.size() && o.query_heads > 0; ++k) {
      add(o, "d_" + std::string(score.params[k].name), 3, fused.d_params[k], plain.d_params[k],
          exact.d_params[k]);
    }
  }

 private:
  static constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

  struct Case {
    double ours, plain, truth;
  };
  struct Family {
    double factor = 0;
    std::vector<Case> cases;

    double rms(double Case::*member) const {
      double sum = 0;
      for (const Case& c : cases) sum += c.*member * (c.*member);
      return std::sqrt(sum / static_cast<double>(cases.size()));
    }
  };

  template <class A, class B, class C>
  void add(const Options& o, const std::string& name, double factor, const A& fused, const B& plain,
           const C& truth) {
    const Error ours = error_of(fused, truth), theirs = error_of(plain, truth);
    EXPECT_TRUE(std::isfinite(ours.error)) << name;
    if (ours.truth == 0) {
      EXPECT_LE(ours.error, factor * theirs.error) << name << " should be zero";
    }
    Family& family = families_[name + (o.magnitude > 1 ? " of large scores" : "")];
    family.factor = factor;
    family.cases.push_back({ours.error, theirs.error, ours.truth});
  }

  static void verdict(const std::string& name, const Family& family) {
    const double plain = family.rms(&Case::plain);
    // Thinned out, a family is too small for the rule itself: under a sanitizer gross errors count.
    const double slack = kThin > 1 ? 4 : 1;
    EXPECT_LE(family.rms(&Case::ours),
              slack * (family.factor * plain + 4 * kEpsilon * family.rms(&Case::truth)))
        << "root mean square of " << name << ": plain loops " << plain;
  }

  std::map<std::string, Family> families_;
};

/// Calls f() once for each instruction set of this machine and build, restricted to it.
template <class F>
void for_each_target(F&& f) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(hwy::TargetName(target));
    f();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace ssa::test
