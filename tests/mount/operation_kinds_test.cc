// What a mount tells of its operations.
#include "client/mount/kernel/operations/operation_kinds.h"

#include <gtest/gtest.h>

#include "client/mount/kernel/operations/operation.h"

namespace kintsugi::mount {
namespace {

TEST(OperationKinds, EveryOperationThatIsServedIsOfAKind) {
  size_t served = 0;
  for (uint32_t opcode = 0; opcode < 1000; ++opcode) {
    const Operation* const operation = operation_of(opcode);
    if (operation == nullptr) continue;
    ++served;
    EXPECT_FALSE(kind_of(operation->site.name).empty()) << operation->site.name;
  }
  EXPECT_GT(served, 30u);
  EXPECT_TRUE(kind_of("client.read_range").empty());
}

TEST(OperationKinds, AreAddedUp) {
  constexpr sight::Site kRead{"mount.read", {}}, kFlush{"mount.flush", {}}, kRelease{"mount.release", {}},
      kOther{"client.read_range", {}};
  std::vector<sight::PathTotals> totals(5);
  const sight::Site* const sites[] = {&kRead, &kFlush, &kRelease, &kOther, nullptr};
  for (size_t i = 0; i < totals.size(); ++i) {
    totals[i].site = sites[i];
    totals[i].count = 10;
    totals[i].errors = i;
    totals[i].total = std::chrono::milliseconds(1);
  }
  proto::SightMount mount;
  tell_operations(totals, mount);
  ASSERT_EQ(mount.operations_size(), 2);
  EXPECT_EQ(mount.operations(0).kind(), "close");
  EXPECT_EQ(mount.operations(0).requests(), 20u);
  EXPECT_EQ(mount.operations(0).errors(), 3u);
  EXPECT_EQ(mount.operations(0).ns(), 2'000'000u);
  EXPECT_EQ(mount.operations(1).kind(), "read");
  EXPECT_EQ(mount.operations(1).requests(), 10u);
}

}  // namespace
}  // namespace kintsugi::mount
