#include "tokenizer/merges.h"

#include <fmt/format.h>

#include <stdexcept>

#include "files/lines.h"
#include "tokenizer/byte_level.h"

namespace ssa {
namespace {

/// Reads merges; `Refuse` throws its argument with the place of the merge.
class MergeReader {
 public:
  MergeReader(const Vocabulary& vocabulary, std::size_t prefix_bytes)
      : vocabulary_(vocabulary), prefix_bytes_(prefix_bytes) {}

  template <class Refuse>
  void add(const std::string& left, const std::string& right, const Refuse& refuse) {
    const auto id_of = [&](const std::string& token) {
      const auto id = vocabulary_.find(token);
      if (!id) refuse(fmt::format("\"{}\" is not in the vocabulary", token));
      return *id;
    };
    if (right.size() < prefix_bytes_) {
      refuse(fmt::format("\"{}\" is shorter than the prefix of a token that goes on", right));
    }
    merges_.push_back({id_of(left), id_of(right), id_of(left + right.substr(prefix_bytes_))});
  }

  /// "left right".
  template <class Refuse>
  void add(std::string_view both, const Refuse& refuse) {
    const std::size_t space = both.find(' ');
    if (space == both.npos || both.find(' ', space + 1) != both.npos) {
      refuse(fmt::format("expected two tokens with a space between them, found \"{}\"", both));
    }
    add(std::string(both.substr(0, space)), std::string(both.substr(space + 1)), refuse);
  }

  std::vector<Merge> take() { return std::move(merges_); }

 private:
  const Vocabulary& vocabulary_;
  std::size_t prefix_bytes_;
  std::vector<Merge> merges_;
};

}  // namespace

std::vector<Merge> read_merges(const JsonNode& list, const Vocabulary& vocabulary,
                               std::size_t prefix_bytes) {
  MergeReader reader(vocabulary, prefix_bytes);
  for (const JsonNode& merge : list.elements()) {
    const auto refuse = [&](const std::string& reason) { merge.refuse(reason); };
    if (!merge.is_list()) {
      reader.add(merge.text(), refuse);
      continue;
    }
    const auto both = merge.elements();
    if (both.size() != 2) merge.refuse_type("two tokens");
    reader.add(both[0].text(), both[1].text(), refuse);
  }
  return reader.take();
}

std::vector<Merge> read_merges(const std::filesystem::path& file, const Vocabulary& vocabulary) {
  MergeReader reader(vocabulary, 0);
  for_each_line(file, [&](std::string_view line) {
    if (line.starts_with("#version")) return;
    reader.add(line, [](const std::string& reason) { throw std::invalid_argument(reason); });
  });
  return reader.take();
}

TokenMap tokens_of_bytes(const Vocabulary& vocabulary) {
  TokenMap tokens;
  for (const auto& [token, id] : vocabulary.ids()) {
    if (auto bytes = token_bytes(token); bytes && !bytes->empty())
      tokens.emplace(*std::move(bytes), id);
  }
  return tokens;
}

}  // namespace ssa
