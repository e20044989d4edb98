// An error in one line.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace ssa {

/// What the exception that is being handled says: without torch's backtrace and, where memory ran
/// out, with how much was asked for and is there. "" for what is no std::exception.
std::string describe_current_exception();

/// Whether the exception that is being handled is one of memory.
bool memory_ran_out();

/// What `work` returns. Where memory runs out in it, throws std::runtime_error that says what it
/// was for (`purpose`: "reading the model") and what lowers the need (`remedy`).
template <class Work>
auto with_memory_for(const std::string& purpose, const std::string& remedy, const Work& work) {
  try {
    return work();
  } catch (const std::exception&) {
    if (!memory_ran_out()) throw;
    throw std::runtime_error(purpose + ": " + describe_current_exception() + "; " + remedy);
  }
}

}  // namespace ssa
