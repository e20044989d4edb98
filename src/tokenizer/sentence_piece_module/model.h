// SentencePiece's own library, in a module that is loaded where a model of it is read.
//
// Debian's libsentencepiece 0.1.97 and torch's libc10 both define FLAGS_minloglevel: an object of
// 32 bytes there, an int here. In one program the linker makes them one, and the object's
// constructor writes over what follows the int: a flag of torch that turns failed allocations into
// an abort. Opened with RTLD_DEEPBIND, the library finds its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ssa {

/// A model as sentencepiece::SentencePieceProcessor has it. Functions throw std::runtime_error with
/// the library's words where it fails.
class SentencePieceModel {
 public:
  virtual ~SentencePieceModel() = default;
  virtual std::vector<int> encode(std::string_view text) const = 0;
  virtual std::string decode(const std::vector<int>& ids) const = 0;
  virtual bool is_control(int id) const = 0;
  virtual std::string piece(int id) const = 0;
  virtual int id(std::string_view piece) const = 0;  ///< of <unk> where there is no such piece
  virtual int size() const = 0;
};

/// What the module exports, as "ssa_read_sentence_piece": the model of those bytes (a .model file),
/// or null where they are none.
using ReadSentencePiece = SentencePieceModel*(std::string_view bytes);

}  // namespace ssa
