# `cmake --install`: the libraries for other C++ projects (find_package(ssa), components kernels and torch). The Python
# package is a component of its own, which pip asks for.
if(NOT HWY_FOUND)
  return()  # a Highway that was fetched is part of this build only
endif()
include(CMakePackageConfigHelpers)
set(package "lib/cmake/ssa")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/ssa" DESTINATION include COMPONENT cpp)
set_target_properties(ssa_kernels PROPERTIES EXPORT_NAME kernels)
install(TARGETS ssa_kernels EXPORT ssa_kernels ARCHIVE DESTINATION lib COMPONENT cpp)
install(EXPORT ssa_kernels NAMESPACE ssa:: FILE ssa_kernels.cmake DESTINATION "${package}" COMPONENT cpp)
if(SSA_WITH_TORCH)
  set_target_properties(ssa_torch PROPERTIES EXPORT_NAME torch)
  install(FILES "${PROJECT_SOURCE_DIR}/src/op/attention.h" DESTINATION include/ssa_torch/op COMPONENT cpp)
  install(TARGETS ssa_torch EXPORT ssa_torch LIBRARY DESTINATION lib COMPONENT cpp)
  install(EXPORT ssa_torch NAMESPACE ssa:: FILE ssa_torch.cmake DESTINATION "${package}" COMPONENT cpp)
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/LibTorch.cmake" "${PROJECT_SOURCE_DIR}/cmake/torch_wheel.py"
          DESTINATION "${package}" COMPONENT cpp)
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/ssaConfig.cmake.in" "${PROJECT_BINARY_DIR}/ssaConfig.cmake" @ONLY)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/ssaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/ssaConfig.cmake" "${PROJECT_BINARY_DIR}/ssaConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/Highway.cmake"
        DESTINATION "${package}" COMPONENT cpp)
