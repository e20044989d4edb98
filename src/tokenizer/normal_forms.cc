#include "tokenizer/normal_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "tokenizer/newer_characters.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace {

using CodePoints = std::vector<utf8proc_int32_t>;

int options_of(NormalForm form) {
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  return UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
         (compatible ? UTF8PROC_COMPAT : 0);
}

void append_form(std::string_view text, int options, std::string& out) {
  thread_local CodePoints points;
  const auto decompose = [&] {
    return utf8proc_decompose(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                              static_cast<utf8proc_ssize_t>(text.size()), points.data(),
                              static_cast<utf8proc_ssize_t>(points.size()),
                              static_cast<utf8proc_option_t>(options));
  };
  points.resize(std::max(points.size(), 2 * text.size() + 16));
  utf8proc_ssize_t count = decompose();
  if (count > static_cast<utf8proc_ssize_t>(points.size())) {
    points.resize(static_cast<std::size_t>(count));
    count = decompose();
  }
  if (count >= 0) {
    count = utf8proc_normalize_utf32(points.data(), count, static_cast<utf8proc_option_t>(options));
  }
  if (count < 0) throw std::runtime_error(utf8proc_errmsg(count));
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    append_utf8(out, static_cast<char32_t>(points[static_cast<std::size_t>(i)]));
  }
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
  const int options = options_of(form);
  std::string out;
  out.reserve(text.size());
  std::size_t begin = 0;  // of what holds no newer character: nothing reaches across one
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(text.substr(at));
    if (point.length > 1 && is_newer_than_normal_forms(point.value)) {
      append_form(text.substr(begin, at - begin), options, out);
      out += text.substr(at, point.length);
      begin = at + point.length;
    }
    at += point.length;
  }
  append_form(text.substr(begin), options, out);
  return out;
}

}  // namespace ssa
