#include <gtest/gtest.h>

#include "common/runtime/buffer_pool.h"
#include "common/runtime/disk.h"
#include "common/runtime/production/run.h"
#include "common/runtime/task_group.h"

namespace kintsugi::runtime {
namespace {

struct BufferPoolTest : ::testing::Test {
  ProductionRuntime production;
  Runtime& runtime = production.runtime();
};

TEST_F(BufferPoolTest, LendsDistinctAlignedBuffersOfItsRegion) {
  BufferPool pool(runtime, 3, 8192);
  std::set<std::byte*> seen;
  std::vector<Buffer> held;
  while (Buffer buffer = pool.try_acquire()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kDiskAlignment, 0u);
    EXPECT_EQ(buffer.size(), 8192u);
    EXPECT_GE(buffer.data(), pool.region().data());
    EXPECT_LE(buffer.data() + buffer.size(), pool.region().data() + pool.region().size());
    std::memset(buffer.data(), 0xab, buffer.size());
    seen.insert(buffer.data());
    held.push_back(std::move(buffer));
  }
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_EQ(pool.free(), 0u);
  held.pop_back();
  EXPECT_EQ(pool.free(), 1u);
  EXPECT_TRUE(pool.try_acquire());
}

TEST_F(BufferPoolTest, AMovedBufferReturnsOnce) {
  BufferPool pool(runtime, 2, 4096);
  {
    Buffer a = pool.try_acquire();
    Buffer b = std::move(a);
    EXPECT_FALSE(a);
    EXPECT_EQ(pool.free(), 1u);
    b = pool.try_acquire();
    EXPECT_EQ(pool.free(), 1u) << "the buffer that was assigned over went back";
  }
  EXPECT_EQ(pool.free(), 2u);
}

TEST_F(BufferPoolTest, WaitersGetABufferInTurnOrGiveUpAtTheDeadline) {
  BufferPool pool(runtime, 1, 4096);
  TaskGroup tasks(runtime);
  std::vector<int> served;
  auto user = [&](int name) -> asio::awaitable<void> {
    auto buffer = co_await pool.acquire(TimePoint::max());
    EXPECT_TRUE(buffer);
    served.push_back(name);
    co_await asio::post(runtime.executor, asio::use_awaitable);
  };
  auto body = [&]() -> asio::awaitable<void> {
    Buffer held = pool.try_acquire();
    auto late = co_await pool.acquire(runtime.clock.now());
    EXPECT_EQ(late.error().code(), Code::kDeadlineExceeded);
    for (int name : {1, 2, 3})
      tasks.spawn(user(name));
    co_await asio::post(runtime.executor, asio::use_awaitable);
    held = {};
    co_await tasks.join();
  };
  run_on(production, body());
  EXPECT_EQ(served, std::vector<int>({1, 2, 3}));
  EXPECT_EQ(pool.free(), 1u);
}

TEST_F(BufferPoolTest, TellsWhoRegisteredItsMemoryBeforeItUnmaps) {
  bool told = false;
  {
    BufferPool pool(runtime, 1, 4096);
    std::byte* memory = pool.region().data();
    pool.before_unmap([&told, memory] {
      memory[0] = std::byte{1};
      told = true;
    });
  }
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace kintsugi::runtime
