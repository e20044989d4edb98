// An error in one line.
#pragma once

#include <exception>
#include <string>

namespace ssa {

/// What the exception that is being handled says: without torch's backtrace and, where memory ran
/// out, with how much was asked for and is there. "" for what is no std::exception.
std::string describe_current_exception();

/// Whether the exception that is being handled is one of memory.
bool memory_ran_out();

}  // namespace ssa
