// How much memory a daemon may take, by the machine, its control groups, and the daemons beside it.
#include "common/daemon/memory_share.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace kintsugi::daemon {
namespace {

constexpr uint64_t kMiB = 1 << 20, kGiB = 1 << 30;

class MachineMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/kintsugi_memory_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  uint64_t bytes() const { return machine_memory_bytes(root_, 24 * kGiB); }

  std::string root_;
};

TEST_F(MachineMemory, IsAllOfItWithoutControlGroups) {
  EXPECT_EQ(bytes(), 24 * kGiB);
  write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(bytes(), 24 * kGiB);
}

TEST_F(MachineMemory, IsWhatTheNarrowestGroupAroundTheProcessHas) {
  write("/proc/self/cgroup", "1:name=systemd:/x\n0::/system.slice/kintsugi.service\n");
  write("/sys/fs/cgroup/system.slice/kintsugi.service/memory.max", "max\n");
  EXPECT_EQ(bytes(), 24 * kGiB);
  write("/sys/fs/cgroup/system.slice/memory.max", "2147483648\n");
  EXPECT_EQ(bytes(), 2 * kGiB);
  write("/sys/fs/cgroup/system.slice/kintsugi.service/memory.max", "1073741824\n");
  EXPECT_EQ(bytes(), kGiB);
  write("/sys/fs/cgroup/memory.max", "536870912\n");
  EXPECT_EQ(bytes(), 512 * kMiB) << "as a container sees its own limit";
}

TEST_F(MachineMemory, KnowsTheLimitOfFormerControlGroups) {
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(bytes(), kGiB);
}

TEST(MemoryShare, IsDividedByTheDaemonsOfTheMachineWithinBounds) {
  EXPECT_EQ(memory_share(32 * kGiB, 1, 8 * kMiB, kGiB), kGiB);
  EXPECT_EQ(memory_share(32 * kGiB, 4, 8 * kMiB, kGiB), 256 * kMiB);
  EXPECT_EQ(memory_share(32 * kGiB, 4, 8 * kMiB, 64 * kMiB), 64 * kMiB);
  EXPECT_EQ(memory_share(kGiB, 100, 8 * kMiB, kGiB), 8 * kMiB);
}

}  // namespace
}  // namespace kintsugi::daemon
