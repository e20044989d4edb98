// The four normal forms of Unicode (Standard Annex 15).
#pragma once

#include <string>
#include <string_view>

namespace ssa {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// `text` (valid UTF-8) in the form, as Hugging Face's tokenizers know it: that of Unicode 9, in
/// which later characters stay as they are.
std::string normal_form(std::string_view text, NormalForm form);

}  // namespace ssa
