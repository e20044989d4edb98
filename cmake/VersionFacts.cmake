# ssa_config knows version, commit and build options from generated/version_facts.h, which every build brings up to date.
set(version_facts "${PROJECT_BINARY_DIR}/generated/version_facts.h")
set(build_options "${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
if(SSA_SANITIZE)
  string(APPEND build_options ", -fsanitize=${SSA_SANITIZE}")
endif()
add_custom_target(ssa_version
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DOUTPUT=${version_facts}"
          "-DVERSION=${PROJECT_VERSION}" "-DBUILD_OPTIONS=${build_options}"
          "-DPYTHON=${SSA_PYTHON}" "-DPYTHON_PACKAGE=${PROJECT_BINARY_DIR}/python"
          -P "${PROJECT_SOURCE_DIR}/cmake/Version.cmake"
  BYPRODUCTS "${version_facts}" VERBATIM)
target_include_directories(ssa_config PRIVATE "${PROJECT_BINARY_DIR}/generated")
add_dependencies(ssa_config ssa_version)
