// Text files to token shards: several files at once, one finished part after another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "text/text_documents.h"

namespace ssa {

struct TokenizeOptions {
  std::vector<std::filesystem::path> files;
  std::filesystem::path tokenizer, merges;  ///< as for read_tokenizer
  std::filesystem::path out;                ///< PREFIX of the files that are made
  DocumentOptions documents;
  std::string end_token;  ///< stands behind each document; empty: the vocabulary's own
  double held_out = 0;    ///< share of the documents for PREFIX-held-out, in [0, 1)
  int workers = 1;        ///< files at a time
  bool force = false;     ///< replace what was made from other files or options
};

/// Sums over the files that this call reads.
struct TokenizeProgress {
  std::int64_t files = 0, text_bytes = 0, tokens = 0;
};

/// Makes PREFIX.bin and .idx, PREFIX-held-out.bin and .idx if a share is held out, and PREFIX.json,
/// which is written last (docs/formats.md). The result depends on the files' order and the options,
/// not on the number of workers. A file's finished part is kept in PREFIX.parts until all are
/// joined: a call after an interruption goes on with them.
///
/// `go_on` is called some ten times a second from the calling thread and stops the work by
/// returning false. Throws std::runtime_error naming the file, line or row, and field; for
/// PREFIX.json that says it was made from other files or options unless `force`.
///
/// Returns true if all is made (also if it was there before).
bool tokenize_files(const TokenizeOptions& options,
                    const std::function<bool(const TokenizeProgress&)>& go_on);

}  // namespace ssa
