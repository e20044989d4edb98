// results.jsonl: one line per finished cell and evaluation (docs/formats.md, "Experiment folder").
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiment/experiment.h"

namespace ssa {

struct CellResult {
  std::string variant, score;
  std::int64_t seed = 0;
  std::string task, evaluation;
  std::int64_t steps = 0, parameters = 0, layers = 0, width = 0, heads = 0, batch = 0;
  double seconds = 0;  ///< of training and evaluation together
  std::string run;
  Json config;       ///< the run's, so that a changed experiment is noticed
  Json options;      ///< of the evaluation
  std::string data;  ///< hash of the files that it read; "" = none, or an earlier version wrote the
                     ///< line
  Json metrics;      ///< {"sigma=5/40/wrong": 0.08, …} of the model, in the evaluation's order
  /// {"sigma=5/40/wrong": [2048, 25600], …}: errors and chances of its error rates. Of lines that
  /// an earlier version wrote it is worked out from the rates and the evaluation's options.
  Json counts = Json::object();
  Json baselines;  ///< {"constant": {the same keys}, …}
  /// [{"n": [one per head, or one a layer], …}, … one per layer] at the end of training; empty in
  /// lines that an earlier version wrote.
  Json score_parameters = Json::array();
  /// {"git", "target"} of the program that trained, "resumed_by" and "evaluated_by" where these
  /// were others; empty in lines that an earlier version wrote.
  Json program = Json::object();
};

/// Every complete line, in order. A last line without its end (a write cut off) is left out and
/// `cut_off` set. Throws std::runtime_error naming file and line for a broken line elsewhere.
/// A missing file holds no results.
std::vector<CellResult> read_results(const std::filesystem::path& file, bool& cut_off);

/// Whether the line comes from a version that evaluated every seed on the same test sequences.
bool shares_test_sequences(const CellResult& result);

/// Appends one line in a single write and syncs it; removes a cut-off line before.
void append_result(const std::filesystem::path& file, const CellResult& result);

/// The result of a finished run and the `evals/EVALUATION.json` beside it.
/// Throws std::runtime_error naming the file and field that is missing or wrong.
CellResult collect_result(const Cell& cell, const std::filesystem::path& run,
                          const std::string& evaluation, const Json& options);

}  // namespace ssa
