// The safetensors format (huggingface/safetensors, "Format"): 8 bytes of little-endian header
// length, a JSON header {name: {dtype, shape, data_offsets}, "__metadata__": {…}}, then the raw
// data.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ssa {

struct TensorFile {
  std::vector<std::pair<std::string, torch::Tensor>> tensors;
  std::map<std::string, std::string> metadata;

  /// The tensor of that name; undefined if there is none.
  torch::Tensor find(const std::string& name) const;
};

/// Writes and syncs `file`, in the place of one that is there (not atomically: checkpoints are
/// renamed as whole folders). Tensors of
/// any strides and device; float64/32/16, bfloat16, int64/32/16/8, uint8, bool. Throws
/// std::runtime_error naming the file, or the tensor whose type has no place in the format.
void write_safetensors(const std::filesystem::path& file, const TensorFile& content);

/// The metadata of a file alone. Throws like read_safetensors for a header that is none.
std::map<std::string, std::string> read_safetensors_metadata(const std::filesystem::path& file);

/// Reads a whole file; tensors come in the order of their data. Throws std::runtime_error naming
/// the file and what is wrong with it: length, header, an unknown dtype, a shape or an offset that
/// does not fit, data that overlap or that no tensor claims.
TensorFile read_safetensors(const std::filesystem::path& file);

}  // namespace ssa
