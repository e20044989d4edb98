// The one check macro of layer 0. Layers with torch use TORCH_CHECK with messages of the same form.
#pragma once

#include <stdexcept>

#include <sstream>

/// Throws std::invalid_argument with the streamed message when `condition` is false.
#define SSA_CHECK(condition, message)                      \
  do {                                                     \
    if (!(condition)) {                                    \
      std::ostringstream ssa_check_stream;                 \
      ssa_check_stream << message;                         \
      throw std::invalid_argument(ssa_check_stream.str()); \
    }                                                      \
  } while (false)
