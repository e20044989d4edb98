#include "kernels/plain_loops.h"
#include "kernels/target.h"

namespace ssa {

void attention_backward(const AttentionArgs<float>& args, const View4<const float>&, const float*,
                        const View4<const float>& d_out, const float* d_lse,
                        const AttentionGradients<float>& gradients, const Parallel&) {
  choose_target();
  plain_backward(args, d_out, d_lse, gradients);
}

}  // namespace ssa
