// A value of a JSON file that knows where it stands, so that every refusal names file and field.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/token_id.h"

namespace ssa {

/// Refers to the value, which must outlive it. Every function throws std::runtime_error naming file
/// and field where the value is not what is asked for.
class JsonNode {
 public:
  using Value = nlohmann::json;

  JsonNode(const Value& value, std::string file, std::string field = {})
      : value_(&value), file_(std::move(file)), field_(std::move(field)) {}

  const Value& value() const { return *value_; }
  bool is_null() const;
  bool is_list() const;

  /// This object's member; an error if there is none.
  JsonNode at(std::string_view key) const;
  /// The same, null if there is none.
  JsonNode find(std::string_view key) const;
  std::vector<JsonNode> elements() const;
  std::vector<std::pair<std::string, JsonNode>> members() const;

  const std::string& text() const;
  /// The text, which must be one character (of UTF-8).
  const std::string& character() const;
  bool flag() const;
  double number() const;
  /// A whole number from 0 to `most`.
  std::size_t count(std::size_t most) const;
  TokenId id() const;

  /// An error that lists the fields of this object that are not `known`.
  void allow_only(std::initializer_list<std::string_view> known) const;
  /// The place of the text of "type" in `known`.
  std::size_t type(std::string_view part, std::span<const std::string_view> known) const;

  [[noreturn]] void refuse(const std::string& reason) const;
  [[noreturn]] void refuse_type(std::string_view expected) const;

 private:
  const Value& object() const;
  JsonNode child(std::string_view key, const Value& value) const;

  const Value* value_;
  std::string file_, field_;
};

/// The file's content. Throws std::runtime_error naming the file that cannot be read or is no JSON;
/// objects and lists may stand at most 64 deep in one another.
nlohmann::json parse_json_file(const std::filesystem::path& file);

}  // namespace ssa
