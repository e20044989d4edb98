// What this build is; the facts are written at build time (cmake/Version.cmake).
#pragma once

#include <string_view>

namespace ssa {

std::string_view version();  ///< "0.1.0"
std::string_view git_id();   ///< "31a64a4c0d12", "…-dirty" with uncommitted changes, "unknown"
std::string_view build_options();  ///< build type, compiler, sanitizers

std::string_view build_python();          ///< the Python that this was built with
std::string_view build_python_package();  ///< the folder that holds the package built with this

}  // namespace ssa
