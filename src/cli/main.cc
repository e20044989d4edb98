// `ssa`: the table of sub-commands, and how their errors end.
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "cli/command.h"
#include "config/field.h"
#include "config/version.h"
#include "files/terminal.h"
#include "run/failure.h"

namespace ssa {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"train", "train a model on a task, as a TOML file says", add_train},
      {"eval", "measure a trained model: under distribution shifts, on texts, on minimal pairs",
       add_eval},
      {"import", "make a run of a checkpoint of Hugging Face", add_import},
      {"generate", "write text with a trained language model", add_generate},
      {"attention", "write the attention weights of trained models for one input", add_attention},
      {"reproduce", "train and evaluate a whole comparison: scores x seeds", add_reproduce},
      {"theory", "measure the two theorems on scores and their growth", add_theory},
      {"tokenizer", "turn text into token ids and back; make a tokenizer", add_tokenizer},
      {"data", "turn text files into memory-mapped token shards", add_data},
      {"scores", "list the scoring functions with formula and parameters", add_scores},
      {"info", "show versions, instruction set, threads and libraries", add_info},
  };
  return table;
}

namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

int fail(int code, const std::string& message) {
  warn(message);
  return code;
}

/// The innermost sub-command that was asked for, or the program itself.
const CLI::App& parsed_app(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : parsed_app(*parsed.front());
}

/// "ssa tokenizer encode"
std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

/// CLI11's message; for arguments that it does not know also the nearest ones that it does.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& parsed = parsed_app(app);
  std::string message = error.what();
  const auto unknown = parsed.remaining();
  std::vector<std::string> known;
  for (const CLI::App* command : parsed.get_subcommands({})) known.push_back(command->get_name());
  if (known.empty()) {
    for (const CLI::Option* option : parsed.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  }
  if (!unknown.empty()) {
    message = fmt::format("unknown argument {}; did you mean {}?", unknown.front(),
                          nearest_name(unknown.front(), known));
  }
  return fmt::format("{} (see {} --help)", message, full_name(parsed));
}

/// A training step frees what the next one asks for again. Keeping it saves a page fault for every
/// 4 KiB: 8 to 10 % of a step's time at 3 layers of width 64 as at 12 of width 256. Tensors of 154
/// MB too (50 257 embeddings of width 768), which no threshold keeps from mmap: 16 % more of the
/// 114 M decoder's, for 2 % more memory at its peak.
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

/// The exit code, unless what was printed went nowhere (a full disk).
int finish(int exit_code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.flush();
  return written || exit_code != 0 ? exit_code
                                   : fail(kFailure, "standard output: cannot be written");
}

int run(int argc, char** argv) {
  fill_standard_descriptors();
  keep_freed_memory();
  CLI::App app("Scaled Signed Averaging and its rivals: train, evaluate, compare.", "ssa");
  app.footer("Example: ssa train configs/icl-every-small.toml --out runs/every");
  app.set_version_flag("--version", fmt::format("ssa {} ({})", version(), git_id()));
  app.require_subcommand(1);
  int exit_code = 0;
  for (const Command& command : commands()) {
    command.add(*app.add_subcommand(command.name, command.help), exit_code);
  }
  if (argc == 1) {
    print_error_text(app.help());
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return finish(app.exit(request));
  } catch (const CLI::ParseError& error) {
    return fail(kUsage, usage_message(app, error));
  } catch (const std::exception&) {
    return fail(kFailure, describe_current_exception());
  }
  return finish(exit_code);
}

}  // namespace
}  // namespace ssa

int main(int argc, char** argv) { return ssa::run(argc, argv); }
