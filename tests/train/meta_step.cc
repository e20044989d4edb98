// One training step on torch's device "meta", which has shapes and no data: what test_meta_step.py
// calls. It finds tensors that are made on the CPU where the model is on another device, and
// whatever reads a value and so would wait for a device. In a library for Python, which brings the
// shapes of operations that torch knows there alone.
#include <torch/library.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "config/config.h"
#include "model/autocast.h"
#include "model/model.h"
#include "tasks/task.h"
#include "train/optimizer.h"

namespace ssa {
namespace {

/// Module::to() refuses this device: it cannot put a tensor of another kind in the place of one.
/// Its parts can.
void to_meta(Model& model) {
  for (const auto& tensors : {model.parameters(), model.buffers()}) {
    for (const torch::Tensor& tensor : tensors) {
      tensor.unsafeGetTensorImpl()->shallow_copy_from(
          tensor.detach().to(torch::kMeta).getIntrusivePtr());
    }
  }
}

/// Of the config in that file; the names of what has got no gradient.
std::vector<std::string> meta_step(std::string_view file) {
  const torch::AutoGradMode with_gradients(true);
  const Config config = load_config(std::string(file));
  const auto task = make_task(config);
  const auto model = make_model(config.model, 1);
  to_meta(*model);
  TORCH_CHECK(model->device().is_meta(), "the model is on ", model->device());
  model->train();
  model->recompute_blocks(config.train.recompute);
  Optimizer optimizer(config.train, *model);
  const Batch batch = task->training_batch(0, 0);
  const torch::Tensor loss = task->loss(task->output(*model, batch), batch);
  TORCH_CHECK(loss.is_meta(), "the loss is on ", loss.device());
  loss.backward();
  optimizer.step(1e-3);
  std::vector<std::string> without;
  for (const auto& parameter : model->named_parameters()) {
    const torch::Tensor gradient = parameter.value().grad();
    if (!gradient.defined() || !gradient.is_meta()) without.push_back(parameter.key());
  }
  return without;
}

TORCH_LIBRARY(ssa_meta_step, library) { library.def("meta_step(str file) -> str[]", meta_step); }

}  // namespace
}  // namespace ssa
