// The lists of scores-inl.h and row_map_list.h as run-time data.
#include <vector>

#include "ssa/check.h"
#include "ssa/row_map_list.h"
#include "ssa/scores-inl.h"

namespace ssa {
namespace {

namespace target = HWY_NAMESPACE;

template <class Score>
constexpr std::string_view sink_of() {
  if constexpr (target::kHasSink<Score>) return Score::kSink;
  return "";
}

template <class Score>
constexpr ScoreInfo kInfo{
    Score::kName,   Score::kFormula, sink_of<Score>(),  Score::kHelp,
    Score::kParams, Score::kGolden,  ScoreFamily::kPhi, target::kCountsKeys<Score>};

template <class... Scores>
std::span<const ScoreInfo> infos(target::TypeList<Scores...>) {
  static_assert(((Scores::kParams.size() + target::kCountsKeys<Scores> <= kMaxScoreParams) && ...),
                "a score has more parameters than kMaxScoreParams of score_info.h");
  static constexpr std::array<ScoreInfo, sizeof...(Scores)> kInfos{kInfo<Scores>...};
  return kInfos;
}

}  // namespace

std::span<const ScoreInfo> phi_scores() { return infos(target::ScoreList{}); }

std::span<const ScoreInfo> scores() {
  static const std::vector<ScoreInfo> all = [] {
    std::vector<ScoreInfo> list(phi_scores().begin(), phi_scores().end());
    list.insert(list.end(), kRowMapList.begin(), kRowMapList.end());
    return list;
  }();
  return all;
}

std::string range_of(const ParamInfo& param) {
  std::ostringstream text;
  text << "finite";
  if (param.above != kAnyNumber) text << " and > " << param.above;
  return text.str();
}

const ScoreInfo& find_score(std::string_view name) {
  std::ostringstream known;
  for (const ScoreInfo& score : scores()) {
    if (score.name == name) return score;
    known << (known.tellp() > 0 ? ", " : "") << score.name;
  }
  SSA_CHECK(false, "unknown score \"" << name << "\"; known: " << known.str());
  std::abort();  // not reached: the check above throws
}

}  // namespace ssa
