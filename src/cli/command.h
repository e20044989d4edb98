// The table of sub-commands. A sub-command is a row of commands() in main.cc and one file.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ssa {

/// Adds the sub-command's arguments, help and example to `app`, and its work as app.callback(). The
/// work throws for failures: main prints "ssa: what()" as one line and exits with 1. A work that
/// ends otherwise than with 0 or an exception (interrupted: 130, 143) sets `exit_code`.
struct Command {
  const char* name;
  const char* help;  ///< one line
  void (*add)(CLI::App& app, int& exit_code);
};

/// Every sub-command, in the order of `ssa --help`.
const std::vector<Command>& commands();

void add_train(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_attention(CLI::App& app, int& exit_code);
void add_theory(CLI::App& app, int& exit_code);
void add_reproduce(CLI::App& app, int& exit_code);
void add_tokenizer(CLI::App& app, int& exit_code);
void add_import(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);
void add_data(CLI::App& app, int& exit_code);
void add_scores(CLI::App& app, int& exit_code);
void add_info(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app, int& exit_code);
void add_help(CLI::App& app, int& exit_code);

}  // namespace ssa
