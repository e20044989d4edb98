// The fused kernels against the reference in one small program without GoogleTest, for a processor
// that tests run on only through an emulator: neon_check.sh compiles it for aarch64. The rule is
// judge.h's.
#include <cstdio>
#include <map>

#include "kernels/problem.h"
#include "kernels/scratch.h"

namespace ssa::test {
namespace {

struct Errors {
  double ours = 0, plain = 0, truth = 0, factor = 0;
  int count = 0;

  bool within_rule() const {
    constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
    return std::sqrt(ours / count) <=
           factor * std::sqrt(plain / count) + 4 * kEpsilon * std::sqrt(truth / count);
  }
};

using Table = std::map<std::string, Errors>;

template <class A, class B, class C>
void add(Table& table, const std::string& name, double factor, const A& fused, const B& plain,
         const C& truth) {
  const Error ours = error_of(fused, truth), theirs = error_of(plain, truth);
  Errors& errors = table[name];
  errors.ours += ours.error * ours.error;
  errors.plain += theirs.error * theirs.error;
  errors.truth += ours.truth * ours.truth;
  errors.factor = factor;
  ++errors.count;
}

void compare(Table& table, const Options& o) {
  const Inputs<float> in = make_inputs(o);
  const Results<float> fused = run_fused(in, o, serial()), plain = run_plain(in, o);
  const Results<double> exact = run_plain(inputs_as<double>(in, o), o);
  const std::string kind = std::string(o.score) + (o.magnitude > 1 ? " large " : " ");
  add(table, kind + "out", 2, fused.out, plain.out, exact.out);
  add(table, kind + "lse", 2, fused.lse, plain.lse, exact.lse);
  add(table, kind + "d_query", 3, fused.d_query, plain.d_query, exact.d_query);
  add(table, kind + "d_key", 3, fused.d_key, plain.d_key, exact.d_key);
  add(table, kind + "d_value", 3, fused.d_value, plain.d_value, exact.d_value);
  if (o.bias) add(table, kind + "d_bias", 3, fused.d_bias, plain.d_bias, exact.d_bias);
  for (std::size_t k = 0; k < find_score(o.score).params.size(); ++k) {
    add(table, kind + "d_param " + std::to_string(k), 3, fused.d_params[k], plain.d_params[k],
        exact.d_params[k]);
  }
}

int run() {
  fill_scratch_with_nan(true);
  Table table;
  for (const ScoreInfo& score : phi_scores()) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed)
      compare(table, random_options(score.name, seed));
  }
  int failures = 0;
  for (const auto& [name, errors] : table) {
    if (errors.within_rule()) continue;
    ++failures;
    std::printf("%s: error %.3g, plain loops %.3g\n", name.c_str(),
                std::sqrt(errors.ours / errors.count), std::sqrt(errors.plain / errors.count));
  }
  std::printf("target %s: %zu families of errors, %d beyond the rule\n", kernel_target(),
              table.size(), failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ssa::test

int main() { return ssa::test::run(); }
