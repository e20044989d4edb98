// `ssa completion`: a script that completes commands, flags, their values and files in a shell,
// written from the tree of commands.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/checks.h"
#include "cli/command.h"
#include "files/terminal.h"

namespace ssa {
namespace {

/// The values that one_of() and known_values() list, separated by commas; "" for other options.
std::string listed_values(CLI::Option& option) {
  try {
    return option.get_validator(0)->get_name();
  } catch (const CLI::OptionNotFound&) {
    return "";
  }
}

std::string with_spaces(std::string list) {
  std::ranges::replace(list, ',', ' ');
  return list;
}

/// What a command offers. Option groups are nameless sub-commands.
struct Offer {
  std::vector<std::string> commands, flags;
  std::string words;               ///< of arguments that take one of some names
  std::vector<std::string> cases;  ///< of the shell: what stands behind a flag

  void add(CLI::App& app, const std::string& place) {
    for (CLI::Option* option : app.get_options()) {
      std::vector<std::string> patterns;
      for (const std::string& name : option->get_lnames()) {
        flags.push_back("--" + name);
        patterns.push_back(fmt::format("'{} --{}'", place, name));
      }
      const std::string values = with_spaces(listed_values(*option));
      if (patterns.empty()) {
        words += values;
        continue;
      }
      // "none" where the flag stands alone, so that what follows is completed as if it were not
      // there.
      const std::string kind = option->get_items_expected_max() == 0 ? "none"
                               : values.empty()                      ? "files"
                                                                     : "values";
      if (kind == "none") continue;
      cases.push_back(
          fmt::format("    {}) kind={} values='{}' ;;\n", fmt::join(patterns, "|"), kind, values));
    }
    for (CLI::App* part : app.get_subcommands({})) {
      if (part->get_name().empty()) {
        add(*part, place);
      } else {
        commands.push_back(part->get_name());
      }
    }
  }
};

/// The cases of the shell for the command and those below it.
struct Tables {
  std::vector<std::string> places;  ///< 'ssa tokenizer encode'
  std::string offers, values;

  void add(CLI::App& app, const std::string& place, const std::string& commands_of_help) {
    Offer offer;
    offer.add(app, place);
    const std::string commands =
        place == "ssa help" ? commands_of_help
                            : fmt::format("{}{}", fmt::join(offer.commands, " "), offer.words);
    offers += fmt::format("    '{}') commands='{}' flags='{}' ;;\n", place, commands,
                          fmt::join(offer.flags, " "));
    for (const std::string& one : offer.cases) values += one;
    for (const std::string& name : offer.commands) {
      const std::string below = place + " " + name;
      places.push_back(fmt::format("'{}'", below));
      add(*app.get_subcommand(name), below, commands_of_help);
    }
  }
};

/// The same in both shells: `place` is the command, `kind` what stands behind `before`.
constexpr std::string_view kChoose = R"(  case $place in
{offers}  esac
  kind=
  case "$place $before" in
{values}  esac
)";

constexpr std::string_view kBash =
    R"(# Completion of ssa for bash. To use it now: source <(ssa completion bash)
_ssa() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  local place=ssa kind= commands= flags= values= i
  if [[ $current == '=' ]]; then
    current=
  elif [[ $before == '=' ]]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$place ${{COMP_WORDS[i]}}" in
      {places}) place+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
{choose}  if [[ $kind == values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$current"))
  elif [[ -z $kind && $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  elif [[ -z $kind && -n $commands ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$current"))
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -F _ssa ssa
)";

constexpr std::string_view kZsh = R"(#compdef ssa
# Completion of ssa for zsh. To use it now: source <(ssa completion zsh)
_ssa() {{
  local current=${{words[CURRENT]}} before=${{words[CURRENT - 1]}}
  local place=ssa kind= commands= flags= values= i
  for ((i = 2; i < CURRENT; ++i)); do
    case "$place ${{words[i]}}" in
      {places}) place+=" ${{words[i]}}" ;;
    esac
  done
{choose}  if [[ $kind == values ]]; then
    compadd -- ${{=values}}
  elif [[ -z $kind && $current == -* ]]; then
    compadd -- ${{=flags}}
  elif [[ -z $kind && -n $commands ]]; then
    compadd -- ${{=commands}}
  else
    _files
  fi
}}
compdef _ssa ssa
)";

std::string script(CLI::App& program, std::string_view shell) {
  Offer top;
  top.add(program, "ssa");
  Tables tables;
  tables.add(program, "ssa", fmt::format("{}", fmt::join(top.commands, " ")));
  const std::string choose = fmt::format(fmt::runtime(kChoose), fmt::arg("offers", tables.offers),
                                         fmt::arg("values", tables.values));
  return fmt::format(fmt::runtime(shell == "bash" ? kBash : kZsh),
                     fmt::arg("places", fmt::join(tables.places, "|")), fmt::arg("choose", choose));
}

}  // namespace

void add_completion(CLI::App& app, int&) {
  const auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash or zsh")->required()->check(one_of({"bash", "zsh"}));
  app.footer("Example: ssa completion bash > ~/.local/share/bash-completion/completions/ssa");
  app.callback([&app, shell] { print_text(script(*app.get_parent(), *shell)); });
}

}  // namespace ssa
