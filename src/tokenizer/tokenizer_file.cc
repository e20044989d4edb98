// Reading tokenizer.json, and vocab.json with merges.txt. Whatever is not understood is an error:
// a field that is passed over would mean other ids.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "files/json.h"
#include "tokenizer/byte_pair_tokenizer.h"

namespace ssa {
namespace fs = std::filesystem;
namespace {

using Value = SortedJson;  // Json keeps the order: quadratic in 50 000 keys
using Names = std::initializer_list<std::string_view>;

constexpr const char* kEndOfText = "<|endoftext|>";

std::string read_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!fs::is_regular_file(file) || !stream) {
    throw std::runtime_error(
        fmt::format("{}: {}", file.string(),
                    fs::is_directory(file) ? "is a folder, not a file" : "no such file"));
  }
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A value of the file and where it stands.
class Node {
 public:
  Node(const Value& value, std::string file, std::string field)
      : value_(&value), file_(std::move(file)), field_(std::move(field)) {}

  [[noreturn]] void refuse(const std::string& reason) const {
    throw std::runtime_error(
        fmt::format("{}: {}{}{}", file_, field_, field_.empty() ? "" : ": ", reason));
  }

  const Value& value() const { return *value_; }
  bool is_null() const { return value_->is_null(); }

  /// This object's member; an error if there is none.
  Node at(std::string_view key) const {
    const auto found = object().find(key);
    if (found == value_->end()) refuse(fmt::format("\"{}\" is missing", key));
    return child(key, *found);
  }

  /// The same, null if there is none.
  Node find(std::string_view key) const {
    static const Value null;
    const auto found = object().find(key);
    return child(key, found == value_->end() ? null : *found);
  }

  std::vector<Node> elements() const {
    if (!value_->is_array()) refuse_type("a list");
    std::vector<Node> nodes;
    for (std::size_t i = 0; i < value_->size(); ++i) {
      nodes.emplace_back((*value_)[i], file_, fmt::format("{}[{}]", field_, i));
    }
    return nodes;
  }

  std::vector<std::pair<std::string, Node>> members() const {
    std::vector<std::pair<std::string, Node>> nodes;
    for (const auto& [key, member] : object().items()) nodes.emplace_back(key, child(key, member));
    return nodes;
  }

  const std::string& text() const {
    if (!value_->is_string()) refuse_type("a string");
    return value_->get_ref<const std::string&>();
  }

  bool flag() const {
    if (!value_->is_boolean()) refuse_type("true or false");
    return value_->get<bool>();
  }

  TokenId id() const {
    constexpr TokenId kMost = (1 << 24) - 1;  // no vocabulary is that large; tables are by id
    if (!value_->is_number_integer() || value_->get<double>() < 0 ||
        value_->get<double>() > kMost) {
      refuse_type(fmt::format("an id from 0 to {}", kMost));
    }
    return value_->get<TokenId>();
  }

  void allow_only(Names known) const {
    for (const auto& [key, member] : object().items()) {
      if (std::ranges::find(known, key) == known.end()) {
        refuse(fmt::format("unknown field \"{}\"; supported: {}", key, fmt::join(known, ", ")));
      }
    }
  }

  /// The text of "type", one of `known`.
  std::string type(Names known) const {
    const Node type = at("type");
    if (std::ranges::find(known, type.text()) == known.end()) {
      type.refuse(fmt::format("\"{}\" is not supported; supported: {}", type.text(),
                              fmt::join(known, ", ")));
    }
    return type.text();
  }

  [[noreturn]] void refuse_type(std::string_view expected) const {
    std::string found = value_->dump();
    if (found.size() > 40) found = found.substr(0, 40) + "…";
    refuse(fmt::format("expected {}, found {}", expected, found));
  }

 private:
  const Value& object() const {
    if (!value_->is_object()) refuse_type("an object");
    return *value_;
  }

  Node child(std::string_view key, const Value& value) const {
    return {value, file_, field_.empty() ? std::string(key) : fmt::format("{}.{}", field_, key)};
  }

  const Value* value_;
  std::string file_, field_;
};

Value parse_file(const fs::path& file) { return read_json<Value>(file); }

void read_vocabulary(const Node& vocab, TokenizerSpec& spec) {
  std::set<TokenId> used;
  for (const auto& [token, node] : vocab.members()) {
    if (!used.insert(node.id()).second) node.refuse(fmt::format("id {} is given twice", node.id()));
    spec.vocabulary.emplace(token, node.id());
  }
  if (spec.vocabulary.empty()) vocab.refuse("is empty");
}

/// The two tokens of "left right". This and add_merge() call `refuse`, which throws its argument
/// with the place of the merge.
template <class Refuse>
std::pair<std::string, std::string> split_merge(const std::string& text, const Refuse& refuse) {
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    refuse(fmt::format("expected two tokens with a space between them, found \"{}\"", text));
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

template <class Refuse>
void add_merge(const std::string& left, const std::string& right, const Refuse& refuse,
               TokenizerSpec& spec) {
  const auto id_of = [&](const std::string& token) {
    const auto found = spec.vocabulary.find(token);
    if (found == spec.vocabulary.end()) {
      refuse(fmt::format("\"{}\" is not in the vocabulary", token));
    }
    return found->second;
  };
  spec.merges.push_back({id_of(left), id_of(right), id_of(left + right)});
}

void read_merges(const Node& merges, TokenizerSpec& spec) {
  for (const Node& merge : merges.elements()) {
    const auto refuse = [&](const std::string& reason) { merge.refuse(reason); };
    if (merge.value().is_array()) {
      const auto both = merge.elements();
      if (both.size() != 2) merge.refuse_type("two tokens");
      add_merge(both[0].text(), both[1].text(), refuse, spec);
    } else {
      const auto [left, right] = split_merge(merge.text(), refuse);
      add_merge(left, right, refuse, spec);
    }
  }
}

/// Throws unless the field is absent, null or one of `harmless`.
void require_unused(const Node& parent, std::string_view key,
                    std::initializer_list<Value> harmless) {
  const Node node = parent.find(key);
  if (node.is_null() || std::ranges::find(harmless, node.value()) != harmless.end()) return;
  node.refuse(fmt::format("{} is not supported; supported: null{}", node.value().dump(),
                          harmless.size() == 0 ? "" : " or " + harmless.begin()->dump()));
}

void read_model(const Node& model, TokenizerSpec& spec) {
  model.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix",
                    "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                    "merges"});
  // Files of early versions do not name the type of a BPE.
  if (!model.find("type").is_null()) model.type({"BPE"});
  require_unused(model, "dropout", {0.0});
  require_unused(model, "continuing_subword_prefix", {""});
  require_unused(model, "end_of_word_suffix", {""});
  require_unused(model, "byte_fallback", {false});
  require_unused(model, "ignore_merges", {false});
  read_vocabulary(model.at("vocab"), spec);
  read_merges(model.at("merges"), spec);
  const Node unknown = model.find("unk_token");
  const Node fuse = model.find("fuse_unk");
  if (unknown.is_null()) return;
  const auto found = spec.vocabulary.find(unknown.text());
  if (found == spec.vocabulary.end()) {
    unknown.refuse(fmt::format("\"{}\" is not in the vocabulary", unknown.text()));
  }
  spec.unknown = UnknownByte{found->second, !fuse.is_null() && fuse.flag()};
}

/// Ids must be those that `tokenizers` would give: the vocabulary's, or the next ones after it.
void read_added_tokens(const Node& list, TokenizerSpec& spec) {
  auto next = static_cast<TokenId>(spec.vocabulary.size());
  std::set<std::string> contents;
  for (const Node& node : list.elements()) {
    node.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    require_unused(node, "single_word", {false});
    AddedToken token;
    token.content = node.at("content").text();
    token.id = node.at("id").id();
    token.special = node.at("special").flag();
    token.normalized = node.at("normalized").flag();
    token.lstrip = node.at("lstrip").flag();
    token.rstrip = node.at("rstrip").flag();
    if (token.content.empty()) node.refuse("\"content\" is empty");
    if (!contents.insert(token.content).second) {
      node.refuse(fmt::format("\"{}\" is there twice", token.content));
    }
    const auto found = spec.vocabulary.find(token.content);
    const TokenId expected = found == spec.vocabulary.end() ? next++ : found->second;
    if (token.id != expected) {
      node.at("id").refuse(fmt::format("{}: the vocabulary gives \"{}\" the id {}", token.id,
                                       token.content, expected));
    }
    spec.added.push_back(std::move(token));
  }
}

void read_normalizer(const Node& node, TokenizerSpec& spec) {
  if (node.is_null()) return;
  if (node.type({"Lowercase", "Sequence"}) == "Lowercase") {
    node.allow_only({"type"});
    spec.lowercase = true;
    return;
  }
  node.allow_only({"type", "normalizers"});
  for (const Node& part : node.at("normalizers").elements()) read_normalizer(part, spec);
}

void read_pre_tokenizer(const Node& node, TokenizerSpec& spec) {
  if (node.is_null()) node.refuse("null is not supported; supported: ByteLevel");
  node.type({"ByteLevel"});
  node.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  spec.add_prefix_space = node.at("add_prefix_space").flag();
  const Node use_regex = node.find("use_regex");  // of early versions, which always did
  spec.split_words = use_regex.is_null() || use_regex.flag();
}

/// [token, id] of RobertaProcessing.
TokenId read_token_and_id(const Node& pair, const TokenizerSpec& spec) {
  const auto both = pair.elements();
  if (both.size() != 2) pair.refuse_type("a token and its id");
  if (spec.find(both[0].text()) != both[1].id()) {
    pair.refuse(fmt::format("\"{}\" does not have the id {}", both[0].text(), both[1].id()));
  }
  return both[1].id();
}

void read_template(const Node& node, TokenizerSpec& spec) {
  node.allow_only({"type", "single", "pair", "special_tokens"});
  bool after_text = false;
  for (const Node& item : node.at("single").elements()) {
    item.allow_only({"Sequence", "SpecialToken"});
    const Node text = item.find("Sequence");
    if (!text.is_null()) {
      if (after_text || text.at("id").text() != "A") text.refuse_type("the text A, once");
      after_text = true;
      continue;
    }
    const Node name = item.at("SpecialToken").at("id");
    const Node token = node.at("special_tokens").at(name.text());
    const auto ids = token.at("ids").elements();
    const auto tokens = token.at("tokens").elements();
    if (ids.size() != tokens.size()) token.refuse("\"ids\" and \"tokens\" differ in length");
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (spec.find(tokens[i].text()) != ids[i].id()) {
        ids[i].refuse(fmt::format("\"{}\" does not have the id {}", tokens[i].text(), ids[i].id()));
      }
      (after_text ? spec.suffix : spec.prefix).push_back(ids[i].id());
    }
  }
  if (!after_text) node.at("single").refuse("the text A is missing");
}

void read_post_processor(const Node& node, TokenizerSpec& spec) {
  if (node.is_null()) return;
  const std::string type = node.type({"RobertaProcessing", "TemplateProcessing", "ByteLevel"});
  if (type == "TemplateProcessing") {
    read_template(node, spec);
  } else if (type == "RobertaProcessing") {
    node.allow_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    spec.prefix = {read_token_and_id(node.at("cls"), spec)};
    spec.suffix = {read_token_and_id(node.at("sep"), spec)};
  }  // ByteLevel changes offsets only
}

}  // namespace

BytePairTokenizer BytePairTokenizer::read(const fs::path& file) {
  const Value content = parse_file(file);
  const Node root(content, file.string(), "");
  root.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer",
                   "pre_tokenizer", "post_processor", "decoder", "model"});
  if (root.at("version").text() != "1.0") root.at("version").refuse_type("\"1.0\"");
  TokenizerSpec spec;
  read_model(root.at("model"), spec);
  read_added_tokens(root.at("added_tokens"), spec);
  read_normalizer(root.at("normalizer"), spec);
  read_pre_tokenizer(root.at("pre_tokenizer"), spec);
  read_post_processor(root.at("post_processor"), spec);
  const Node decoder = root.at("decoder");
  if (!decoder.is_null()) decoder.type({"ByteLevel"});
  spec.can_decode = !decoder.is_null();
  const Node truncation = root.find("truncation");
  if (!truncation.is_null()) spec.max_length = truncation.at("max_length").id();
  return BytePairTokenizer(std::move(spec));
}

BytePairTokenizer BytePairTokenizer::read(const fs::path& vocabulary, const fs::path& merges) {
  const Value content = parse_file(vocabulary);
  TokenizerSpec spec;
  read_vocabulary(Node(content, vocabulary.string(), ""), spec);
  std::istringstream lines(read_text(merges));
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.starts_with("#version")) continue;
    const auto refuse = [&](const std::string& reason) {
      throw std::runtime_error(fmt::format("{}:{}: {}", merges.string(), number, reason));
    };
    const auto [left, right] = split_merge(line, refuse);
    add_merge(left, right, refuse, spec);
  }
  if (const auto end = spec.find(kEndOfText)) {
    spec.added.push_back({.content = kEndOfText, .id = *end, .special = true});
  }
  return BytePairTokenizer(std::move(spec));
}

}  // namespace ssa
