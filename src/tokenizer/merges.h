// The merges of byte-pair encoding, in tokenizer.json and in merges.txt.
#pragma once

#include <filesystem>
#include <vector>

#include "tokenizer/byte_pairs.h"
#include "tokenizer/json_node.h"
#include "tokenizer/vocabulary.h"

namespace ssa {

/// A list of "left right" or ["left", "right"]. `prefix_bytes`: length of what the right one's
/// spelling begins with unless it begins a word. Throws std::runtime_error naming what is no merge,
/// or not in the vocabulary.
std::vector<Merge> read_merges(const JsonNode& list, const Vocabulary& vocabulary,
                               std::size_t prefix_bytes);

/// The same from merges.txt: a merge a line.
std::vector<Merge> read_merges(const std::filesystem::path& file, const Vocabulary& vocabulary);

/// The tokens that stand for bytes by those bytes; the others cannot come out of merges of bytes.
TokenMap tokens_of_bytes(const Vocabulary& vocabulary);

}  // namespace ssa
