# Finds LibTorch inside the Python environment and offers ssa_torch_headers: the precompiled
# <torch/torch.h> (about 25 s a file without it) that every target with torch reuses.
set(SSA_TORCH_VERSION "2.13.0")

execute_process(
  COMMAND "${SSA_PYTHON}" -c
          "import torch; print(torch.__version__.split('+')[0]); print(torch.utils.cmake_prefix_path)"
  OUTPUT_VARIABLE torch_facts RESULT_VARIABLE torch_missing ERROR_VARIABLE torch_error
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(torch_missing)
  message(FATAL_ERROR "torch ${SSA_TORCH_VERSION} was not found by ${SSA_PYTHON}: run `make setup`, "
                      "or pass -DSSA_PYTHON=… (or -DSSA_BUILD=kernels for the kernels alone).")
endif()
string(REPLACE "\n" ";" torch_facts "${torch_facts}")
list(GET torch_facts 0 torch_version)
list(GET torch_facts 1 torch_prefix)
if(NOT torch_version STREQUAL SSA_TORCH_VERSION)
  message(FATAL_ERROR "torch ${torch_version} is installed for ${SSA_PYTHON}, but this project is "
                      "built against torch ${SSA_TORCH_VERSION}: pip install torch==${SSA_TORCH_VERSION}")
endif()
list(APPEND CMAKE_PREFIX_PATH "${torch_prefix}")
find_package(Torch REQUIRED)

file(WRITE "${CMAKE_BINARY_DIR}/torch_headers.cc" "// Holds the precompiled header, nothing else.\n")
add_library(ssa_torch_headers OBJECT "${CMAKE_BINARY_DIR}/torch_headers.cc")
target_link_libraries(ssa_torch_headers PUBLIC torch)
# The wheel brings the headers of its own fmt (12.1), which stand before Debian's (9.1): whoever sees
# torch's headers must not link Debian's libfmt, nor spdlog, which is built with it.
target_compile_definitions(ssa_torch_headers PUBLIC FMT_HEADER_ONLY=1)
target_precompile_headers(ssa_torch_headers PRIVATE <torch/torch.h> <torch/library.h>)

# ssa_use_torch(target): link torch and reuse the precompiled header.
function(ssa_use_torch target)
  target_link_libraries(${target} PUBLIC torch)
  target_compile_definitions(${target} PRIVATE FMT_HEADER_ONLY=1)
  target_precompile_headers(${target} REUSE_FROM ssa_torch_headers)
endfunction()
