// A mount asks that processors stay awake while applications use it, and no longer.
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/mount/mounted.h"

namespace kintsugi::mount {
namespace {

constexpr int32_t kNothing = 2'000'000'000;

/// Returns the bounds that were asked for, first to last. A file stands for the kernel's device and keeps what is written to it.
std::vector<int32_t> asked_of(const std::string& device) {
  const std::string bytes = contents_of(device);
  std::vector<int32_t> asked(bytes.size() / sizeof(int32_t));
  std::memcpy(asked.data(), bytes.data(), asked.size() * sizeof(int32_t));
  return asked;
}

TEST(KeepAwake, AsksWhileRequestsComeAndThenNoMore) {
  KINTSUGI_NEEDS_FUSE();
  const ScratchDirectory scratch;
  const std::string device = scratch.path() + "/device";
  write_file(device, "");
  Mounted<> mounted({.awake_device = device});
  for (int i = 0; i < 3; ++i) {
    const size_t before = asked_of(device).size();
    write_file(mounted.path("file"), "contents");
    ASSERT_TRUE(
        eventually([&] { return asked_of(device).size() > before && asked_of(device).back() == kNothing; }));
    EXPECT_EQ(asked_of(device)[before], 0);
  }
  // Not once for each request: those above are made within a moment.
  EXPECT_LT(asked_of(device).size(), 40u);
}

TEST(KeepAwake, MountsWithoutTheDeviceAndWhereItTakesNothing) {
  KINTSUGI_NEEDS_FUSE();
  for (const char* device : {"/nowhere/device", "/dev/full"}) {
    Mounted<> mounted({.awake_device = device});
    write_file(mounted.path("file"), "contents");
    EXPECT_EQ(contents_of(mounted.path("file")), "contents");
  }
}

TEST(KeepAwake, TheKernelIsToldAndForgetsItWithTheObject) {
  const std::string path = "/dev/cpu_dma_latency";
  const auto bound = [&] {
    std::ifstream file(path, std::ios::binary);
    int32_t value = -1;
    file.read(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  };
  const int32_t before = bound();
  if (before <= 0) GTEST_SKIP() << "no right to ask the kernel, or somebody asks already";
  runtime::ProductionRuntime runtime;
  {
    KeepAwake awake(runtime.runtime().clock, path);
    EXPECT_EQ(bound(), before);
    awake.touch(runtime.runtime().clock.now());
    EXPECT_EQ(bound(), 0);
  }
  EXPECT_EQ(bound(), before);
}

}  // namespace
}  // namespace kintsugi::mount
