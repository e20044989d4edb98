// Text from a language model, token by token.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace ssa {

/// How the next token follows from its logits, in this order: the top_k largest (0 = all), divided
/// by the temperature, the likeliest whose probabilities reach top_p together (Holtzman et al.
/// 2020, arXiv 1904.09751). Temperature 0: the largest, of equal ones the first.
struct Sampling {
  double temperature = 1.0;
  std::int64_t top_k = 0;
  double top_p = 1.0;
  std::uint64_t seed = 1;
};

/// The id drawn for place `place` of the text of prompt number `prompt`: a pure function of its
/// arguments. logits: (vocabulary), finite.
TokenId sample_token(const torch::Tensor& logits, const Sampling& sampling, std::int64_t prompt,
                     std::int64_t place);

/// Where a text ended.
enum class Ending { end_token, stop_text, most_tokens, max_positions, interrupted };
const char* ending_name(Ending ending);  ///< "end token"

struct GenerationOptions {
  Sampling sampling = {};
  std::int64_t most_tokens = 200;
  std::vector<std::string> stop = {};  ///< texts that end it, and are left out of it; none is empty
  std::optional<TokenId> end = {};     ///< the token that ends it, and is left out of it
  bool cache = true;                   ///< keep keys and values; without, all is read anew
};

struct GeneratedText {
  std::string text;
  std::int64_t tokens = 0;  ///< drawn, those left out of the text included
  Ending ending = Ending::most_tokens;
};

/// Goes on after each prompt (at least one token), with ids that the tokenizer has: a token of
/// every text in each pass, until all have ended. The weights are read once a pass, which is most
/// of its time. `first_number` is that of the first prompt (sample_token). `show` gets the texts
/// piece by piece, in whole characters and never the beginning of a stop text that may yet come;
/// returning false ends that text. Throws std::invalid_argument for a prompt longer than
/// max_positions, std::runtime_error for logits that are not finite.
std::vector<GeneratedText> generate(
    Model& model, const ModelConfig& config, const Tokenizer& tokenizer,
    std::span<const std::vector<TokenId>> prompts, std::int64_t first_number,
    const GenerationOptions& options,
    const std::function<bool(std::size_t prompt, const std::string& piece)>& show);

}  // namespace ssa
