// Whether a file is a model of SentencePiece that its library can take: the library trusts what it
// reads, so that a damaged table of characters sends it outside of its memory.
#pragma once

#include <string_view>

namespace ssa {

/// Throws std::invalid_argument saying what in the bytes of a .model file is damaged.
void check_sentence_piece(std::string_view model);

}  // namespace ssa
