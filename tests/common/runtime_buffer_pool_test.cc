#include <algorithm>
#include <cstring>
#include <set>

#include <gtest/gtest.h>
#include <sys/mman.h>

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

TEST_F(BufferPoolTest, OneHolderLeavesAsManyBuffersAsItHas) {
  BufferPool pool(runtime, 8, 4096);
  Semaphore share(runtime, 8);
  TaskGroup tasks(runtime);
  std::vector<Buffer> of_first, of_second;
  const auto take = [&](uint64_t holder, std::vector<Buffer>& into) -> asio::awaitable<void> {
    auto buffer = co_await pool.acquire(TimePoint::max(), share, holder);
    if (buffer) into.push_back(std::move(*buffer));
  };
  const auto settle = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < 20; ++i)
      co_await asio::post(runtime.executor, asio::use_awaitable);
  };
  const auto body = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < 20; ++i)
      tasks.spawn(take(1, of_first));
    co_await settle();
    EXPECT_EQ(of_first.size(), 4u);
    auto late = co_await pool.acquire(runtime.clock.now(), share, 1);
    EXPECT_EQ(late.error().code(), Code::kDeadlineExceeded);
    for (int i = 0; i < 3; ++i)
      tasks.spawn(take(2, of_second));
    co_await settle();
    EXPECT_EQ(of_second.size(), 2u);
    EXPECT_EQ(pool.free(), 2u) << "for whoever comes next";
    while (of_first.size() < 20 || of_second.size() < 3) {
      of_second.clear();
      of_second.resize(3);  // it wants no more
      const size_t before = of_first.size();
      std::vector<Buffer> given_back = std::exchange(of_first, {});
      given_back.clear();
      of_first.resize(before);
      co_await settle();
    }
    co_await tasks.join();
    of_first.clear();
    of_second.clear();
  };
  run_on(production, body());
  EXPECT_EQ(pool.free(), 8u);
  EXPECT_EQ(share.free(), 8u);
}

/// How many pages of the pool's region are in memory.
size_t resident_pages(const BufferPool& pool) {
  std::vector<unsigned char> pages(pool.region().size() / kDiskAlignment);
  EXPECT_EQ(mincore(pool.region().data(), pool.region().size(), pages.data()), 0);
  return static_cast<size_t>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

TEST_F(BufferPoolTest, GivesBackMemoryThatNobodyBorrowedForAWhile) {
  constexpr size_t kPages = 4;
  BufferPool pool(runtime, 8, kPages * kDiskAlignment);
  EXPECT_EQ(resident_pages(pool), 0u) << "memory is taken only once it is needed";
  const auto use = [&](size_t count) {
    std::vector<Buffer> buffers;
    for (size_t i = 0; i < count; ++i) {
      buffers.push_back(pool.try_acquire());
      std::memset(buffers.back().data(), 0xab, buffers.back().size());
    }
  };
  use(6);
  pool.give_back_idle();
  EXPECT_EQ(resident_pages(pool), 6 * kPages) << "all of it was used since the last call";
  use(2);
  pool.give_back_idle();
  EXPECT_EQ(resident_pages(pool), 2 * kPages);
  Buffer held = pool.try_acquire();
  pool.give_back_idle();
  pool.give_back_idle();
  EXPECT_EQ(resident_pages(pool), kPages) << "what is on loan stays";
  EXPECT_EQ(held.data()[0], std::byte{0xab});
  held = {};
  pool.give_back_idle();
  pool.give_back_idle();
  EXPECT_EQ(resident_pages(pool), 0u);
  use(8);
  EXPECT_EQ(resident_pages(pool), 8 * kPages);
}

}  // namespace
}  // namespace kintsugi::runtime
