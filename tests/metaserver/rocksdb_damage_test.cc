// Bits that flip in the store's table files: what is read is right, or the file is named; and somebody looks before it is read.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log/log.h"
#include "metaserver/kv/rocksdb_store.h"
#include "tests/metaserver/support.h"

namespace kintsugi::metaserver {
namespace {

namespace fs = std::filesystem;
constexpr int kKeys = 20'000;
constexpr RocksDbMemory kSmall{.cache_bytes = 16 << 20, .write_buffer_bytes = 256 << 10};

std::string key(int i) {
  return fmt::format("key-{:06}", i);
}
std::string value(int i) {
  return fmt::format("{:0>60}", static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15);
}

class StoreDamage : public ::testing::Test {
 protected:
  StoreDamage() {
    // In a process of its own: RocksDB's threads must not be there when a test forks.
    const pid_t child = ::fork();
    if (child == 0) {
      fill();
      std::_Exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(table().empty());
  }

  void fill() const {
    asio::io_context io;
    auto store = RocksDbStore::open(io.get_executor(), directory_.path(), kSmall);
    if (!store) std::_Exit(1);
    for (int i = 0; i < kKeys; i += 500) {
      Batch batch;
      for (int at = i; at < i + 500; ++at)
        batch.put(key(at), value(at));
      asio::co_spawn(io, (*store)->commit(std::move(batch)), asio::detached);
    }
    asio::co_spawn(io, (*store)->close(), asio::detached);
    io.run();
    store->reset();
    // What is in the log only goes into a table at the next start.
    if (!RocksDbStore::open(io.get_executor(), directory_.path(), kSmall)) std::_Exit(2);
  }

  /// The largest table file; empty: there is none.
  fs::path table() const {
    fs::path largest;
    for (const auto& file : fs::directory_iterator(directory_.path()))
      if (file.path().extension() == ".sst" && (largest.empty() || file.file_size() > fs::file_size(largest)))
        largest = file.path();
    return largest;
  }

  static void flip(const fs::path& file, uint64_t at) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(static_cast<std::streamoff>(at));
    const char flipped = static_cast<char>(bytes.get() ^ 0x10);
    bytes.seekp(static_cast<std::streamoff>(at));
    bytes.put(flipped);
  }

  /// Opens the store and reads everything, by keys or by a scan, and says on standard error what came of it.
  [[noreturn]] void read_all(bool scan) const {
    asio::io_context io;
    auto store = RocksDbStore::open(io.get_executor(), directory_.path(), kSmall);
    if (!store) {
      std::fprintf(stderr, "refused: %s\n", store.error().to_string().c_str());
      std::_Exit(0);
    }
    int right = 0;
    if (scan) {
      (*store)->scan("", "", [&](std::string_view found, std::string_view found_value) {
        if (found != key(right) || found_value != value(right)) std::_Exit(7);
        ++right;
        return true;
      });
    } else {
      for (; right < kKeys; ++right)
        if ((*store)->get(key(right)) != value(right)) std::_Exit(7);
    }
    std::fprintf(stderr, "all right\n");
    std::_Exit(right == kKeys ? 0 : 8);
  }

  TemporaryDirectory directory_;
};

class StoreDamageDeathTest : public StoreDamage {};

TEST_F(StoreDamageDeathTest, OfAnyBitNamesTheFileAndGivesNothingWrong) {
  const fs::path file = table();
  ASSERT_FALSE(file.empty());
  const uint64_t size = fs::file_size(file);
  const auto ended_knowingly = [](int status) {
    return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 1);
  };
  for (int percent = 0; percent < 100; percent += 7) {
    const uint64_t at = size * static_cast<uint64_t>(percent) / 100;
    flip(file, at);
    for (const bool scan : {false, true})
      EXPECT_EXIT(read_all(scan), ended_knowingly,
                  "all right|refused: .*\\.sst|cannot be read any more: .*\\.sst.*metadata_store\\.md")
          << "bit at " << percent << " % of the file, scan: " << scan;
    flip(file, at);
  }
  // The last bytes are the footer.
  for (const uint64_t at : {size - 1, size - 20, size - 45, size - 60}) {
    flip(file, at);
    EXPECT_EXIT(read_all(true), ended_knowingly,
                "all right|refused: .*\\.sst|cannot be read any more: .*\\.sst.*metadata_store\\.md")
        << "bit " << size - at << " before the end";
    flip(file, at);
  }
  EXPECT_EXIT(read_all(true), ::testing::ExitedWithCode(0), "all right");
}

TEST_F(StoreDamage, IsFoundInTheBackgroundBeforeAnybodyReadsIt) {
  std::atomic<int> named = 0;
  const std::string name = table().filename();
  log::set_sink([&](log::Level level, std::string_view line) {
    if (level == log::Level::kError && line.find(name) != std::string_view::npos) ++named;
  });
  const auto checked = [&](uint64_t damaged) {
    asio::io_context io;
    auto store = RocksDbStore::open(io.get_executor(), directory_.path(), kSmall, 1ms);
    ASSERT_TRUE(store) << store.error();
    for (int i = 0; i < 3000 && (*store)->check().checks() < 2; ++i)
      ::usleep(10'000);
    EXPECT_GE((*store)->check().checks(), 2u);
    EXPECT_EQ((*store)->check().damaged_files(), damaged);
    // What is not damaged is served.
    EXPECT_EQ((*store)->get(key(kKeys - 1)), value(kKeys - 1));
  };
  checked(0);
  EXPECT_EQ(named, 0);
  flip(table(), 1000);
  checked(1);
  EXPECT_GE(named, 1);
  log::set_sink({});
}

}  // namespace
}  // namespace kintsugi::metaserver
