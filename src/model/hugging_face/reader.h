// A foreign config.json, read field by field: each one is understood, known to be without effect,
// or refused.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"

namespace ssa {

/// Whatever is wrong is said with file and field. Every getter notes that its field is understood.
class ConfigReader {
 public:
  /// `config` must outlive the reader. `path` stands before the names of fields in messages
  /// ("rope_parameters." of an object within the file). Throws std::runtime_error unless it is an
  /// object.
  ConfigReader(std::string file, const Json& config, std::string path = "");

  [[noreturn]] void fail(const std::string& what) const;

  /// Whether the field stands there and is not null.
  bool has(std::string_view key) const;
  /// The value as it stands; null where there is none.
  const Json& value(std::string_view key) const;

  /// Values that must stand there. A number with a fraction is no whole number, 1 is no truth
  /// value.
  std::int64_t whole(std::string_view key) const;
  double number(std::string_view key) const;
  std::string text(std::string_view key) const;

  /// Values that may be missing or null.
  std::int64_t whole(std::string_view key, std::int64_t otherwise) const;
  double number(std::string_view key, double otherwise) const;
  bool truth(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, const std::string& otherwise) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;

  /// A field that must have that value where it stands. `nearest` says what is supported instead.
  void require(std::string_view key, const Json& value, const std::string& nearest = "") const;

  /// A reader of an object within the file, whose field is `key`; `object` must outlive it.
  ConfigReader inner(std::string_view key, const Json& object) const;

  /// Fields that change nothing of what this program computes, whatever they hold.
  void without_effect(std::span<const std::string_view> keys) const;

  /// Throws std::runtime_error naming the first field that is neither understood nor without
  /// effect. Null asks for nothing.
  void refuse_unknown() const;

 private:
  template <class T>
  [[noreturn]] void wrong_type(std::string_view key, const T& expected) const;

  std::string file_, path_;
  const Json& config_;
  mutable std::set<std::string, std::less<>> understood_;
};

}  // namespace ssa
