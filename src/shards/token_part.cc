#include "shards/token_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "config/fnv1a.h"
#include "files/durable_files.h"
#include "files/file_hash.h"
#include "shards/shards_record.h"
#include "shards/token_shards_writer.h"
#include "ssa/check.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

/// What tells without reading it whether a file has changed.
Json facts(const fs::path& file) {
  // Since 1970: the clock of files counts from another year.
  const auto modified =
      std::chrono::file_clock::to_sys(fs::last_write_time(file)).time_since_epoch();
  return {{"file", file.string()},
          {"bytes", fs::file_size(file)},
          {"modified", std::chrono::duration_cast<std::chrono::nanoseconds>(modified).count()}};
}

/// One side of the split.
class Side {
 public:
  Side(const fs::path& prefix, TokenType type) : writer_(prefix, type) {}

  void add(std::string_view text, std::span<const TokenId> ids) {
    writer_.add(ids);
    ++documents_;
    tokens_ += static_cast<std::int64_t>(ids.size());
    text_bytes_ += static_cast<std::int64_t>(text.size());
  }

  Json finish() {
    writer_.finish();
    return {{"documents", documents_}, {"tokens", tokens_}, {"text_bytes", text_bytes_}};
  }

 private:
  TokenShardsWriter writer_;
  std::int64_t documents_ = 0, tokens_ = 0, text_bytes_ = 0;
};

}  // namespace

bool is_held_out(std::string_view text, double share) {
  std::uint64_t hash = fnv1a(text);
  // The high bits of FNV-1a hardly know the last letters: mix (Steele, Lea, Flood 2014,
  // SplitMix64).
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
  hash ^= hash >> 31;
  return static_cast<double>(hash >> 11) * 0x1p-53 < share;
}

fs::path part_stem(const fs::path& folder, const fs::path& file) {
  const fs::path whole = fs::absolute(file).lexically_normal();
  return folder / fmt::format("{}-{:016x}", file.filename().string(), fnv1a(whole.string()));
}

bool is_input(const Json& entry, const fs::path& file) {
  const Json now = facts(file);
  return fs::path(entry.at("file").get<std::string>()).filename() == file.filename() &&
         entry.at("bytes") == now["bytes"] &&
         (entry.at("modified") == now["modified"] || entry.at("hash") == hash_files({file}));
}

Json finished_part(const fs::path& stem, const fs::path& file, const TokenRecipe& recipe) {
  if (!fs::exists(record_path(stem))) return nullptr;
  try {
    Json record = read_json(record_path(stem));
    if (record.at("recipe") != recipe.description || !is_input(record.at("input"), file)) {
      return nullptr;
    }
    const TokenShards training(stem), held_out(held_out_prefix(stem));
    record["input"]["file"] = file.string();
    return record["input"];
  } catch (const std::exception&) {  // a damaged part is made again
    return nullptr;
  }
}

Json make_part(const fs::path& stem, const fs::path& file, const TokenRecipe& recipe,
               const std::function<void(std::int64_t, std::int64_t)>& on_document) {
  fs::remove(record_path(stem));
  Json entry = facts(file);
  const Json before = entry;
  entry["hash"] = hash_files({file});
  Side training(stem, recipe.type), held_out(held_out_prefix(stem), recipe.type);
  const LeftOut left_out = for_each_document(file, recipe.documents, [&](std::string_view text) {
    std::vector<TokenId> ids = recipe.tokenizer.encode_ordinary(text);
    SSA_CHECK(std::ranges::find(ids, recipe.end.id) == ids.end(),
              "the end token " << recipe.end.token << " is written in the document");
    ids.push_back(recipe.end.id);
    (is_held_out(text, recipe.held_out) ? held_out : training).add(text, ids);
    on_document(static_cast<std::int64_t>(text.size()), static_cast<std::int64_t>(ids.size()));
  });
  entry["training"] = training.finish();
  entry["held_out"] = held_out.finish();
  entry["empty"] = left_out.empty;
  entry["bad"] = left_out.bad;
  if (facts(file) != before) {
    throw std::runtime_error(fmt::format("{}: was changed while it was read", file.string()));
  }
  write_json(record_path(stem), {{"recipe", recipe.description}, {"input", entry}});
  return entry;
}

}  // namespace ssa
