// The list of scores-inl.h as run-time data.
#include "ssa/check.h"
#include "ssa/scores-inl.h"

namespace ssa {
namespace {

namespace target = HWY_NAMESPACE;

template <class Score>
constexpr ScoreInfo kInfo{Score::kName, Score::kFormula, Score::kHelp, Score::kParams,
                          Score::kGolden};

template <class... Scores>
std::span<const ScoreInfo> infos(target::TypeList<Scores...>) {
  static_assert(((Scores::kParams.size() <= kMaxScoreParams) && ...));
  static constexpr std::array<ScoreInfo, sizeof...(Scores)> kInfos{kInfo<Scores>...};
  return kInfos;
}

}  // namespace

std::span<const ScoreInfo> scores() { return infos(target::ScoreList{}); }

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
