#include "shards/tokenize_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "files/durable_files.h"
#include "shards/shards_record.h"
#include "shards/token_part.h"
#include "shards/token_shards_writer.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

fs::path with(fs::path prefix, const char* ending) { return prefix += ending; }

/// PREFIX.parts, held by one process at a time.
class PartsFolder {
 public:
  explicit PartsFolder(const fs::path& path) : path_(path) {
    const fs::path lock = path / "lock";
    if (fs::exists(path) && !fs::is_empty(path) && !fs::exists(lock)) {
      throw std::runtime_error(fmt::format("{}: exists and holds no parts", path.string()));
    }
    fs::create_directories(path);
    descriptor_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (descriptor_ >= 0) ::close(descriptor_);
      throw std::runtime_error(
          fmt::format("{}: cannot be locked: is the same command running?", lock.string()));
    }
  }
  ~PartsFolder() { ::close(descriptor_); }
  PartsFolder(const PartsFolder&) = delete;
  PartsFolder& operator=(const PartsFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  int descriptor_ = -1;
};

void check_files(const std::vector<fs::path>& files) {
  std::set<fs::path> known;
  for (const fs::path& file : files) {
    check_text_file(file);
    try {  // the record names them
      check_utf8(file.string());
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(fmt::format("{}: its name: {}", file.string(), error.what()));
    }
    if (!known.insert(fs::canonical(file)).second) {
      throw std::runtime_error(fmt::format("{}: is given twice", file.string()));
    }
  }
}

TokenRecipe recipe_for(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  EndToken end;
  try {
    end = find_end_token(tokenizer, options.end_token);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("{}: {}", options.tokenizer.string(), error.what()));
  }
  const TokenType type = token_type_for(tokenizer.size());
  Json description = {{"tokenizer", hash_tokenizer(options.tokenizer, options.merges)},
                      {"vocabulary", tokenizer.size()},
                      {"end_token", {{"token", end.token}, {"id", end.id}}},
                      {"type", type_name(type)},
                      {"field", options.documents.field},
                      {"document_line", options.documents.document_line},
                      {"skip_bad_lines", options.documents.skip_bad_lines},
                      {"held_out", options.held_out}};
  return {tokenizer, end, type, options.documents, options.held_out, std::move(description)};
}

/// What is different about files or recipe from those that PREFIX.json tells of; empty: nothing.
std::string difference(const Json& made, const TokenizeOptions& options,
                       const TokenRecipe& recipe) {
  for (const auto& [name, value] : recipe.description.items()) {
    const Json& before = made.at("recipe").at(name);
    if (before != value) return fmt::format("{} was {}, not {}", name, before.dump(), value.dump());
  }
  const Json& inputs = made.at("inputs");
  if (inputs.size() != options.files.size()) return "the list of files is another";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_input(inputs[i], options.files[i])) {
      return fmt::format("{} is not what was read before", options.files[i].string());
    }
  }
  return "";
}

/// Whether the same result is there already. Throws if another one is.
bool is_made(const TokenizeOptions& options, const TokenRecipe& recipe) {
  if (options.force) return false;
  const fs::path record = record_path(options.out);
  if (fs::exists(record)) {
    std::string reason = "it is not a record of token shards";
    try {
      reason = difference(read_json(record), options, recipe);
    } catch (const Json::exception&) {
    }
    if (!reason.empty()) {
      throw std::runtime_error(fmt::format("{}: exists, made otherwise: {} (--force replaces it)",
                                           record.string(), reason));
    }
    const TokenShards training(options.out);
    if (options.held_out > 0) const TokenShards held_out(held_out_prefix(options.out));
    return true;
  }
  // Files without a record are another program's, but for those of an interrupted end.
  if (fs::exists(with(options.out, ".parts"))) return false;
  for (const fs::path& prefix : {options.out, held_out_prefix(options.out)}) {
    for (const char* ending : {".bin", ".idx"}) {
      if (fs::exists(with(prefix, ending))) {
        throw std::runtime_error(fmt::format("{}{}: exists, with no {} (--force replaces it)",
                                             prefix.string(), ending, record.string()));
      }
    }
  }
  return false;
}

/// Makes the parts of files that are not finished yet on several threads.
class Workers {
 public:
  Workers(const TokenizeOptions& options, const TokenRecipe& recipe, const fs::path& folder)
      : options_(options), recipe_(recipe), folder_(folder), entries_(options.files.size()) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const fs::path& file = options.files[i];
      entries_[i] = finished_part(part_stem(folder, file), file, recipe);
      if (entries_[i].is_null()) todo_.push_back(i);
    }
    // The longest first, so that no thread is left with it at the end.
    std::ranges::stable_sort(todo_, std::ranges::greater{},
                             [&](std::size_t i) { return fs::file_size(options.files[i]); });
  }

  /// Whether all parts are there.
  bool run(const std::function<bool(const TokenizeProgress&)>& go_on) {
    {
      std::vector<std::jthread> threads;
      const auto count = std::min<std::size_t>(options_.workers, todo_.size());
      running_ = count;
      for (std::size_t i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
      std::unique_lock lock(mutex_);
      while (!ended_.wait_for(lock, std::chrono::milliseconds(100),
                              [this] { return running_ == 0; })) {
        if (!go_on({files_, text_bytes_, tokens_})) stop_ = true;
      }
    }
    go_on({files_, text_bytes_, tokens_});
    if (error_) std::rethrow_exception(error_);
    return files_ == static_cast<std::int64_t>(todo_.size());
  }

  /// Of all files, in their order.
  const std::vector<Json>& entries() const { return entries_; }

 private:
  void work() {
    for (std::size_t next = next_++; next < todo_.size() && !stop_; next = next_++) {
      const std::size_t i = todo_[next];
      const fs::path& file = options_.files[i];
      try {
        entries_[i] = make_part(part_stem(folder_, file), file, recipe_,
                                [this](std::int64_t text_bytes, std::int64_t tokens) {
                                  text_bytes_ += text_bytes;
                                  tokens_ += tokens;
                                  if (stop_) throw Stopped();
                                });
        ++files_;
      } catch (const Stopped&) {
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        if (!error_ || i < error_file_) {
          error_ = std::current_exception();
          error_file_ = i;
        }
        stop_ = true;
      }
    }
    const std::scoped_lock lock(mutex_);
    --running_;
    ended_.notify_all();
  }

  const TokenizeOptions& options_;
  const TokenRecipe& recipe_;
  const fs::path& folder_;
  std::vector<Json> entries_;      ///< of each file; null: not finished
  std::vector<std::size_t> todo_;  ///< indices of files
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::int64_t> files_ = 0, text_bytes_ = 0, tokens_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;  ///< of what follows
  std::condition_variable ended_;
  std::size_t running_ = 0, error_file_ = 0;
  std::exception_ptr error_;
};

/// The parts of all files, one after another.
void join(const TokenizeOptions& options, const TokenRecipe& recipe, const fs::path& folder,
          const fs::path& to, fs::path (*side)(fs::path)) {
  TokenShardsWriter writer(to, recipe.type);
  for (const fs::path& file : options.files) {
    writer.append(TokenShards(side(part_stem(folder, file))));
  }
  writer.finish();
}

/// The sums of the entries' counts.
Json sum(const std::vector<Json>& entries, const char* side) {
  Json total = {{"documents", 0}, {"tokens", 0}, {"text_bytes", 0}};
  for (const Json& entry : entries) {
    for (auto& [name, value] : total.items()) {
      value = value.get<std::int64_t>() + entry.at(side).at(name).get<std::int64_t>();
    }
  }
  return total;
}

Json record_of(const TokenizeOptions& options, const TokenRecipe& recipe,
               const std::vector<Json>& entries) {
  const Json merges = options.merges.empty() ? Json() : Json(options.merges.string());
  return {{"schema", 1},
          {"tokenizer", options.tokenizer.string()},
          {"merges", merges},
          {"recipe", recipe.description},
          {"training", sum(entries, "training")},
          {"held_out", options.held_out > 0 ? sum(entries, "held_out") : Json()},
          {"inputs", entries}};
}

/// Gives the joined files their names, PREFIX.json the last. A crash in between leaves
/// PREFIX.parts, from which the next call does this again.
void publish(const TokenizeOptions& options, const fs::path& joined, const Json& record) {
  fs::remove(record_path(options.out));
  const auto replace = [](const fs::path& from, const fs::path& to) {
    for (const char* ending : {".idx", ".bin"}) fs::remove(with(to, ending));
    if (from.empty()) return;
    for (const char* ending : {".bin", ".idx"}) fs::rename(with(from, ending), with(to, ending));
  };
  replace(joined, options.out);
  replace(options.held_out > 0 ? held_out_prefix(joined) : fs::path(),
          held_out_prefix(options.out));
  write_json(record_path(options.out), record);  // syncs the folder, the other names with it
}

}  // namespace

bool tokenize_files(const TokenizeOptions& options,
                    const std::function<bool(const TokenizeProgress&)>& go_on) {
  check_files(options.files);
  const fs::path name = options.out.filename();
  if (name.empty() || name == "." || name == "..") {
    throw std::runtime_error(
        fmt::format("{}: is a folder, not how the files' names begin", options.out.string()));
  }
  const auto tokenizer = read_tokenizer(options.tokenizer, options.merges);
  const TokenRecipe recipe = recipe_for(options, *tokenizer);
  if (is_made(options, recipe)) return true;
  const PartsFolder parts(with(options.out, ".parts"));
  Workers workers(options, recipe, parts.path());
  if (!workers.run(go_on)) return false;
  const Json record = record_of(options, recipe, workers.entries());
  const auto documents = [&](const char* side) {
    return sum(workers.entries(), side)["documents"].get<std::int64_t>();
  };
  if (documents("training") + documents("held_out") == 0) {
    throw std::runtime_error(fmt::format("{}: no document in the files", options.out.string()));
  }
  const fs::path joined = parts.path() / "joined";
  const auto same = [](fs::path prefix) { return prefix; };
  join(options, recipe, parts.path(), joined, same);
  if (options.held_out > 0) {
    join(options, recipe, parts.path(), held_out_prefix(joined), held_out_prefix);
  }
  publish(options, joined, record);
  remove_folder(parts.path());
  return true;
}

}  // namespace ssa
