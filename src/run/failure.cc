#include "run/failure.h"

#include <c10/util/Exception.h>

#include <charconv>
#include <new>
#include <string_view>

#include "run/memory.h"

namespace ssa {
namespace {

/// The number of bytes that torch's allocator could not get; 0 if it says none, -1 of another
/// error.
double bytes_refused(std::string_view what) {
  if (what.find("can't allocate memory") == what.npos) return -1;
  constexpr std::string_view kBefore = "you tried to allocate ";
  const std::size_t at = what.find(kBefore);
  if (at == what.npos) return 0;
  double bytes = 0;
  const char* begin = what.data() + at + kBefore.size();
  std::from_chars(begin, what.data() + what.size(), bytes);
  return bytes;
}

}  // namespace

std::string describe_current_exception() {
  try {
    throw;
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    const double refused = bytes_refused(what);
    return refused < 0 ? what : out_of_memory_text(refused);
  } catch (const std::bad_alloc&) {
    return out_of_memory_text(0);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "";
  }
}

bool memory_ran_out() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return bytes_refused(error.what_without_backtrace()) >= 0;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace ssa
