#include "run/safetensors.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstring>
#include <fstream>

namespace ssa {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

namespace fs = std::filesystem;

class Safetensors : public testing::Test {
 protected:
  void TearDown() override { fs::remove(file_); }

  void write_bytes(const std::string& header, std::size_t data_bytes) {
    std::ofstream out(file_, std::ios::binary);
    const std::uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), sizeof(length));
    out << header << std::string(data_bytes, '\0');
  }

  std::string error_reading() {
    try {
      read_safetensors(file_);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  fs::path file_ =
      fs::path(testing::TempDir()) /
      (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".safetensors");
};

TEST_F(Safetensors, EveryTypeAndShapeSurvives) {
  TensorFile content;
  content.metadata = {{"format", "pt"}, {"step", "7"}};
  for (const auto dtype :
       {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16, torch::kInt64,
        torch::kInt32, torch::kInt16, torch::kInt8, torch::kUInt8, torch::kBool}) {
    content.tensors.emplace_back(std::string("t.") + c10::toString(dtype),
                                 torch::arange(3).reshape({3, 1}).to(dtype));
  }
  content.tensors.emplace_back("scalar", torch::tensor(2.5));
  content.tensors.emplace_back("empty", torch::empty({0, 4}));
  content.tensors.emplace_back("transposed", torch::arange(6.0).reshape({2, 3}).t());
  content.tensors.emplace_back("not \"finite\"", torch::tensor({NAN, -INFINITY, -0.0F}));
  write_safetensors(file_, content);
  const TensorFile read = read_safetensors(file_);
  EXPECT_EQ(read.metadata, content.metadata);
  ASSERT_EQ(read.tensors.size(), content.tensors.size());
  for (const auto& [name, tensor] : content.tensors) {
    const torch::Tensor found = read.find(name);
    ASSERT_TRUE(found.defined()) << name;
    EXPECT_EQ(found.scalar_type(), tensor.scalar_type()) << name;
    ASSERT_EQ(found.sizes(), tensor.sizes()) << name;
    const torch::Tensor expected = tensor.contiguous();
    EXPECT_EQ(0, std::memcmp(found.const_data_ptr(), expected.const_data_ptr(), expected.nbytes()))
        << name;
  }
  EXPECT_FALSE(read.find("absent").defined());
}

TEST_F(Safetensors, TypesWithoutAPlaceAreRefused) {
  const TensorFile content{{{"z", torch::zeros({2}, torch::kComplexFloat)}}, {}};
  EXPECT_THROW(write_safetensors(file_, content), std::runtime_error);
}

TEST_F(Safetensors, EveryTruncationIsRefused) {
  write_safetensors(file_, {{{"a", torch::arange(3.0)}, {"b", torch::arange(4)}}, {{"k", "v"}}});
  std::ifstream in(file_, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  ASSERT_EQ(error_reading(), "");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes.substr(0, length);
    EXPECT_PRED2(contains, error_reading(), file_.string() + ": broken safetensors file: ")
        << length;
  }
  std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes << 'x';
  EXPECT_PRED2(contains, error_reading(), "its tensors take");
}

TEST_F(Safetensors, HeadersThatLieAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "its header: not valid JSON"},
      {"[]", "its header is not a JSON object"},
      {"{\"__metadata__\": {\"a\": \"\xFF\"}}", "its header: not valid JSON"},
      {"{\"w\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}, \"w\": {}}",
       "its header has \"w\" twice"},
      {"{\"w\": {\"dtype\": \"F32\", \"dtype\": \"F64\"}}", "its header has \"dtype\" twice"},
      {R"({"a": 1})", "the entry of \"a\" lacks dtype, shape or data_offsets"},
      {R"({"a": {"dtype": "F32", "shape": [2]}})",
       "the entry of \"a\" lacks dtype, shape or data_offsets"},
      {R"({"a": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}})",
       "dtype F99 of \"a\" is not known"},
      {R"({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}})", "shape of \"a\""},
      {R"({"a": {"dtype": "F32", "shape": [2.5], "data_offsets": [0, 8]}})", "shape of \"a\""},
      {R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 16], "data_offsets": [0, 8]}})",
       "shape of \"a\" is too large"},
      {R"({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})",
       "\"a\" has data_offsets [0, 8], but its shape takes 12 bytes"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})", "data_offsets [8, 0]"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 16]}})",
       "data_offsets of \"a\" are not two whole numbers"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}})",
       "data_offsets of \"a\""},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
       "\"a\" begins at byte 4 of the data, not at 0"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},)"
       R"( "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
       "begins at byte 4 of the data, not at 8"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
       "its tensors take 4 bytes, but it holds 8"},
      {R"({"a": {"dtype": "F32", "shape": 96, "data_offsets": [0, 8]}})",
       "shape of \"a\" is not a list of whole numbers"},
      {R"({"a": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}})",
       "\"a\" is of dtype F8_E4M3, which is not read here: save it as F32, BF16 or F16"},
      {R"({"a": {"dtype": "F32", "shape": [1e400], "data_offsets": [0, 4]}})",
       "its header: JSON with a number that is too large"},
      {R"({"__metadata__": 1})", "__metadata__ is not an object"},
      {R"({"__metadata__": {"step": 1}})", "__metadata__.step is not a string"},
  };
  write_bytes(std::string(80000, '['), 8);
  EXPECT_PRED2(contains, error_reading(), "its header: JSON nested more than 64 deep");
  for (const auto& [header, message] : cases) {
    write_bytes(header, 8);
    EXPECT_PRED2(contains, error_reading(), message) << header;
  }
}

TEST_F(Safetensors, HugeHeaderLengthIsRefusedWithoutAllocation) {
  std::ofstream(file_, std::ios::binary) << std::string(64, '\xff');
  EXPECT_PRED2(contains, error_reading(), "its header claims");
}

TEST_F(Safetensors, MissingFileIsNamed) {
  EXPECT_EQ(error_reading(), file_.string() + ": no such file");
}

}  // namespace
}  // namespace ssa
