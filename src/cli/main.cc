// `ssa`: the table of sub-commands, and how their errors end.
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "config/suggestion.h"
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
      {"completion", "write what completes commands in bash or zsh", add_completion},
      {"help", "show the help of a command", add_help},
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

/// The help of the command and of those below it, each under its name. Those that are Python's tell
/// their own.
void print_every_help(const CLI::App& app, const std::string& above) {
  if (app.get_prefix_command()) return;
  const std::string name = above.empty() ? app.get_name() : above + " " + app.get_name();
  // Not app.help(), which would be that of the command that is running.
  print("## {}\n\n{}\n", name,
        app.get_formatter()->make_help(&app, name, CLI::AppFormatMode::Normal));
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_name().empty()) print_every_help(*command, name);
  }
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

/// Names of the sub-commands; option groups are nameless ones.
std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_name().empty()) names.push_back(command->get_name());
  }
  return names;
}

/// With those of option groups.
std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options({})) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* group : app.get_subcommands({})) {
    if (group->get_name().empty()) std::ranges::copy(flag_names(*group), std::back_inserter(names));
  }
  return names;
}

/// "unknown command trian; did you mean train?"
std::string unknown_argument(const CLI::App& app, const std::string& argument) {
  if (argument.starts_with("-")) {
    const std::string flag = argument.substr(0, argument.find('='));
    return fmt::format("unknown flag {}{}", flag, did_you_mean(flag, flag_names(app)));
  }
  const std::vector<std::string> names = command_names(app);
  return fmt::format("unknown {} {}{}", names.empty() ? "argument" : "command", argument,
                     did_you_mean(argument, names));
}

std::string with_reference(const std::string& message, const CLI::App& app) {
  return fmt::format("{} (see {} --help)", message, full_name(app));
}

/// CLI11's message; for arguments that it does not know also the nearest ones that it does.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& parsed = parsed_app(app);
  const auto unknown = parsed.remaining();
  return with_reference(unknown.empty() ? error.what() : unknown_argument(parsed, unknown.front()),
                        parsed);
}

/// `ssa help train` is `ssa train --help`: the arguments in that form. Throws CLI::ParseError where
/// there is no such command.
std::vector<std::string> resolve_help(const CLI::App& app, std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != "help") return arguments;
  if (arguments.size() > 1 && arguments[1].starts_with("-")) return arguments;  // its own flags
  arguments.erase(arguments.begin());
  const CLI::App* found = &app;
  for (const std::string& name : arguments) {
    if (name.starts_with("-")) continue;
    const auto commands = found->get_subcommands(
        [&name](const CLI::App* command) { return command->get_name() == name; });
    if (commands.empty()) {
      throw CLI::ParseError(with_reference(unknown_argument(*found, name), *found), kUsage);
    }
    found = commands.front();
  }
  arguments.emplace_back("--help");
  return arguments;
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
  std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    arguments = resolve_help(app, std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return fail(kUsage, error.what());
  }
  try {
    std::ranges::reverse(arguments);  // as parse() takes them
    app.parse(std::move(arguments));
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

/// `ssa help train` is turned into --help before it is parsed (resolve_help): what is left is its
/// own help, and --all.
void add_help(CLI::App& app, int&) {
  app.add_option("COMMAND", "train, tokenizer encode, …")->expected(0, -1);
  const auto all = std::make_shared<bool>(false);
  app.add_flag("--all", *all, "show the help of every command");
  app.footer("Example: ssa help train");
  app.callback([&app, all] {
    if (*all) print_every_help(*app.get_parent(), "");
  });
}

}  // namespace ssa

int main(int argc, char** argv) { return ssa::run(argc, argv); }
