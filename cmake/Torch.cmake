# LibTorch (see LibTorch.cmake), and for every target that uses it:
#   ssa_torch_headers      precompiled headers of torch (about 25 s a file without them)
#   ssa_use_torch(target)  links torch and reuses that header.
include(LibTorch)

file(WRITE "${PROJECT_BINARY_DIR}/torch_headers.cc" "// Holds the precompiled header, nothing else.\n")
add_library(ssa_torch_headers OBJECT "${PROJECT_BINARY_DIR}/torch_headers.cc")
target_link_libraries(ssa_torch_headers PRIVATE ssa_libtorch)
# Not <torch/torch.h>: g++ instantiates in every file what templates of the header left to the end of it, needed or not.
# An empty file takes 10 s of a CPU with that header, 6 s with these.
target_precompile_headers(ssa_torch_headers PRIVATE <torch/autograd.h> <torch/library.h>
  <torch/nn/modules/container/modulelist.h> <torch/types.h> <torch/utils.h>)

# What calls torch computes nothing itself: ATen and our kernels do. -O1 compiles it in two thirds of -O3's time (five files of
# src/experiment as one: 29 s and 44 s of a CPU).
set(ssa_torch_options $<$<CONFIG:Release>:-O1>)
target_compile_options(ssa_torch_headers PRIVATE ${ssa_torch_options})

function(ssa_use_torch target)
  target_link_libraries(${target} PUBLIC ssa_libtorch)
  target_compile_options(${target} PRIVATE ${ssa_torch_options})
  target_precompile_headers(${target} REUSE_FROM ssa_torch_headers)
endfunction()
