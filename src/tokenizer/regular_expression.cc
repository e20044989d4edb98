#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/regular_expression.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <stdexcept>

#include "tokenizer/newer_characters.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace {

constexpr std::size_t kLeastStack = std::size_t{32} << 10, kMostStack = std::size_t{64} << 20;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

/// What matching writes into: one a thread.
struct Workspace {
  Workspace()
      : match(pcre2_match_data_create(1, nullptr)),
        stack(pcre2_jit_stack_create(kLeastStack, kMostStack, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    if (match == nullptr || context == nullptr) throw std::bad_alloc();
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Workspace() {
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
    pcre2_match_data_free(match);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  pcre2_match_data* match;
  pcre2_jit_stack* stack;
  pcre2_match_context* context;
  std::string replaced;
};

}  // namespace

struct RegularExpression::Program {
  explicit Program(pcre2_code* compiled) : code(compiled) {}
  ~Program() { pcre2_code_free(code); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pcre2_code* code;
};

RegularExpression::RegularExpression(std::string_view pattern) {
  const std::string translated = translate_regular_expression(pattern);
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_compile_context* const context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_code* const code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE, &error, &place, context);
  pcre2_compile_context_free(context);
  if (code == nullptr) {
    throw std::invalid_argument(
        fmt::format("not a regular expression: {} (\"{}\")", message_of(error), pattern));
  }
  program_ = std::make_unique<Program>(code);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where it fails, the slower matcher runs
}

RegularExpression::~RegularExpression() = default;

void RegularExpression::find(std::string_view text, std::vector<TextRange>& matches) const {
  thread_local Workspace workspace;
  if (replace_newer_characters(text, workspace.replaced)) text = workspace.replaced;
  const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t at = 0, last_end = std::string_view::npos;
  while (at <= text.size()) {
    const int found = pcre2_match(program_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK,
                                  workspace.match, workspace.context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      throw std::runtime_error(
          fmt::format("a regular expression of the tokenizer fails at byte {} of {}: {}", at,
                      text.size(), message_of(found)));
    }
    const PCRE2_SIZE* const place = pcre2_get_ovector_pointer(workspace.match);
    const TextRange match{place[0], place[1]};
    if (match.begin == match.end && match.end == last_end) {  // nothing, right after a match
      if (at >= text.size()) break;
      at += first_code_point(text.substr(at)).length;
      continue;
    }
    matches.push_back(match);
    at = last_end = match.end;
  }
}

}  // namespace ssa
