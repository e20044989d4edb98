#include "train/nccl.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstring>
#include <vector>

// No device and no NCCL here: functions of its names, which the program finds as it would find
// NCCL's, note what they are given. The numbers of types and of the sum are those of nccl.h.
namespace {

struct Given {
  const void* from;
  void* to;
  std::size_t count;
  int type, operation_or_root;
  void* communicator;
};
std::vector<Given> reduced, sent;
int fake_communicator = 0, aborted = 0;

}  // namespace

extern "C" {
int ncclGetUniqueId(ssa::Nccl::Id* id) {
  std::memset(id->data(), 7, id->size());
  return 0;
}
int ncclCommInitRank(void** communicator, int ranks, ssa::Nccl::Id id, int rank) {
  *communicator = &fake_communicator;
  return ranks == 3 && rank == 2 && id[127] == 7 ? 0 : 5;
}
int ncclCommAbort(void* communicator) {
  aborted += communicator == &fake_communicator;
  return 0;
}
const char* ncclGetErrorString(int result) { return result == 5 ? "invalid usage" : "unknown"; }
int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int operation,
                  void* communicator, void* /*stream*/) {
  reduced.push_back({from, to, count, type, operation, communicator});
  return 0;
}
int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root,
                  void* communicator, void* /*stream*/) {
  sent.push_back({from, to, count, type, root, communicator});
  return 0;
}
}

namespace ssa {
namespace {

TEST(NcclCalls, SayWhatIsWhereAndOfWhichType) {
  const std::pair<torch::ScalarType, int> types[] = {{torch::kInt64, 4},
                                                     {torch::kHalf, 6},
                                                     {torch::kFloat32, 7},
                                                     {torch::kFloat64, 8},
                                                     {torch::kBFloat16, 9}};
  {
    const Nccl nccl(Nccl::make_id(), 2, 3, torch::kCPU);
    for (const auto& [type, number] : types) {
      const torch::Tensor tensor = torch::zeros({3, 5}, type);
      nccl.sum(tensor);
      nccl.broadcast(tensor);
      for (const Given& given : {reduced.back(), sent.back()}) {
        EXPECT_EQ(given.from, tensor.data_ptr());
        EXPECT_EQ(given.to, tensor.data_ptr());
        EXPECT_EQ(given.count, 15U);
        EXPECT_EQ(given.type, number);
        EXPECT_EQ(given.operation_or_root, 0);
        EXPECT_EQ(given.communicator, &fake_communicator);
      }
    }
    EXPECT_THROW(nccl.sum(torch::zeros({1}, torch::kBool)), std::runtime_error);
  }
  EXPECT_EQ(aborted, 1);
}

TEST(NcclCalls, FailuresHaveNcclsWords) {
  try {
    const Nccl nccl(Nccl::make_id(), 1, 3, torch::kCPU);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "NCCL: ncclCommInitRank failed: invalid usage");
  }
}

}  // namespace
}  // namespace ssa
