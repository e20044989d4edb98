#include "eval/metric_kind.h"

#include <utility>

namespace ssa {
namespace {

constexpr MetricKind kKinds[] = {
    // icl-shift
    {"wrong", Better::lower, Scale::log_odds, "", true},
    {"sequence-wrong", Better::lower, Scale::log_odds},
    {"squared-error", Better::lower, Scale::log},
    {"relative-error", Better::lower, Scale::log, "", true},
    {"entropy", Better::neither, Scale::plain, "nats"},
    {"p-max", Better::neither, Scale::plain},
    {"mass-on-huge", Better::neither, Scale::plain},
    // ppl, and LAMBADA of zero-shot
    {"perplexity", Better::lower, Scale::log},
    {"rare-perplexity", Better::lower, Scale::log},
    {"word-perplexity", Better::lower, Scale::log},
    {"bits-per-byte", Better::lower, Scale::log},
    // zero-shot
    {"acc", Better::higher, Scale::plain, "percent"},
    {"acc_norm", Better::higher, Scale::plain, "percent"},
    {"acc_bytes", Better::higher, Scale::plain, "percent"},
    {"em", Better::higher, Scale::plain, "percent"},
    {"f1", Better::higher, Scale::plain, "percent"},
    // minimal pairs
    {"accuracy", Better::higher, Scale::plain, "percent"},
    // training
    {"loss", Better::lower, Scale::plain, "nats"},
    {"validation-loss", Better::lower, Scale::plain, "nats"},
    {"milliseconds-per-step", Better::neither, Scale::log},
};

constexpr MetricKind kUnknown = {"", Better::neither, Scale::plain};

constexpr std::pair<MetricPart, std::string_view> kParts[] = {
    {MetricPart::before, "-before"}, {MetricPart::at, "-at"}, {MetricPart::after, "-after"}};

/// Without its part.
std::string_view without_part(std::string_view name) {
  for (const auto& [part, ending] : kParts) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

}  // namespace

std::string_view metric_name(std::string_view key) {
  const std::size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? key : key.substr(slash + 1);
}

const MetricKind& metric_kind(std::string_view metric) {
  const std::string_view name = without_part(metric_name(metric));
  for (const MetricKind& kind : kKinds) {
    if (kind.name == name) return kind;
  }
  return kUnknown;
}

MetricPart metric_part(std::string_view metric) {
  for (const auto& [part, ending] : kParts) {
    if (metric.ends_with(ending)) return part;
  }
  return MetricPart::whole;
}

bool is_known_metric(std::string_view metric) { return &metric_kind(metric) != &kUnknown; }

std::string_view name_of(Better better) {
  switch (better) {
    case Better::lower:
      return "lower";
    case Better::higher:
      return "higher";
    case Better::neither:
      break;
  }
  return "";
}

std::string_view name_of(Scale scale) {
  switch (scale) {
    case Scale::log_odds:
      return "log-odds";
    case Scale::log:
      return "log";
    case Scale::plain:
      break;
  }
  return "plain";
}

}  // namespace ssa
