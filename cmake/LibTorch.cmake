# Finds LibTorch inside a Python environment: target ssa_libtorch, the libraries and headers of the installed torch
# wheel, whichever it is, and SSA_TORCH_VERSION. SSA_PYTHON names the interpreter.
# Torch's own CMake package is not used: that of a CUDA wheel stops where no CUDA toolkit is installed, though nothing
# here needs one. The libraries libtorch_cpu and libc10 hold all that is called; torch loads its CUDA libraries itself
# where Python, or a program that links libtorch_cuda, asks for them. Nothing of a driver has to be there.
if(NOT SSA_PYTHON)
  find_program(SSA_PYTHON NAMES python3 python REQUIRED)
endif()
execute_process(
  COMMAND "${SSA_PYTHON}" "${CMAKE_CURRENT_LIST_DIR}/torch_wheel.py"
  OUTPUT_VARIABLE torch_facts RESULT_VARIABLE torch_missing ERROR_VARIABLE torch_error
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(torch_missing)
  message(FATAL_ERROR "No usable torch: ${torch_error}. Run `make setup`, or pass -DSSA_PYTHON=… (or -DSSA_BUILD=kernels "
                      "for the kernels alone, which need none).")
endif()
list(GET torch_facts 0 torch_version_full)
list(GET torch_facts 1 torch_folder)
string(REGEX REPLACE "\\+.*" "" SSA_TORCH_VERSION "${torch_version_full}")
message(STATUS "torch ${torch_version_full} in ${torch_folder}")

function(ssa_torch_library target name)
  set(file "${torch_folder}/lib/${CMAKE_SHARED_LIBRARY_PREFIX}${name}${CMAKE_SHARED_LIBRARY_SUFFIX}")
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "torch ${torch_version_full} has no ${file}: a whole torch wheel is needed")
  endif()
  add_library(${target} SHARED IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${file}")
endfunction()
ssa_torch_library(ssa_libtorch_cpu torch_cpu)
ssa_torch_library(ssa_libc10 c10)

add_library(ssa_libtorch INTERFACE IMPORTED GLOBAL)
target_include_directories(ssa_libtorch SYSTEM INTERFACE "${torch_folder}/include"
                                                         "${torch_folder}/include/torch/csrc/api/include")
# The definitions of torch's own CMake package: c10d's headers declare their Gloo backend, which every wheel holds, only
# where USE_C10D_GLOO is there. FMT_HEADER_ONLY: the wheel brings the headers of its own fmt (12.1), which stand before
# Debian's (9.1): whoever sees torch's headers must not link Debian's libfmt, nor spdlog, which is built with it.
target_compile_definitions(ssa_libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE
                                                  FMT_HEADER_ONLY=1)
target_link_libraries(ssa_libtorch INTERFACE ssa_libtorch_cpu ssa_libc10)

# The wheel and this compiler may differ in their std::string (the constructors of c10::Error take one, and only the
# newer one's name says __cxx11): the wheel's then.
file(STRINGS "${torch_folder}/lib/${CMAKE_SHARED_LIBRARY_PREFIX}c10${CMAKE_SHARED_LIBRARY_SUFFIX}" cxx11_symbols
     REGEX "_ZN3c105ErrorC[12].*__cxx11" LIMIT_COUNT 1)
set(cxx11_abi 0)
if(cxx11_symbols)
  set(cxx11_abi 1)
endif()
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("
#include <string>
#if defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI != ${cxx11_abi}
#error another std::string
#endif
int main() { return 0; }" SSA_STRING_IS_TORCHS_${cxx11_abi})
if(NOT SSA_STRING_IS_TORCHS_${cxx11_abi})
  target_compile_definitions(ssa_libtorch INTERFACE _GLIBCXX_USE_CXX11_ABI=${cxx11_abi})
endif()
