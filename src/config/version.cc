#include "config/version.h"

#include "version_facts.h"

namespace ssa {

std::string_view version() { return SSA_VERSION; }
std::string_view git_id() { return SSA_GIT_ID; }
std::string_view build_options() { return SSA_BUILD_OPTIONS; }
std::string_view build_python() { return SSA_BUILD_PYTHON; }
std::string_view build_python_package() { return SSA_BUILD_PYTHON_PACKAGE; }

}  // namespace ssa
