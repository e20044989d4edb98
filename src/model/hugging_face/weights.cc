#include "model/hugging_face/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "model/hugging_face/architecture.h"
#include "ssa/check.h"

namespace ssa {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", file.string(), what));
}

bool is_no_weight(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".position_ids") || name.ends_with(".inv_freq");
}

std::string shape_text(const torch::Tensor& tensor) {
  return fmt::format("({})", fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

/// A weight as a file has it.
struct Stored {
  const std::filesystem::path* file;
  std::string name;
  torch::Tensor tensor;
};

class Loader {
 public:
  Loader(const std::vector<ForeignFile>& files, Model& model, ScoreWeights score_weights)
      : architecture_(architecture_of(model.config().family)), files_(files) {
    SSA_CHECK(architecture_ != nullptr, "model: Hugging Face has no model of numbers");
    for (const auto& [name, weight] : model.named_weights()) {
      const bool of_score = name.find(".score_") != name.npos;
      if (of_score && score_weights == ScoreWeights::of_model) continue;
      wanted_.emplace(name, weight);
    }
    for (const ForeignFile& file : files) {
      for (const auto& [name, tensor] : file.tensors) note({&file.path, name, tensor});
    }
  }

  std::vector<std::string> load() {
    const torch::NoGradGuard no_gradient;
    for (auto& [name, weight] : wanted_) copy(name, weight);
    std::vector<std::string> unused;
    for (const auto& [key, stored] : found_) {
      if (is_known(key) || is_equal_copy(key, stored)) continue;
      if (!of_unused_head(key)) {
        fail(*stored.file, fmt::format("the model has no weight \"{}\"", stored.name));
      }
      unused.push_back(stored.name);
    }
    return unused;
  }

 private:
  /// Our name of a weight in a file: with the inner model's prefix, and today's names of norms.
  std::string key_of(std::string name) const {
    for (const auto& [old, now] : {std::pair(".gamma", ".weight"), std::pair(".beta", ".bias")}) {
      if (name.ends_with(old)) name = name.substr(0, name.size() - std::string(old).size()) + now;
    }
    const std::string longer = std::string(architecture_->base) + name;
    return !wanted_.contains(name) && (wanted_.contains(longer) || of_unused_head(longer)) ? longer
                                                                                           : name;
  }

  bool is_known(const std::string& key) const { return wanted_.contains(key) || is_no_weight(key); }

  bool is_copy(const std::string& key) const {
    return std::ranges::any_of(architecture_->copies,
                               [&](const auto& copy) { return copy.first == key; });
  }

  /// What the files have and the model has not, nearest by the beginning of its name: matrices of
  /// query, key and value in one, or names with a prefix. Null if there is no such weight.
  const Stored* in_the_place_of(const std::string& name) const {
    const Stored* nearest = nullptr;
    std::ptrdiff_t most = -1;
    for (const auto& [key, stored] : found_) {
      if (is_known(key) || is_copy(key) || of_unused_head(key)) continue;
      const auto same = std::ranges::mismatch(key, name).in1 - key.begin();
      if (same > most) nearest = &stored;
      most = std::max(most, same);
    }
    return nearest;
  }

  bool of_unused_head(const std::string& key) const {
    return std::ranges::any_of(architecture_->unused,
                               [&](std::string_view head) { return key.starts_with(head); });
  }

  void note(const Stored& stored) {
    const auto [place, is_new] = found_.emplace(key_of(stored.name), stored);
    if (is_new) return;
    fail(*stored.file,
         fmt::format("\"{}\" and \"{}\"{} are the same weight", stored.name, place->second.name,
                     stored.file == place->second.file
                         ? ""
                         : fmt::format(" of {}", place->second.file->string())));
  }

  void copy(const std::string& name, torch::Tensor& weight) const {
    const auto place = found_.find(name);
    if (place == found_.end()) fail_missing(name);
    const auto& [file, stored_name, tensor] = place->second;
    if (tensor.sizes() != weight.sizes() || !tensor.is_floating_point()) {
      fail(*file, fmt::format("\"{}\" has shape {} and type {}, the model's has shape {}",
                              stored_name, shape_text(tensor), c10::toString(tensor.scalar_type()),
                              shape_text(weight)));
    }
    if (!torch::isfinite(tensor).all().item<bool>()) {
      fail(*file, fmt::format("\"{}\" holds numbers that are not finite", stored_name));
    }
    weight.copy_(tensor);
  }

  [[noreturn]] void fail_missing(const std::string& name) const {
    const bool of_base = name.starts_with(architecture_->base);
    const bool has_base = std::ranges::any_of(
        found_, [&](const auto& one) { return one.first.starts_with(architecture_->base); });
    const std::string where =
        files_.size() == 1 ? "it" : fmt::format("any of its {} files", files_.size());
    std::string more;
    if (const Stored* other = in_the_place_of(name)) {
      more = fmt::format("; \"{}\" is there, which the model has not", other->name);
    } else if (!of_base && has_base) {
      more =
          "; it belongs to the head, which a checkpoint of the inner model alone lacks: save the "
          "class with its language-model head";
    }
    fail(files_.front().path, fmt::format("the model's \"{}\" is not in {}{}", name, where, more));
  }

  /// Whether it is a second copy of a tied weight; throws where it differs.
  bool is_equal_copy(const std::string& key, const Stored& stored) const {
    for (const auto& [copy, original] : architecture_->copies) {
      if (key != copy || wanted_.contains(key)) continue;
      const auto other = found_.find(std::string(original));
      if (other == found_.end()) return false;
      if (torch::equal(stored.tensor, other->second.tensor)) return true;
      fail(*stored.file,
           fmt::format("\"{}\" differs from \"{}\", but config.json says that they are tied",
                       stored.name, other->second.name));
    }
    return false;
  }

  const Architecture* architecture_;
  const std::vector<ForeignFile>& files_;
  std::map<std::string, torch::Tensor> wanted_;
  std::map<std::string, Stored> found_;
};

}  // namespace

std::vector<std::string> load_foreign_weights(const std::vector<ForeignFile>& files, Model& model,
                                              ScoreWeights score_weights) {
  SSA_CHECK(!files.empty(), "model: weights in no file");
  return Loader(files, model, score_weights).load();
}

}  // namespace ssa
