# Finds Arrow's C++ libraries inside the wheel `pyarrow` of the Python environment: target ssa_arrow.
execute_process(
  COMMAND "${SSA_PYTHON}" -c
          "import pyarrow as p; print(p.get_include(), p.get_library_dirs()[0], p.cpp_build_info.so_version, sep=';')"
  OUTPUT_VARIABLE arrow_facts RESULT_VARIABLE arrow_missing ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(arrow_missing)
  message(FATAL_ERROR "pyarrow was not found by ${SSA_PYTHON}: run `make setup`, or install what requirements.txt names.")
endif()
list(GET arrow_facts 0 arrow_include)
list(GET arrow_facts 1 arrow_folder)
list(GET arrow_facts 2 arrow_version)

add_library(ssa_arrow INTERFACE)
target_include_directories(ssa_arrow SYSTEM INTERFACE "${arrow_include}")
target_link_libraries(ssa_arrow INTERFACE "${arrow_folder}/libparquet.so.${arrow_version}"
                                          "${arrow_folder}/libarrow.so.${arrow_version}")
