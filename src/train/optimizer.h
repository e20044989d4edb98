// The optimizer of a model: which rule changes which parameter, and what is kept between steps.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/model.h"
#include "run/safetensors.h"
#include "train/update_rules.h"

namespace ssa {

class Optimizer {
 public:
  /// Over the parameters of the model that require a gradient; weight decay for those it decays.
  Optimizer(const TrainConfig& config, const Model& model);

  void zero_gradients();

  /// Norm over all gradients; where clip > 0 and the norm is above it, gradients are scaled to it.
  /// Returns the norm before scaling.
  double clip_gradients();

  /// Forgets the gradients of the score's parameters, which then stay as they are.
  void drop_score_gradients();

  /// One update. Parameters without a gradient stay as they are.
  void step(double learning_rate);

  /// The first parameter, in the model's order and by its name in files, whose moments or gradient
  /// hold a number that is not finite; "" if there is none.
  std::string first_moment_not_finite() const;
  std::string first_gradient_not_finite() const;

  /// What the rules keep, in the model's order.
  std::vector<torch::Tensor> moments() const;

  /// Counts steps from there on, as after load().
  void set_steps_done(std::int64_t steps) { steps_ = steps; }

  /// The gradients that there are, in the model's order.
  std::vector<torch::Tensor> gradients() const;

  /// Adds "MOMENT.NAME" of every parameter, for each moment of its rule ("first_moment", …).
  void save(TensorFile& out) const;

  /// Reads what save() wrote. Throws std::runtime_error naming `file` and the tensor that is
  /// missing or of another shape.
  void load(const TensorFile& content, std::int64_t steps_done, const std::string& file);

 private:
  struct Item {
    std::string name, name_in_files;
    torch::Tensor parameter;
    const UpdateRule* rule;
    std::vector<torch::Tensor> moments;
    std::vector<std::int64_t> matrix_columns;
    bool decays, of_score;
  };

  static std::string moment_name(const Item& item, std::size_t moment);

  TrainConfig config_;
  std::vector<Item> items_;
  std::int64_t steps_ = 0;
};

}  // namespace ssa
