// The store on a real directory with the production runtime: what the simulator cannot say about O_DIRECT and renames.
#include <cstdlib>
#include <filesystem>

#include "common/runtime/buffer_pool.h"
#include "common/runtime/fault_points.h"
#include "common/runtime/production/run.h"
#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kintsugi-store-XXXXXX").string();
    KINTSUGI_ASSERT(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

asio::awaitable<void> write_all(const runtime::Runtime& runtime, runtime::BufferPool& pool,
                                StoreOptions options, const std::vector<size_t>& lengths) {
  ChunkStore store(runtime, options);
  Status started = co_await store.start();
  KINTSUGI_EXPECT_OK(started);
  for (size_t i = 0; i < lengths.size(); ++i) {
    Status stored = co_await put(store, pool, chunk_id(i + 1), chunk_bytes(lengths[i], i));
    KINTSUGI_EXPECT_OK(stored);
  }
  Status removed = co_await store.remove(Context{}, chunk_id(1));
  KINTSUGI_EXPECT_OK(removed);
  co_await store.stop();
}

asio::awaitable<void> check_all(const runtime::Runtime& runtime, runtime::BufferPool& pool,
                                StoreOptions options, const std::vector<size_t>& lengths) {
  ChunkStore store(runtime, options);
  Status started = co_await store.start();
  KINTSUGI_EXPECT_OK(started);
  EXPECT_EQ(store.chunks(), lengths.size() - 1);
  for (size_t i = 1; i < lengths.size(); ++i) {
    auto bytes = co_await get(store, pool, chunk_id(i + 1));
    EXPECT_TRUE(bytes) << bytes.error();
    if (bytes) {
      EXPECT_EQ(*bytes, chunk_bytes(lengths[i], i));
    }
  }
  co_await store.stop();
}

TEST(ChunkStoreOnARealDisk, ReadsBackWhatWasWrittenAfterARestart) {
  TemporaryDirectory directory;
  runtime::ProductionRuntime production;
  runtime::BufferPool pool(production.runtime(), 16, kTestFrameBytes);
  StoreOptions options;
  options.disks = {directory.path() + "/a", directory.path() + "/b"};
  const std::vector<size_t> lengths{100, 0, 1, 5000, 700'000, kMiB, 3 * kMiB + 1, 20 * kMiB + 12'345};
  runtime::run_on(production, write_all(production.runtime(), pool, options, lengths));
  runtime::run_on(production, check_all(production.runtime(), pool, options, lengths));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path() + "/a/tmp"));
}

#ifdef KINTSUGI_FAULT_POINTS

asio::awaitable<void> write_while_the_disk_hangs(const runtime::Runtime& runtime, runtime::BufferPool& pool,
                                                 StoreOptions options, runtime::FaultPoint where,
                                                 size_t bytes) {
  ChunkStore store(runtime, options);
  KINTSUGI_EXPECT_OK(co_await store.start());
  const auto fault = runtime.faults->set({.point = where, .action = runtime::FaultAction::kHang});
  const TimePoint began = runtime.clock.now();
  const Status written = co_await put(store, pool, chunk_id(1), chunk_bytes(bytes, 1));
  EXPECT_EQ(written.code(), Code::kUnavailable) << written;
  EXPECT_LT(runtime.clock.now() - began, DiskHealth::kHungAfter + 5s);
  runtime.faults->clear();
  runtime::TaskGroup tasks(runtime);
  for (int i = 0; i < 100 && pool.free() < 16; ++i)
    (void)co_await tasks.sleep_for(50ms);
  (void)co_await tasks.sleep_for(500ms);
  EXPECT_EQ(pool.free(), 16u);
  EXPECT_FALSE(store.find(chunk_id(1)));
  EXPECT_TRUE(std::filesystem::is_empty(options.disks[0] + "/tmp"));
  KINTSUGI_EXPECT_OK(co_await put(store, pool, chunk_id(1), chunk_bytes(bytes, 1)));
  const auto read = co_await get(store, pool, chunk_id(1));
  EXPECT_TRUE(read && *read == chunk_bytes(bytes, 1));
  co_await store.stop();
}

TEST(ChunkStoreOnARealDisk, AWriteUnderWayOnADiskThatBeginsToHangEndsWithTheDisksCode) {
  for (const runtime::FaultPoint where : {runtime::FaultPoint::kDiskWrite, runtime::FaultPoint::kDiskSync}) {
    for (const size_t bytes : {size_t{5000}, 3 * kMiB}) {
      SCOPED_TRACE(fmt::format("{} of {} bytes", runtime::name_of(where), bytes));
      TemporaryDirectory directory;
      runtime::ProductionRuntime production;
      runtime::BufferPool pool(production.runtime(), 16, kTestFrameBytes);
      StoreOptions options;
      options.disks = {directory.path() + "/a"};
      runtime::run_on(production,
                      write_while_the_disk_hangs(production.runtime(), pool, options, where, bytes));
    }
  }
}

#endif  // KINTSUGI_FAULT_POINTS

}  // namespace
}  // namespace kintsugi::chunkserver
