#include "model/recompute.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <mutex>

#include "model/autocast.h"

namespace ssa {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Part = std::function<torch::Tensor(const torch::Tensor&)>;

torch::Tensor random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const torch::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

/// What the backward pass needs to do the same again.
struct Again : torch::CustomClassHolder {
  Part part;
  torch::Tensor random;
  Precision precision = Precision::float32;
};

class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input,
                               const Part& part) {
    auto again = c10::make_intrusive<Again>();
    again->part = part;
    again->random = random_state();
    again->precision = autocast_precision(input.device());
    context->saved_data["again"] = c10::IValue::make_capsule(std::move(again));
    context->save_for_backward({input});
    return part(input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["again"].toCapsule();
    const auto& again = static_cast<const Again&>(*capsule);
    const torch::Tensor input = context->get_saved_variables()[0].detach().requires_grad_();
    const torch::Tensor now = random_state();
    set_random_state(again.random);
    torch::Tensor output;
    {
      const torch::AutoGradMode with_gradient(true);
      const Autocast autocast(again.precision, input.device());
      output = again.part(input);
    }
    set_random_state(now);
    torch::autograd::backward({output}, {gradients[0]});
    return {input.grad(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor recomputed(const Part& part, const torch::Tensor& input) {
  return Recomputed::apply(input, part);
}

}  // namespace ssa
