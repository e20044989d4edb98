#include "kernels/plain_loops.h"

namespace ssa {

void reference_forward(const AttentionArgs<double>& args, const View4<double>& out, double* lse) {
  plain_forward(args, out, lse);
}

void reference_backward(const AttentionArgs<double>& args, const View4<const double>& d_out,
                        const double* d_lse, const AttentionGradients<double>& gradients) {
  plain_backward(args, d_out, d_lse, gradients);
}

}  // namespace ssa
