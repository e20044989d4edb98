// The tokens of one text file, kept until all files' are joined.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string_view>

#include "config/field.h"
#include "shards/token_shards.h"
#include "text/text_documents.h"
#include "tokenizer/tokenizer.h"

namespace ssa {

/// How texts become tokens.
struct TokenRecipe {
  const Tokenizer& tokenizer;
  EndToken end;
  TokenType type{};
  DocumentOptions documents;
  double held_out = 0;
  Json description;  ///< all of it that decides about the result
};

/// What `on_document` throws to stop make_part.
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped") {}
};

/// Where the part of `file` lies in `folder`: STEM.bin, STEM.idx, STEM-held-out.bin, … and, written
/// last, STEM.json.
std::filesystem::path part_stem(const std::filesystem::path& folder,
                                const std::filesystem::path& file);

/// Whether a document is held out: by its text alone, so that it falls on one side wherever it is
/// met, and what a share holds out every larger share does too.
bool is_held_out(std::string_view text, double share);

/// Whether the file is the one that this entry of a JSON file describes: same name, same size, and
/// the same time of modification or else the same hash.
bool is_input(const Json& entry, const std::filesystem::path& file);

/// The entry of a part that was finished before from the same file by the same recipe; else null.
Json finished_part(const std::filesystem::path& stem, const std::filesystem::path& file,
                   const TokenRecipe& recipe);

/// Makes the part, calling `on_document` with the size of each document; returns its entry:
/// {"file", "bytes", "modified", "hash", "training": {"documents", "tokens", "text_bytes"},
///  "held_out": {…}, "empty", "bad"}
Json make_part(
    const std::filesystem::path& stem, const std::filesystem::path& file, const TokenRecipe& recipe,
    const std::function<void(std::int64_t text_bytes, std::int64_t tokens)>& on_document);

}  // namespace ssa
