#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/runtime/buffer_pool.h"
#include "common/runtime/production/run.h"
#include "common/runtime/task_group.h"
#include "tests/expect_ok.h"

namespace kintsugi::runtime {
namespace {

constexpr size_t kBuffer = 256 << 10;

struct DiskTest : ::testing::TestWithParam<std::string> {
  ProductionRuntime production;
  Runtime& runtime = production.runtime();
  Disk& disk = runtime.disk;
  BufferPool pool{runtime, 70, kBuffer};
  std::string root;

  void SetUp() override {
    std::string name = GetParam() + "/kintsugi_disk_test_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  Buffer filled(uint32_t seed) {
    Buffer buffer = pool.try_acquire();
    for (size_t i = 0; i < buffer.size(); ++i)
      buffer.data()[i] = static_cast<std::byte>((i * 31 + seed * 7) >> 3);
    return buffer;
  }
  asio::awaitable<std::unique_ptr<File>> create(std::string name) {
    auto file = co_await disk.open(root + "/" + name, OpenMode::kCreate);
    EXPECT_TRUE(file);
    co_return std::move(*file);
  }
};

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

TEST_P(DiskTest, ReadsBackWhatWasWrittenAndSynced) {
  auto body = [&]() -> asio::awaitable<void> {
    auto file = co_await create("a");
    Buffer data = filled(1), back = pool.try_acquire();
    Status written = co_await file->write(kBuffer, data.span());
    KINTSUGI_EXPECT_OK(written);
    Status synced = co_await file->sync();
    KINTSUGI_EXPECT_OK(synced);
    auto size = co_await file->size();
    EXPECT_EQ(*size, 2 * kBuffer);
    file.reset();

    auto again = co_await disk.open(root + "/a", OpenMode::kRead);
    EXPECT_TRUE(again);
    auto count = co_await (*again)->read(kBuffer, back.span());
    EXPECT_EQ(*count, kBuffer);
    EXPECT_TRUE(same(data.span(), back.span()));
    auto hole = co_await (*again)->read(0, back.first(kDiskAlignment));
    EXPECT_EQ(*hole, kDiskAlignment);
    EXPECT_EQ(back.data()[0], std::byte{0});
    Status refused = co_await (*again)->write(0, data.span());
    EXPECT_FALSE(refused.ok());
  };
  run_on(production, body());
}

TEST_P(DiskTest, WorksWithMemoryThatIsNotRegistered) {
  auto body = [&]() -> asio::awaitable<void> {
    BufferPool other(runtime, 2, kBuffer);
    auto file = co_await create("a");
    Buffer data = other.try_acquire(), back = other.try_acquire();
    std::memset(data.data(), 0x5a, kBuffer);
    Status written = co_await file->write(0, data.span());
    KINTSUGI_EXPECT_OK(written);
    auto count = co_await file->read(0, back.span());
    EXPECT_EQ(*count, kBuffer);
    EXPECT_TRUE(same(data.span(), back.span()));
  };
  run_on(production, body());
}

TEST_P(DiskTest, ReadsShortOnlyAtTheEndOfTheFile) {
  std::ofstream(root + "/odd") << std::string(10'000, 'x');
  auto body = [&]() -> asio::awaitable<void> {
    auto file = co_await disk.open(root + "/odd", OpenMode::kRead);
    Buffer buffer = pool.try_acquire();
    auto whole = co_await (*file)->read(0, buffer.span());
    EXPECT_EQ(*whole, 10'000u);
    EXPECT_EQ(buffer.data()[9'999], std::byte{'x'});
    auto tail = co_await (*file)->read(8192, buffer.span());
    EXPECT_EQ(*tail, 10'000u - 8192u);
    auto beyond = co_await (*file)->read(12'288, buffer.span());
    EXPECT_EQ(*beyond, 0u);
    auto nothing = co_await (*file)->read(0, buffer.first(0));
    EXPECT_EQ(*nothing, 0u);
  };
  run_on(production, body());
}

TEST_P(DiskTest, OpenModesMeanWhatTheySay) {
  auto body = [&]() -> asio::awaitable<void> {
    auto missing = co_await disk.open(root + "/a", OpenMode::kReadWrite);
    EXPECT_EQ(missing.error().code(), Code::kNotFound) << missing.error();
    auto created = co_await disk.open(root + "/a", OpenMode::kCreate);
    EXPECT_TRUE(created);
    auto existing = co_await disk.open(root + "/a", OpenMode::kCreate);
    EXPECT_EQ(existing.error().code(), Code::kAlreadyExists);
    auto writable = co_await disk.open(root + "/a", OpenMode::kReadWrite);
    EXPECT_TRUE(writable);
    auto no_parent = co_await disk.open(root + "/no/a", OpenMode::kCreate);
    EXPECT_EQ(no_parent.error().code(), Code::kNotFound);
    EXPECT_NE(no_parent.error().message().find("/no/a"), std::string::npos) << no_parent.error();
  };
  run_on(production, body());
}

TEST_P(DiskTest, AllocatesAndTruncatesWithoutTouchingContents) {
  auto body = [&]() -> asio::awaitable<void> {
    auto file = co_await create("a");
    Buffer data = filled(2), back = pool.try_acquire();
    Status status = co_await file->write(0, data.span());
    status = co_await file->allocate(4 * kBuffer);
    KINTSUGI_EXPECT_OK(status);
    auto size = co_await file->size();
    EXPECT_EQ(*size, 4 * kBuffer);
    status = co_await file->allocate(kBuffer);
    size = co_await file->size();
    EXPECT_EQ(*size, 4 * kBuffer) << "never shrinks";
    auto count = co_await file->read(0, back.span());
    EXPECT_EQ(*count, kBuffer);
    EXPECT_TRUE(same(data.span(), back.span()));
    status = co_await file->truncate(1000);
    KINTSUGI_EXPECT_OK(status);
    count = co_await file->read(0, back.span());
    EXPECT_EQ(*count, 1000u);
    auto space = co_await disk.space(root);
    Status too_much = co_await file->allocate(space->total_bytes + (uint64_t{1} << 40));
    EXPECT_EQ(too_much.code(), Code::kNoSpace);
    auto after = co_await file->size();
    EXPECT_EQ(*after, 1000u) << "refused without trying";
  };
  run_on(production, body());
}

TEST_P(DiskTest, RenamesReplacesListsAndRemoves) {
  auto body = [&]() -> asio::awaitable<void> {
    Status status = co_await disk.make_directory(root + "/x/y/z");
    KINTSUGI_EXPECT_OK(status);
    status = co_await disk.make_directory(root + "/x/y/z");
    KINTSUGI_EXPECT_OK(status) << "it exists: " << status;
    for (std::string name : {"b", "a", "c"})
      co_await create(name);
    auto names = co_await disk.list(root);
    EXPECT_EQ(*names, std::vector<std::string>({"a", "b", "c", "x"}));

    status = co_await disk.rename(root + "/a", root + "/b");
    KINTSUGI_EXPECT_OK(status);
    status = co_await disk.rename(root + "/c", root + "/x/y/d");
    KINTSUGI_EXPECT_OK(status);
    status = co_await disk.sync_directory(root + "/x/y");
    KINTSUGI_EXPECT_OK(status);
    names = co_await disk.list(root);
    EXPECT_EQ(*names, std::vector<std::string>({"b", "x"}));

    status = co_await disk.remove(root + "/b");
    KINTSUGI_EXPECT_OK(status);
    status = co_await disk.remove(root + "/b");
    EXPECT_EQ(status.code(), Code::kNotFound);
    status = co_await disk.remove(root + "/x/y/z");
    KINTSUGI_EXPECT_OK(status) << "an empty directory: " << status;
    status = co_await disk.remove(root + "/x/y");
    EXPECT_EQ(status.code(), Code::kNotEmpty) << status;
    status = co_await disk.rename(root + "/gone", root + "/b");
    EXPECT_EQ(status.code(), Code::kNotFound);
    status = co_await disk.make_directory(root + "/x/y/d/e");
    EXPECT_EQ(status.code(), Code::kNotDirectory) << status;
    auto missing = co_await disk.list(root + "/gone");
    EXPECT_EQ(missing.error().code(), Code::kNotFound);
    status = co_await disk.sync_directory(root + "/gone");
    EXPECT_EQ(status.code(), Code::kNotFound);
  };
  run_on(production, body());
}

TEST_P(DiskTest, ManyOverlappingCallsAllEndWithTheirOwnBytes) {
  constexpr uint32_t kCalls = 64;
  auto body = [&]() -> asio::awaitable<void> {
    auto file = co_await create("a");
    TaskGroup tasks(runtime);
    auto write_one = [&](uint32_t index) -> asio::awaitable<void> {
      Buffer data = filled(index);
      Status status = co_await file->write(index * kBuffer, data.span());
      KINTSUGI_EXPECT_OK(status);
    };
    auto read_one = [&](uint32_t index) -> asio::awaitable<void> {
      Buffer back = pool.try_acquire();
      auto count = co_await file->read(index * kBuffer, back.span());
      EXPECT_EQ(*count, kBuffer);
      Buffer expected = filled(index);
      EXPECT_TRUE(same(expected.span(), back.span()));
    };
    for (uint32_t i = 0; i < kCalls; ++i)
      tasks.spawn(write_one(i));
    co_await tasks.join();
    for (uint32_t i = 0; i < kCalls; ++i)
      tasks.spawn(read_one(i));
    co_await tasks.join();
  };
  run_on(production, body());
}

TEST_P(DiskTest, MoreCallsThanTheQueueHoldsWaitTheirTurn) {
  constexpr uint64_t kCalls = 3 * UringQueue::kMaxInFlight;
  uint64_t done = 0;
  auto body = [&]() -> asio::awaitable<void> {
    auto file = co_await create("a");
    Buffer data = filled(3);
    TaskGroup tasks(runtime);
    auto write_one = [&](uint64_t index) -> asio::awaitable<void> {
      Status status = co_await file->write(index * kDiskAlignment, data.first(kDiskAlignment));
      KINTSUGI_EXPECT_OK(status);
      done += status.ok() ? 1 : 0;
    };
    for (uint64_t i = 0; i < kCalls; ++i)
      tasks.spawn(write_one(i));
    co_await tasks.join();
    auto size = co_await file->size();
    EXPECT_EQ(*size, kCalls * kDiskAlignment);
  };
  run_on(production, body());
  EXPECT_EQ(done, kCalls);
}

TEST_P(DiskTest, MeasuresSpace) {
  auto body = [&]() -> asio::awaitable<void> {
    auto space = co_await disk.space(root);
    EXPECT_GT(space->total_bytes, 0u);
    EXPECT_LE(space->free_bytes, space->total_bytes);
    auto missing = co_await disk.space(root + "/gone");
    EXPECT_EQ(missing.error().code(), Code::kNotFound);
  };
  run_on(production, body());
}

TEST_P(DiskTest, TellsWhatAPathNamesNow) {
  auto body = [&]() -> asio::awaitable<void> {
    auto file = co_await create("a");
    Status truncated = co_await file->truncate(12'345);
    KINTSUGI_EXPECT_OK(truncated);
    co_await create("b");
    const auto a = co_await disk.attributes(root + "/a");
    const auto b = co_await disk.attributes(root + "/b");
    const auto directory = co_await disk.attributes(root);
    EXPECT_EQ(a->bytes, 12'345u);
    EXPECT_EQ(b->bytes, 0u);
    EXPECT_NE(a->identity, b->identity);
    EXPECT_EQ(a->identity.device, b->identity.device);
    EXPECT_NE(directory->identity, a->identity);

    Status renamed = co_await disk.rename(root + "/b", root + "/a");
    KINTSUGI_EXPECT_OK(renamed);
    const auto now = co_await disk.attributes(root + "/a");
    EXPECT_EQ(now->identity, b->identity);
    const auto missing = co_await disk.attributes(root + "/b");
    EXPECT_EQ(missing.error().code(), Code::kNotFound);
    const auto below_a_file = co_await disk.attributes(root + "/a/b");
    EXPECT_EQ(below_a_file.error().code(), Code::kNotDirectory);
  };
  run_on(production, body());
}

TEST_P(DiskTest, AFileIsLockedByOneUntilThatOneLetsGo) {
  auto body = [&]() -> asio::awaitable<void> {
    auto first = co_await disk.lock(root + "/lock");
    EXPECT_TRUE(first) << first.error();
    auto second = co_await disk.lock(root + "/lock");
    EXPECT_EQ(second.error().code(), Code::kConflict);
    auto other = co_await disk.lock(root + "/other");
    EXPECT_TRUE(other) << other.error();
    first->reset();
    second = co_await disk.lock(root + "/lock");
    EXPECT_TRUE(second) << second.error();
    // The lock is the file's, not the name's.
    Status removed = co_await disk.remove(root + "/lock");
    KINTSUGI_EXPECT_OK(removed);
    auto third = co_await disk.lock(root + "/lock");
    EXPECT_TRUE(third) << third.error();
    auto nowhere = co_await disk.lock(root + "/gone/lock");
    EXPECT_EQ(nowhere.error().code(), Code::kNotFound);
  };
  run_on(production, body());
}

TEST_P(DiskTest, ALockEndsWithItsProcess) {
  const std::string path = root + "/lock";
  const pid_t holder = fork();
  if (holder == 0) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) _exit(1);
    pause();  // until it is killed
    _exit(0);
  }
  const auto lock_code = [&] {
    Code code = Code::kOk;
    auto body = [&]() -> asio::awaitable<void> {
      auto lock = co_await disk.lock(path);
      if (!lock) code = lock.error().code();
    };
    run_on(production, body());
    return code;
  };
  for (int i = 0; i < 1000 && lock_code() != Code::kConflict; ++i)
    usleep(10'000);
  EXPECT_EQ(lock_code(), Code::kConflict);
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  EXPECT_EQ(lock_code(), Code::kOk);
}

INSTANTIATE_TEST_SUITE_P(OnADisk, DiskTest, ::testing::Values("/var/tmp"));
INSTANTIATE_TEST_SUITE_P(InMemory, DiskTest, ::testing::Values("/dev/shm"));

/// A pipe to which nobody writes: whoever reads from it waits, as for a disk that hangs.
class Fifo {
 public:
  explicit Fifo(const std::string& path) {
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    writer_ = ::open(path.c_str(), O_RDWR);
  }
  ~Fifo() { release(); }
  void release() {
    if (const int writer = writer_.exchange(-1); writer >= 0) close(writer);
  }

 private:
  std::atomic<int> writer_ = -1;
};

TEST(UringDisk, CallsThatHangOnOneDiskHoldUpNoOtherOne) {
  ProductionRuntime production;
  std::string root = "/var/tmp/kintsugi_disk_test_XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  for (const char* name : {"/a", "/b"})
    std::filesystem::create_directory(root + name);
  production.disk().separate({root + "/a", root + "/b"});
  Fifo fifo(root + "/a/fifo");
  BufferPool pool(production.runtime(), 1, kBuffer);
  Buffer data = pool.try_acquire();
  std::unique_ptr<File> stuck;
  size_t returned = 0;
  auto hang = [&]() -> asio::awaitable<void> {
    (void)co_await stuck->read(0, data.first(kDiskAlignment));
    ++returned;
  };
  std::atomic<bool> served = false, too_late = false;
  // Otherwise a failure would be a test that never ends.
  std::thread watch([&] {
    for (int i = 0; i < 2000 && !served; ++i)
      usleep(10'000);
    too_late = !served;
    if (too_late) fifo.release();
  });
  auto body = [&]() -> asio::awaitable<void> {
    Disk& disk = production.disk();
    auto opened = co_await disk.open(root + "/a/fifo", OpenMode::kRead);
    EXPECT_TRUE(opened);
    if (!opened) co_return;
    stuck = std::move(*opened);
    TaskGroup tasks(production.runtime());
    constexpr size_t kMany = 600;
    for (size_t i = 0; i < kMany; ++i)
      tasks.spawn(hang());
    {
      for (int round = 0; round < 20; ++round) {
        auto file = co_await disk.open(root + "/b/file", OpenMode::kCreate);
        EXPECT_TRUE(file);
        if (!file) break;
        KINTSUGI_EXPECT_OK(co_await (*file)->allocate(kBuffer));
        KINTSUGI_EXPECT_OK(co_await (*file)->write(0, data.span()));
        KINTSUGI_EXPECT_OK(co_await (*file)->sync());
        KINTSUGI_EXPECT_OK(co_await (*file)->truncate(4096));
        file->reset();
        KINTSUGI_EXPECT_OK(co_await disk.make_directory(root + "/b/c"));
        KINTSUGI_EXPECT_OK(co_await disk.rename(root + "/b/file", root + "/b/c/file"));
        KINTSUGI_EXPECT_OK(co_await disk.sync_directory(root + "/b/c"));
        auto names = co_await disk.list(root + "/b/c");
        EXPECT_EQ(names->size(), 1u);
        EXPECT_TRUE(co_await disk.space(root + "/b"));
        EXPECT_TRUE(co_await disk.lock(root + "/b/lock"));
        KINTSUGI_EXPECT_OK(co_await disk.remove(root + "/b/c/file"));
      }
    }
    served = true;
    EXPECT_EQ(returned, 0u);
    fifo.release();
    co_await tasks.join();
    EXPECT_EQ(returned, kMany);
    stuck.reset();
  };
  run_on(production, body());
  watch.join();
  EXPECT_FALSE(too_late);
  std::filesystem::remove_all(root);
}

TEST(UringDisk, AFileThatOutlivesItsDiskFailsCleanly) {
  ProductionRuntime production;
  std::string path = "/var/tmp/kintsugi_disk_test_" + std::to_string(getpid());
  auto disk = std::make_unique<UringDisk>(production.io());
  auto body = [&]() -> asio::awaitable<void> {
    auto file = co_await disk->open(path, OpenMode::kCreate);
    EXPECT_TRUE(file);
    disk.reset();
    BufferPool pool(production.runtime(), 1, 4096);
    Buffer buffer = pool.try_acquire();
    Status status = co_await (*file)->write(0, buffer.span());
    EXPECT_EQ(status.code(), Code::kCancelled) << status;
  };
  run_on(production, body());
  std::filesystem::remove(path);
}

TEST(UringDisk, AFileSystemWithFewFreeInodesHasNoRoom) {
  std::string path = "/var/tmp/kintsugi_disk_test_XXXXXX";
  ASSERT_NE(mkdtemp(path.data()), nullptr);
  if (::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=16m,nr_inodes=300") != 0) {
    std::filesystem::remove(path);
    GTEST_SKIP() << "only root may mount";
  }
  ProductionRuntime production;
  Disk& disk = production.runtime().disk;
  auto body = [&]() -> asio::awaitable<void> {
    EXPECT_GT((co_await disk.space(path))->free_bytes, 0u);
    for (int i = 0; i < 60; ++i)
      std::ofstream(fmt::format("{}/{}", path, i));
    EXPECT_EQ((co_await disk.space(path))->free_bytes, 0u) << "fewer than 256 more files fit";
  };
  run_on(production, body());
  EXPECT_EQ(::umount(path.c_str()), 0);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kintsugi::runtime
