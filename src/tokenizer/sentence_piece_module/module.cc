#include <sentencepiece_processor.h>

#include <stdexcept>

#include "tokenizer/sentence_piece_module/model.h"

namespace ssa {
namespace {

void check(const sentencepiece::util::Status& status) {
  if (!status.ok())
    throw std::runtime_error(std::string("sentencepiece: ") + status.error_message());
}

class Model : public SentencePieceModel {
 public:
  bool read(std::string_view bytes) {
    try {
      return !bytes.empty() && processor_.LoadFromSerializedProto(bytes).ok();
    } catch (const std::exception&) {  // of the library that builds its trees
      return false;
    }
  }
  std::vector<int> encode(std::string_view text) const override {
    std::vector<int> ids;
    check(processor_.Encode(text, &ids));
    return ids;
  }
  std::string decode(const std::vector<int>& ids) const override {
    std::string text;
    check(processor_.Decode(ids, &text));
    return text;
  }
  bool is_control(int id) const override { return processor_.IsControl(id); }
  std::string piece(int id) const override { return processor_.IdToPiece(id); }
  int id(std::string_view piece) const override { return processor_.PieceToId(piece); }
  int size() const override { return processor_.GetPieceSize(); }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace
}  // namespace ssa

extern "C" __attribute__((visibility("default"))) ssa::SentencePieceModel* ssa_read_sentence_piece(
    std::string_view bytes) {
  auto model = std::make_unique<ssa::Model>();
  return model->read(bytes) ? model.release() : nullptr;
}
