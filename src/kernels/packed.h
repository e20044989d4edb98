// Packed sequences as what they are: problems of batch 1 of their own, whose tensors are slices.
#pragma once

#include <cstdint>
#include <vector>

#include "ssa/attention.h"

namespace ssa {

/// One of the problems that a call consists of: all of it, or one of its packed sequences.
template <class T>
struct Part {
  AttentionArgs<T> args;
  std::int64_t first_query = 0, first_key = 0;  ///< in the call's tensors

  /// A tensor of the call over queries or keys, from the part's first one on.
  template <class U>
  View4<U> queries(const View4<U>& view) const {
    return sliced(view, first_query);
  }
  template <class U>
  View4<U> keys(const View4<U>& view) const {
    return sliced(view, first_key);
  }
  /// The part's rows of an array shaped like lse.
  template <class U>
  U* rows(U* lse) const {
    return lse == nullptr ? nullptr : lse + first_query;
  }

  AttentionGradients<T> gradients(const AttentionGradients<T>& all) const {
    AttentionGradients<T> own = all;
    own.query = queries(all.query);
    own.key = keys(all.key);
    own.value = keys(all.value);
    return own;
  }

 private:
  template <class U>
  static View4<U> sliced(const View4<U>& view, std::int64_t first) {
    return {view.data == nullptr ? nullptr : view.at(0, 0, first), view.stride};
  }
};

template <class T>
std::vector<Part<T>> parts_of(const AttentionArgs<T>& call) {
  if (call.cu_query == nullptr) return {{call}};
  std::vector<Part<T>> parts(static_cast<std::size_t>(call.sequences), Part<T>{call});
  for (std::int64_t s = 0; s < call.sequences; ++s) {
    Part<T>& part = parts[static_cast<std::size_t>(s)];
    part.first_query = call.cu_query[s];
    part.first_key = call.cu_key[s];
    AttentionArgs<T>& args = part.args;
    args.cu_query = args.cu_key = nullptr;
    args.sequences = 0;
    args.first_sequence = call.first_sequence + s;
    args.lse_head_stride = call.query_length;
    args.query_length = call.cu_query[s + 1] - call.cu_query[s];
    args.key_length = call.cu_key[s + 1] - call.cu_key[s];
    args.query = part.queries(call.query);
    args.key = part.keys(call.key);
    args.value = part.keys(call.value);
  }
  return parts;
}

}  // namespace ssa
