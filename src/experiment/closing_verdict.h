// What a comparison ends with on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiment/comparison.h"

namespace ssa {

/// At most five lines: how the comparisons came out after correction, the primary endpoints with
/// their intervals, what so many seeds could not see, and what is not finished.
std::string closing_verdict(const std::vector<ComparisonRow>& rows,
                            const std::vector<EndpointRow>& endpoints, std::size_t cells,
                            std::size_t unfinished);

}  // namespace ssa
