#include "tokenizer/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "temporary_folder.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/small_tokenizer.h"

namespace ssa {
namespace {

using Ids = std::vector<TokenId>;
using Json = nlohmann::json;
namespace fs = std::filesystem;

class PipelineTest : public testing::Test {
 protected:
  PipelineTest() { fs::create_directories(folder_); }
  ~PipelineTest() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  Pipeline read(const Json& content) const {
    return Pipeline::read(write("tokenizer.json", content.dump()));
  }

  std::string error_of(const Json& content) const {
    try {
      read(content);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path folder_ = test::temporary_folder();
};

TokenId byte_id(char byte) { return 3 + static_cast<unsigned char>(byte); }

TEST_F(PipelineTest, EncodesAndDecodes) {
  const Pipeline tokenizer = read(small_tokenizer());
  EXPECT_EQ(tokenizer.size(), 263);
  EXPECT_EQ(tokenizer.find("Ġhell"), 262);
  EXPECT_EQ(tokenizer.find("<mask>"), 0);
  EXPECT_EQ(tokenizer.find("hell"), std::nullopt);
  const Ids ids = tokenizer.encode("HELLo he");
  EXPECT_EQ(ids, (Ids{1, 262, byte_id('o'), 261, 2}));
  EXPECT_EQ(tokenizer.encode("HELLo he", false), (Ids{262, byte_id('o'), 261}));
  EXPECT_EQ(tokenizer.decode(ids), " hello he");
  EXPECT_EQ(tokenizer.decode(ids, false), "<s> hello he</s>");
  EXPECT_EQ(tokenizer.encode(""), (Ids{1, 2}));
}

TEST_F(PipelineTest, AddedTokensInTheText) {
  const Pipeline tokenizer = read(small_tokenizer());
  EXPECT_EQ(tokenizer.encode("he <mask>ll</s>he", false), (Ids{261, 0, byte_id(' '), 260, 2, 261}));
  EXPECT_EQ(tokenizer.encode("<MASK>", false).size(), 7u) << "matched before lower case";
  Json normalized = small_tokenizer();
  normalized["added_tokens"][0]["normalized"] = true;
  EXPECT_EQ(read(normalized).encode("<MASK>", false), (Ids{0})) << "matched after it";
}

TEST_F(PipelineTest, SpecialTokensAsOrdinaryText) {
  const Pipeline tokenizer = read(small_tokenizer());
  const Ids ids = tokenizer.encode_ordinary("he <mask>ll</s>he");
  EXPECT_EQ(tokenizer.decode(ids), " he <mask>ll</s>he");
  EXPECT_TRUE(std::ranges::none_of(ids, [](TokenId id) { return id < 3; }));
  Json content = small_tokenizer();
  content["added_tokens"][0]["special"] = false;
  EXPECT_EQ(read(content).encode_ordinary("he<mask></s>"),
            (Ids{261, 0, byte_id(' '), byte_id('<'), byte_id('/'), byte_id('s'), byte_id('>')}));
}

TEST_F(PipelineTest, SpecialTokensInOrdinaryTextAreFoundIfAsked) {
  const fs::path file = write("tokenizer.json", small_tokenizer().dump());
  const auto found = find_special_tokens(read_tokenizer(file));
  EXPECT_EQ(found->encode_ordinary("he</s>he"), (Ids{261, 2, 261}));
  EXPECT_EQ(found->encode("he</s>he"), (Ids{1, 261, 2, 261, 2}));
  EXPECT_EQ(read_tokenizer(file)->encode_ordinary("he</s>he").size(), 6u);
  EXPECT_TRUE(found->is_special(2) && !found->is_special(261));
  EXPECT_EQ(found->decode(Ids{261, 2}), " he");
}

TEST_F(PipelineTest, EveryTextRoundTripsWithoutNormalizer) {
  Json content = small_tokenizer();
  content["normalizer"] = nullptr;
  content["pre_tokenizer"]["add_prefix_space"] = false;
  const Pipeline tokenizer = read(content);
  for (const std::string text : {"", " ", "\t\r\n", "Hello  he", "e\u0301", "👩\u200D🚀", "中文 Ⅷ"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  const std::string zero("he\0ll", 5);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(zero)), zero);
}

TEST_F(PipelineTest, BadTextAndBadIds) {
  const Pipeline tokenizer = read(small_tokenizer());
  const auto message = [](const auto& work) -> std::string {
    try {
      work();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { tokenizer.encode("he\xFFll"); }), "byte 3 (0xff) is not valid UTF-8");
  EXPECT_EQ(message([&] { tokenizer.decode(Ids{263}); }),
            "id 263 is not in the vocabulary, whose ids end at 262");
  EXPECT_EQ(message([&] { tokenizer.decode(Ids{-1}); }),
            "id -1 is not in the vocabulary, whose ids end at 262");
  EXPECT_EQ(tokenizer.decode(Ids{byte_id('\xC3'), byte_id('a')}), "�a");
}

TEST_F(PipelineTest, OtherFormsOfTheSame) {
  const Ids expected = read(small_tokenizer()).encode("Hello <mask>");
  Json content = small_tokenizer();
  content["model"]["merges"] = Json::parse(R"([["h","e"],["l","l"],["Ġ","he"],["Ġhe","ll"]])");
  EXPECT_EQ(read(content).encode("Hello <mask>"), expected);
  content["normalizer"] =
      Json::parse(R"({"type":"Sequence","normalizers":[{"type":"Lowercase"}]})");
  EXPECT_EQ(read(content).encode("Hello <mask>"), expected);
  content["post_processor"] = Json::parse(R"({"type":"TemplateProcessing",
      "single":[{"SpecialToken":{"id":"B","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
                {"SpecialToken":{"id":"E","type_id":0}}],"pair":[],
      "special_tokens":{"B":{"id":"B","ids":[1],"tokens":["<s>"]},"E":{"id":"E","ids":[2],"tokens":["</s>"]}}})");
  EXPECT_EQ(read(content).encode("Hello <mask>"), expected);
  content["post_processor"] = nullptr;
  EXPECT_EQ(read(content).encode("Hello <mask>"), Ids(expected.begin() + 1, expected.end() - 1));
}

TEST_F(PipelineTest, WordsAreNotSplitWithoutRegex) {
  Json content = small_tokenizer();
  content["pre_tokenizer"]["use_regex"] = false;
  content["model"]["vocab"]["oĠ"] = 263;
  content["model"]["merges"].push_back("o Ġ");
  EXPECT_EQ(read(content).encode("o x", false), (Ids{byte_id(' '), 263, byte_id('x')}));
}

TEST_F(PipelineTest, PairOfFiles) {
  Json vocab = small_tokenizer()["model"]["vocab"];
  vocab["<|endoftext|>"] = 263;
  const fs::path vocabulary = write("vocab.json", vocab.dump());
  const Pipeline tokenizer =
      Pipeline::read(vocabulary, write("merges.txt", "#version: 0.2\nh e\nl l\nĠ he\nĠhe ll\n"));
  EXPECT_EQ(tokenizer.encode("hell hell<|endoftext|>H"), (Ids{259, 260, 262, 263, byte_id('H')}));
  const auto error_of_merges = [&](const char* text) -> std::string {
    try {
      Pipeline::read(vocabulary, write("merges.txt", text));
    } catch (const std::runtime_error& error) {
      return fs::path(error.what()).filename();
    }
    return "no error";
  };
  EXPECT_EQ(error_of_merges("#version: 0.2\nh e\nhe\n"),
            "merges.txt:3: expected two tokens with a space between them, found \"he\"");
  EXPECT_EQ(error_of_merges("h o\n"), "merges.txt:1: \"ho\" is not in the vocabulary");
}

TEST_F(PipelineTest, WithoutDecoderTokensStandBetweenSpaces) {
  Json content = small_tokenizer();
  content["decoder"] = nullptr;
  EXPECT_EQ(read(content).decode(Ids{1, 261, 260}), "Ġhe ll");
}

TEST_F(PipelineTest, AVocabularyAloneIsToldFromATokenizer) {
  Json vocab = small_tokenizer()["model"]["vocab"];
  const Json words = {{"version", 300}, {"model", 301}};
  for (const Json& more : {Json::object(), words}) {
    vocab.update(more);
    const fs::path file = write("vocab.json", vocab.dump());
    try {
      Pipeline::read(file);
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(),
                file.string() +
                    ": is no tokenizer.json (it has no \"version\" and \"model\" of one); a "
                    "vocab.json needs its merges.txt beside it (--merges, task.merges)");
    }
  }
}

TEST_F(PipelineTest, MergesOfWindowsAreTheSame) {
  const fs::path vocabulary = write("vocab.json", small_tokenizer()["model"]["vocab"].dump());
  const Pipeline tokenizer = Pipeline::read(
      vocabulary,
      write("merges.txt", "\xEF\xBB\xBF#version: 0.2\r\nh e\r\nl l\r\nĠ he\r\nĠhe ll\r\n"));
  EXPECT_EQ(tokenizer.encode("hell hell"), (Ids{259, 260, 262}));
}

TEST_F(PipelineTest, JsonThatIsNestedDeeplyIsRefused) {
  const std::string deep(100000, '[');
  EXPECT_THROW(Pipeline::read(write("deep.json", deep)), std::runtime_error);
  Json content = small_tokenizer();
  for (int i = 0; i < 80; ++i) {
    content["normalizer"] = {{"type", "Sequence"}, {"normalizers", {content["normalizer"]}}};
  }
  EXPECT_NE(error_of(content).find("64 deep"), std::string::npos) << error_of(content);
}

struct BadFile {
  const char* pointer;
  const char* value;  ///< nullptr: the member is removed
  const char* message;
};

const BadFile kBadFiles[] = {
    {"/version", "\"2.0\"", "version: expected \"1.0\", found \"2.0\""},
    {"/extra", "1", "unknown field \"extra\"; supported: version, "},
    {"/model", nullptr, "\"model\" is missing"},
    {"/model/type", "\"Other\"",
     "model.type: model type \"Other\" is not supported; supported: BPE, WordPiece, WordLevel, "
     "Unigram"},
    {"/model/dropout", "0.1", "model.dropout: 0.1 is not supported; supported: null or 0.0"},
    {"/model/unk_token", "\"<unk>\"", "model.unk_token: \"<unk>\" is not in the vocabulary"},
    {"/model/surprise", "1", "model: unknown field \"surprise\""},
    {"/model/vocab", "[]", "model.vocab: expected an object, found []"},
    {"/model/vocab", "{}", "model.vocab: is empty"},
    {"/model/vocab/he", "-1", "model.vocab.he: expected an id from 0 to 16777215, found -1"},
    {"/model/vocab/he", "1.5", "model.vocab.he: expected an id"},
    {"/model/vocab/he", "99999999999999999999", "model.vocab.he: expected an id"},
    {"/model/vocab/ll", "259", "model.vocab.ll: id 259 is given twice"},
    {"/model/merges", "{}", "model.merges: expected a list"},
    {"/model/merges/1", "\"l  l\"", "model.merges[1]: expected two tokens with a space between"},
    {"/model/merges/1", "[\"l\"]", "model.merges[1]: expected two tokens"},
    {"/model/merges/1", "\"o o\"", "model.merges[1]: \"oo\" is not in the vocabulary"},
    {"/normalizer", "{\"type\":\"Other\"}",
     "normalizer.type: normalizer type \"Other\" is not supported; supported: BertNormalizer, "},
    {"/normalizer", "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\"}]}",
     "normalizer.normalizers[0]: \"strip_left\" is missing"},
    {"/normalizer", "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\\\\b\"},\"content\":\"\"}",
     "normalizer.pattern.Regex: \\b in the regular expression \"a\\b\" is not supported"},
    {"/normalizer", "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}",
     "normalizer.precompiled_charsmap: is no map of characters"},
    {"/pre_tokenizer/type", "\"UnicodeScripts\"",
     "pre_tokenizer.type: pre-tokenizer type \"UnicodeScripts\" is not supported; supported: "},
    {"/pre_tokenizer/add_prefix_space", "1",
     "pre_tokenizer.add_prefix_space: expected true or false"},
    {"/post_processor/type", "\"Other\"",
     "post_processor.type: post-processor type \"Other\" is not supported; supported: Bert"},
    {"/post_processor/cls/1", "2", "post_processor.cls: \"<s>\" does not have the id 2"},
    {"/post_processor", "{\"type\":\"TemplateProcessing\",\"single\":[],\"special_tokens\":{}}",
     "post_processor.single: the text A is missing"},
    {"/decoder/type", "\"CTC\"",
     "decoder.type: decoder type \"CTC\" is not supported; supported: "},
    {"/added_tokens/1/id", "7", "added_tokens[1].id: 7: the vocabulary gives \"<s>\" the id 1"},
    {"/added_tokens/1/content", "\"new\"",
     "added_tokens[1].id: 1: the vocabulary gives \"new\" the id 263"},
    {"/added_tokens/1/content", "\"\"", "added_tokens[1]: \"content\" is empty"},
    {"/added_tokens/1/content", "\"<mask>\"", "added_tokens[1]: \"<mask>\" is there twice"},
    {"/added_tokens/1/special", nullptr, "added_tokens[1]: \"special\" is missing"},
};

TEST_F(PipelineTest, WhatIsNotUnderstoodIsRefusedByName) {
  ASSERT_EQ(error_of(small_tokenizer()), "no error");
  for (const BadFile& bad : kBadFiles) {
    Json content = small_tokenizer();
    const Json::json_pointer pointer(bad.pointer);
    if (bad.value == nullptr) {
      content[pointer.parent_pointer()].erase(pointer.back());
    } else {
      content[pointer] = Json::parse(bad.value);
    }
    const std::string expected = (folder_ / "tokenizer.json").string() + ": " + bad.message;
    EXPECT_TRUE(error_of(content).starts_with(expected))
        << bad.pointer << "\n  is  " << error_of(content) << "\n  not " << expected;
  }
  const fs::path broken = write("broken.json", "{\"version\": ");
  EXPECT_THROW(Pipeline::read(broken), std::runtime_error);
  EXPECT_THROW(Pipeline::read(folder_), std::runtime_error);
  EXPECT_THROW(Pipeline::read(folder_ / "absent.json"), std::runtime_error);
}

}  // namespace
}  // namespace ssa
