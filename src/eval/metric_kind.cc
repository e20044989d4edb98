#include "eval/metric_kind.h"

namespace ssa {
namespace {

constexpr MetricKind kKinds[] = {
    // icl-shift
    {"wrong", Better::lower, Scale::log_odds},
    {"sequence-wrong", Better::lower, Scale::log_odds},
    {"squared-error", Better::lower, Scale::log},
    {"relative-error", Better::lower, Scale::log},
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

/// Without the part of a planted sequence that it is taken over.
std::string_view without_part(std::string_view name) {
  for (const std::string_view part : {"-before", "-at", "-after"}) {
    if (name.ends_with(part)) return name.substr(0, name.size() - part.size());
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
