# LibTorch (see LibTorch.cmake), and for every target that uses it:
#   ssa_torch_headers      the precompiled <torch/torch.h> (about 25 s a file without it)
#   ssa_use_torch(target)  links torch and reuses that header.
include(LibTorch)

file(WRITE "${PROJECT_BINARY_DIR}/torch_headers.cc" "// Holds the precompiled header, nothing else.\n")
add_library(ssa_torch_headers OBJECT "${PROJECT_BINARY_DIR}/torch_headers.cc")
target_link_libraries(ssa_torch_headers PRIVATE ssa_libtorch)
target_precompile_headers(ssa_torch_headers PRIVATE <torch/torch.h> <torch/library.h>)

function(ssa_use_torch target)
  target_link_libraries(${target} PUBLIC ssa_libtorch)
  target_precompile_headers(${target} REUSE_FROM ssa_torch_headers)
endfunction()
