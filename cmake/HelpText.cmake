# As a script: cmake -DPROGRAM=… -DOUTPUT=… -P HelpText.cmake. Writes what `PROGRAM help --all` prints as a string of C++.
execute_process(COMMAND "${PROGRAM}" help --all OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
file(WRITE "${OUTPUT}" "R\"help(${text})help\"\n")
