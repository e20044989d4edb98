// Primary endpoints: what an experiment was made to decide, tested with Holm's correction.
#include <algorithm>
#include <cmath>

#include "experiment/comparison.h"
#include "experiment/verdict.h"

namespace ssa {
namespace {

const CellResult* find_result(const std::vector<CellResult>& results,
                              const EndpointConfig& endpoint, const std::string& score,
                              std::int64_t seed) {
  const auto found = std::ranges::find_if(results, [&](const CellResult& result) {
    return result.variant == endpoint.variant && result.evaluation == endpoint.evaluation &&
           result.score == score && result.seed == seed &&
           std::ranges::all_of(endpoint.metrics, [&](const std::string& metric) {
             return result.metrics.contains(metric);
           });
  });
  return found == results.end() ? nullptr : &*found;
}

EndpointRow endpoint_row(const Experiment& experiment, const std::vector<CellResult>& results,
                         const EndpointConfig& endpoint, const std::string& score) {
  EndpointRow row{endpoint, score};
  std::vector<ResultPair> pairs;
  std::vector<const CellResult*> all;
  for (const Cell& cell : experiment.cells) {
    if (cell.variant != endpoint.variant || cell.score != score) continue;
    ++row.planned;
    const CellResult* own = find_result(results, endpoint, score, cell.seed);
    const CellResult* softmax =
        find_result(results, endpoint, std::string(kBaselineScore), cell.seed);
    if (own == nullptr || softmax == nullptr) continue;
    pairs.emplace_back(own, softmax);
    all.insert(all.end(), {own, softmax});
    row.seeds.push_back(cell.seed);
  }
  row.measure = measure_of(endpoint.metrics.front(), all);
  row.effect = effect_of(pairs, endpoint.metrics, row.measure.scale);
  row.verdict = pairs.empty() ? "not run" : why_no_verdict(row.effect, pairs.front().first->steps);
  return row;
}

}  // namespace

std::vector<EndpointRow> compare_endpoints(const Experiment& experiment,
                                           const std::vector<CellResult>& results) {
  std::vector<EndpointRow> rows;
  std::vector<double> p;
  for (const EndpointConfig& endpoint : experiment.endpoints) {
    for (const std::string& score : endpoint.scores) {
      rows.push_back(endpoint_row(experiment, results, endpoint, score));
      // One that is not finished takes part as one that shows nothing: the others may not gain.
      const EndpointRow& row = rows.back();
      p.push_back(row.verdict.empty() ? row.effect.test.p : 1.0);
    }
  }
  const std::vector<double> adjusted = holm(p);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EndpointRow& row = rows[i];
    row.p_adjusted = row.verdict.empty() ? adjusted[i] : std::nan("");
    if (!row.verdict.empty()) continue;
    row.verdict =
        verdict_of(row.effect, row.p_adjusted, margin_of(experiment.settings, row.measure));
  }
  return rows;
}

}  // namespace ssa
