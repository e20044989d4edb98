# Writes generated/version_facts.h at every build, touching it only when a fact has changed.
# As a script: cmake -DSOURCE=… -DOUTPUT=… -DVERSION=… -DBUILD_OPTIONS=… -DPYTHON=… -DPYTHON_PACKAGE=… -P Version.cmake
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=*
                OUTPUT_VARIABLE git_id ERROR_QUIET RESULT_VARIABLE no_git OUTPUT_STRIP_TRAILING_WHITESPACE)
if(no_git)
  set(git_id "unknown")
endif()
set(text "#pragma once\n"
         "#define SSA_VERSION \"${VERSION}\"\n"
         "#define SSA_GIT_ID \"${git_id}\"\n"
         "#define SSA_BUILD_OPTIONS \"${BUILD_OPTIONS}\"\n"
         "#define SSA_BUILD_PYTHON \"${PYTHON}\"\n"
         "#define SSA_BUILD_PYTHON_PACKAGE \"${PYTHON_PACKAGE}\"\n")
string(CONCAT text ${text})
set(old "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" old)
endif()
if(NOT old STREQUAL text)
  file(WRITE "${OUTPUT}" "${text}")
endif()
