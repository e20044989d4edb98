#include "files/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "temporary_folder.h"

namespace ssa {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_json(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(Json, DeepNestingIsRefusedBeforeAnythingWalksOverIt) {
  EXPECT_EQ(error_of(nested(kMostJsonDepth)), "");
  EXPECT_EQ(error_of(nested(kMostJsonDepth + 1)), "JSON nested more than 64 deep (byte 65)");
  EXPECT_EQ(error_of(nested(80000)), "JSON nested more than 64 deep (byte 65)");
  std::string objects;
  for (int i = 0; i < 80000; ++i) objects += "{\"a\":";
  EXPECT_EQ(error_of(objects), "JSON nested more than 64 deep (byte 321)");
  EXPECT_EQ(error_of("\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\""), "");
  EXPECT_EQ(error_of("[" + std::string(2000, ' ') + "[],[],{}]"), "");
}

TEST(Json, EveryErrorIsOfOneKind) {
  EXPECT_EQ(error_of("[1e400]"), "JSON with a number that is too large");
  EXPECT_EQ(error_of("[1, 2"), "not valid JSON (byte 6)");
  EXPECT_EQ(error_of("\"\xFF\""), "not valid JSON (byte 2)");
  EXPECT_EQ(error_of(""), "not valid JSON (byte 1)");
  EXPECT_THROW(parse_json<SortedJson>("1e400"), std::invalid_argument);
}

TEST(Json, FilesAreNamedAndMayBeginWithAByteOrderMark) {
  const auto file = test::temporary_folder().string() + ".json";
  std::ofstream(file) << "\xEF\xBB\xBF{\"a\": 1}";
  EXPECT_EQ(read_json(file), Json({{"a", 1}}));
  std::ofstream(file) << nested(80000);
  try {
    read_json(file);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), file + ": JSON nested more than 64 deep (byte 65)");
  }
  std::filesystem::remove(file);
  EXPECT_THROW(read_json(file), std::runtime_error);
}

TEST(Json, FieldsAreOfTheirTypes) {
  const Json value = parse_json(R"({"n": 2.5, "i": 3, "s": "x", "big": 18446744073709551615})");
  EXPECT_EQ(json_field<std::int64_t>(value, "i", "f"), 3);
  EXPECT_EQ(json_field<double>(value, "n", "f"), 2.5);
  EXPECT_EQ(json_field<std::string>(value, "s", "f"), "x");
  const auto error = [&](auto read) -> std::string {
    try {
      read();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error([&] { json_field<std::int64_t>(value, "n", "f"); }),
            "f: field \"n\": expected a whole number, found 2.5");
  EXPECT_EQ(error([&] { json_field<std::int64_t>(value, "big", "f"); }),
            "f: field \"big\": expected a whole number, found 18446744073709551615");
  EXPECT_EQ(error([&] { json_field<bool>(value, "none", "f"); }), "f: field \"none\" is missing");
  EXPECT_EQ(error([&] { json_field<bool>(Json(3), "x", "f"); }), "f: field \"x\" is missing");
}

TEST(Json, NamesThatAreNoUtf8CanBeWritten) { EXPECT_EQ(json_text("a\xFF"), "\"a\xEF\xBF\xBD\""); }

}  // namespace
}  // namespace ssa
