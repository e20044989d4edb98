#include "tokenizer/sentence_piece.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>

#include "files/byte_stream.h"
#include "ssa/check.h"
#include "tokenizer/sentence_piece_check.h"
#include "tokenizer/sentence_piece_module/model.h"
#include "tokenizer/unicode.h"

namespace ssa {
namespace {

constexpr const char* kModule =
    "libssa_sentence_piece.so";  ///< found by rpath (src/CMakeLists.txt)

ReadSentencePiece* load_module() {
#ifdef __SANITIZE_ADDRESS__  // refuses RTLD_DEEPBIND
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;
#else
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif
  void* const module = dlopen(kModule, kFlags);  // for as long as the program runs
  void* const function = module == nullptr ? nullptr : dlsym(module, "ssa_read_sentence_piece");
  if (function == nullptr) {
    throw std::runtime_error(fmt::format("models of SentencePiece cannot be read: {}", dlerror()));
  }
  return reinterpret_cast<ReadSentencePiece*>(function);
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(const std::filesystem::path& file) {
  static ReadSentencePiece* const read = load_module();
  const std::string bytes = read_bytes(file);
  const auto refuse = [&](std::string_view reason) {
    throw std::runtime_error(fmt::format("{}: is not a model of SentencePiece, or a damaged one{}",
                                         file.string(), reason));
  };
  try {
    check_sentence_piece(bytes);
  } catch (const std::invalid_argument& error) {
    refuse(fmt::format(" ({})", error.what()));
  }
  model_.reset(read(bytes));
  if (model_ == nullptr) refuse("");
}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

std::vector<TokenId> SentencePieceTokenizer::encode(std::string_view text, bool) const {
  return encode_ordinary(text);
}

std::vector<TokenId> SentencePieceTokenizer::encode_ordinary(std::string_view text) const {
  check_utf8(text);  // the library would replace what is not
  return model_->encode(text);
}

std::string SentencePieceTokenizer::decode(std::span<const TokenId> ids,
                                           bool skip_special_tokens) const {
  std::string text;
  std::vector<int> run;
  const auto end_run = [&] {
    text += model_->decode(run);
    run.clear();
  };
  for (const TokenId id : ids) {
    SSA_CHECK(id >= 0 && id < size(),
              "id " << id << " is not in the vocabulary, whose ids end at " << size() - 1);
    if (!model_->is_control(id)) {
      run.push_back(id);
    } else if (!skip_special_tokens) {  // the library always leaves them out
      end_run();
      text += model_->piece(id);
    }
  }
  end_run();
  return text;
}

std::optional<TokenId> SentencePieceTokenizer::find(std::string_view token) const {
  const int id = model_->id(token);
  if (model_->piece(id) != token) return std::nullopt;
  return id;
}

bool SentencePieceTokenizer::is_special(TokenId id) const { return model_->is_control(id); }

TokenId SentencePieceTokenizer::size() const { return model_->size(); }

}  // namespace ssa
