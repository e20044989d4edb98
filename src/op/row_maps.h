// Scoring functions that need a whole row of scores at once: weights = f(row), no exponential of a
// single score. Pure functions on tensors; the composed path (composed.cc) walks over blocks of
// rows. Their names and parameters stand in include/ssa/row_map_list.h; their mathematics is
// row_maps.cc.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

namespace ssa {

/// A block of rows, in the type that everything is computed in (float32 or float64).
struct ScoreRows {
  at::Tensor scores;  ///< s, (batch, query heads, rows, keys); 0 where hidden
  at::Tensor hidden;  ///< bool, broadcasts to scores; true = the query does not see the key
  std::vector<at::Tensor> params;  ///< (1, query heads or 1, 1, 1) each, in the order of the list
};

struct RowGradients {
  at::Tensor scores;  ///< 0 where hidden
  /// One per parameter, to be summed to the parameter's shape: (batch, query heads, rows, 1 or
  /// keys).
  std::vector<at::Tensor> params;
};

struct RowMap {
  std::string_view name;
  /// Shaped like scores; 0 where hidden, rows that see nothing all 0.
  at::Tensor (*weights)(const ScoreRows& rows);
  /// From weights(rows) and the gradient of the loss by them.
  RowGradients (*gradients)(const ScoreRows& rows, const at::Tensor& weights,
                            const at::Tensor& d_weights);
};

/// The map of that name; throws c10::Error if there is none.
const RowMap& find_row_map(std::string_view name);

}  // namespace ssa
