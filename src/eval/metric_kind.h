// Which direction of a metric is better, and on which scale its values are compared: said once for
// every metric that an evaluation writes.
#pragma once

#include <string_view>

namespace ssa {

enum class Better { lower, higher, neither };

/// Which positions of a sequence with a planted value it is taken over: "wrong-before", …
enum class MetricPart { whole, before, at, after };

/// log-odds: an error rate, known by its counts. log: a positive number that spans decades.
enum class Scale { log_odds, log, plain };

struct MetricKind {
  std::string_view name;
  Better better;
  Scale scale;
  std::string_view unit = "";  ///< of a plain scale: "percent", "nats" (already a logarithm)
  bool primary = false;        ///< the one of its in-context task that terminal and figures show
};

/// The kind of a metric as rows name it ("wrong-after") or as results.jsonl does
/// ("sigma=5/40/wrong"). One that no evaluation writes is neither better nor worse, plain.
const MetricKind& metric_kind(std::string_view metric);

/// "huge=5/40/wrong-after" -> after.
MetricPart metric_part(std::string_view metric);

/// Whether an evaluation writes a metric of that name.
bool is_known_metric(std::string_view metric);

/// The last part of a key: "sigma=5/40/wrong" -> "wrong".
std::string_view metric_name(std::string_view key);

std::string_view name_of(Better better);  ///< "lower", "higher", ""
std::string_view name_of(Scale scale);    ///< "log-odds", "log", "plain"

}  // namespace ssa
