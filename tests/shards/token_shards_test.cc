#include "shards/token_shards.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "shards/token_shards_writer.h"
#include "temporary_folder.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;
using Places = std::vector<std::int64_t>;

class TokenShardsTest : public testing::Test {
 protected:
  TokenShardsTest() { fs::create_directories(folder_); }
  ~TokenShardsTest() override { fs::remove_all(folder_); }

  std::string read(const char* name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void write(const char* name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  /// Three documents of 2, 1 and 3 tokens: a.bin and a.idx.
  void write_shards(TokenType type = TokenType::uint16) const {
    TokenShardsWriter writer(prefix_, type);
    for (const std::vector<TokenId>& document :
         {std::vector<TokenId>{7, 50000}, {9}, {65535, 0, 1}}) {
      writer.add(document);
    }
    writer.finish();
  }

  /// The error without the folder; "no error".
  std::string error() const {
    try {
      const TokenShards shards(prefix_);
    } catch (const std::runtime_error& error) {
      return std::string(error.what()).substr(folder_.string().size() + 1);
    }
    return "no error";
  }

  fs::path folder_ = test::temporary_folder();
  fs::path prefix_ = folder_ / "a";
};

template <typename Number>
std::string with(std::string content, std::size_t place, Number number) {
  std::memcpy(content.data() + place, &number, sizeof(number));
  return content;
}

Places all(const TokenShards& shards) {
  Places ids(static_cast<std::size_t>(shards.tokens()));
  shards.copy(0, ids);
  return ids;
}

TEST_F(TokenShardsTest, RoundTrip) {
  for (const TokenType type : {TokenType::uint16, TokenType::int32}) {
    write_shards(type);
    const TokenShards shards(prefix_);
    EXPECT_EQ(shards.type(), type);
    ASSERT_EQ(shards.documents(), 3);
    ASSERT_EQ(shards.tokens(), 6);
    EXPECT_EQ(all(shards), (Places{7, 50000, 9, 65535, 0, 1}));
    EXPECT_EQ(shards.document(1).begin, 2);
    EXPECT_EQ(shards.document(2).begin, 3);
    EXPECT_EQ(shards.document(2).end, 6);
    Places middle(3);
    shards.copy(2, middle);
    EXPECT_EQ(middle, (Places{9, 65535, 0}));
    EXPECT_EQ(shards.document_starts({0, 6}), (Places{0, 2, 3}));
    EXPECT_EQ(shards.document_starts({1, 3}), (Places{2}));
    EXPECT_EQ(shards.document_starts({4, 6}), Places{});
    EXPECT_THROW(shards.copy(4, middle), std::invalid_argument);
    EXPECT_THROW(shards.copy(-1, middle), std::invalid_argument);
    EXPECT_THROW(shards.document(3), std::invalid_argument);
  }
}

TEST_F(TokenShardsTest, TheNarrowestType) {
  EXPECT_EQ(token_type_for(65536), TokenType::uint16);
  EXPECT_EQ(token_type_for(65537), TokenType::int32);
}

TEST_F(TokenShardsTest, Joined) {
  write_shards();
  const TokenShards shards(prefix_);
  TokenShardsWriter writer(folder_ / "b", TokenType::uint16);
  writer.append(shards);
  writer.add(std::vector<TokenId>{3});
  writer.append(shards);
  writer.finish();
  const TokenShards joined(folder_ / "b");
  EXPECT_EQ(all(joined), (Places{7, 50000, 9, 65535, 0, 1, 3, 7, 50000, 9, 65535, 0, 1}));
  EXPECT_EQ(joined.document_starts({0, 99}), (Places{0, 2, 3, 6, 7, 9, 10}));
  TokenShardsWriter other(folder_ / "c", TokenType::int32);
  EXPECT_THROW(other.append(shards), std::invalid_argument);
}

TEST_F(TokenShardsTest, NoDocument) {
  TokenShardsWriter(prefix_, TokenType::uint16).finish();
  const TokenShards shards(prefix_);
  EXPECT_EQ(shards.documents(), 0);
  EXPECT_EQ(shards.tokens(), 0);
  EXPECT_EQ(shards.document_starts({0, 9}), Places{});
}

TEST_F(TokenShardsTest, DocumentsOfSeveralSequences) {
  write_shards();
  std::string index = read("a.idx");  // 3 sequences, bounds 0 1 2 3
  index = with(index, 26, std::int64_t{3});
  index.resize(index.size() - 8);
  const std::size_t bounds = index.size() - 3 * 8;
  index = with(index, bounds + 8, std::int64_t{2});
  index = with(index, bounds + 16, std::int64_t{3});
  write("a.idx", index);
  const TokenShards shards(prefix_);
  ASSERT_EQ(shards.documents(), 2);
  EXPECT_EQ(shards.document(0).end, 3);
  EXPECT_EQ(shards.document_starts({0, 6}), (Places{0, 3}));
}

TEST_F(TokenShardsTest, DamageIsRefused) {
  write_shards();
  const std::string index = read("a.idx"), ids = read("a.bin");
  ASSERT_EQ(error(), "no error");
  for (std::size_t i = 0; i < index.size(); ++i) {
    std::string damaged = index;
    damaged[i] = static_cast<char>(~damaged[i]);
    write("a.idx", damaged);
    EXPECT_NE(error(), "no error") << "byte " << i;
    write("a.idx", index.substr(0, i));
    EXPECT_NE(error(), "no error") << "the first " << i << " bytes";
  }
  write("a.idx", index);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    write("a.bin", ids.substr(0, i));
    EXPECT_TRUE(error().starts_with("a.bin: has ")) << error();
  }
}

TEST_F(TokenShardsTest, ErrorsNameFileAndFault) {
  write_shards();
  const std::string index = read("a.idx"), ids = read("a.bin");
  const std::size_t sizes = 34, pointers = sizes + 3 * 4, bounds = pointers + 3 * 8;
  const auto error_of = [&](const std::string& content) {
    write("a.idx", content);
    return error();
  };
  EXPECT_EQ(error_of("MMIDIDX"), "a.idx: does not begin as a Megatron index does (MMIDIDX)");
  EXPECT_EQ(error_of(with(index, 9, std::uint64_t{2})),
            "a.idx: version 2 is not supported; supported: 1");
  EXPECT_EQ(error_of(with(index, 17, std::uint8_t{5})),
            "a.idx: type 5 of ids is not supported; supported: 4 (int32), 8 (uint16)");
  EXPECT_EQ(error_of(index + "x"),
            "a.idx: has 103 bytes, which is not right for 3 sequences and 4 bounds of documents");
  const std::uint64_t wraps = (std::uint64_t{1} << 62) + 3;  // 12 and 8 times this: as with 3
  EXPECT_TRUE(error_of(with(index, 18, wraps)).starts_with("a.idx: has 102 bytes"));
  EXPECT_TRUE(error_of(with(index, 26, wraps + 1)).starts_with("a.idx: has 102 bytes"));
  EXPECT_EQ(error_of(with(index, sizes + 4, std::int32_t{-1})), "a.idx: sequence 1 has -1 tokens");
  EXPECT_EQ(error_of(with(index, pointers + 8, std::int64_t{6})),
            "a.idx: sequence 1 begins at byte 6, expected 4");
  EXPECT_EQ(error_of(with(index, sizes + 8, std::int32_t{2})),
            "a.bin: has 12 bytes, but its .idx tells of 10");
  EXPECT_EQ(error_of(with(index, bounds, std::int64_t{1})),
            "a.idx: document 0 begins at sequence 1");
  EXPECT_EQ(error_of(with(index, bounds + 16, std::int64_t{0})),
            "a.idx: document 2 begins at sequence 0, not from 1 to 3");
  EXPECT_EQ(error_of(with(index, bounds + 24, std::int64_t{2})),
            "a.idx: documents end at sequence 2 of 3");
  write("a.idx", index);
  write("a.bin", ids + "xx");
  EXPECT_EQ(error(), "a.bin: has 14 bytes, but its .idx tells of 12");
  fs::remove(folder_ / "a.bin");
  EXPECT_EQ(error(), "a.bin: no such file");
}

}  // namespace
}  // namespace ssa
