// A store whose write-ahead log is damaged does not start, and one that crashed does: nothing acknowledged disappears in
// silence.
#include <filesystem>
#include <fstream>

#include <rocksdb/db.h>

#include "common/log/log.h"
#include "metaserver/kv/rocksdb_store.h"
#include "tests/expect_ok.h"
#include "tests/metaserver/support.h"
#include "tests/metaserver/wal_writer.h"

namespace kintsugi::metaserver {
namespace {

namespace fs = std::filesystem;

std::string key(size_t i) {
  return fmt::format("key{:05}", i);
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

std::vector<fs::path> logs_in(const fs::path& directory) {
  std::vector<fs::path> logs;
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.path().extension() == ".log" && entry.file_size() > 0) logs.push_back(entry.path());
  std::ranges::sort(logs);
  return logs;
}

class WalDirectory : public ::testing::Test {
 protected:
  WalDirectory() {
    log::set_level(log::Level::kInfo);  // other tests of this executable may have asked for less
    log::set_sink([this](log::Level level, std::string_view line) {
      if (level >= log::Level::kWarning) lines_.emplace_back(line);
    });
  }
  ~WalDirectory() override { log::set_sink({}); }

  Result<std::unique_ptr<RocksDbStore>> open(const fs::path& directory) {
    lines_.clear();
    return RocksDbStore::open(io_.get_executor(), directory.string());
  }
  void commit(KeyValueStore& store, size_t i, size_t value_bytes) {
    io_.restart();
    const auto body = [](KeyValueStore& store, size_t i, size_t bytes) -> asio::awaitable<void> {
      Batch batch;
      batch.put(key(i), std::string(bytes, 'v'));
      batch.put("newest", std::to_string(i));
      const Status status = co_await store.commit(std::move(batch));
      KINTSUGI_EXPECT_OK(status);
    };
    asio::co_spawn(io_, body(store, i, value_bytes), asio::detached);
    io_.run();
  }
  /// A copy of the directory as a crash now would leave it, under a name of its own.
  fs::path crashed(const fs::path& directory) {
    const fs::path copy = path(fmt::format("copy{}", ++copies_));
    fs::copy(directory, copy);
    return copy;
  }
  fs::path path(const std::string& name) const { return fs::path(directory_.path()) / name; }

  void expect_refused(const fs::path& directory, const fs::path& log, uint64_t offset, size_t following) {
    const std::string before = read_file(log);
    const auto store = open(directory);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code(), Code::kCorrupt) << store.error();
    const std::string text = store.error().message();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    for (const std::string& part : {fmt::format("{} is damaged from byte {} on", log.string(), offset),
                                    fmt::format("{} intact records", following),
                                    fmt::format("truncate -s {} {}", offset, log.string())})
      EXPECT_NE(text.find(part), std::string::npos) << part << "\nin: " << text;
    EXPECT_EQ(read_file(log), before) << "the log must stay for whoever repairs it";
  }
  /// Starts with the first `kept` keys and no others; `cut` says what is told of the log's end, empty: nothing.
  void expect_starts(const fs::path& directory, size_t kept, const std::vector<std::string>& cut) {
    const auto store = open(directory);
    ASSERT_TRUE(store) << store.error();
    for (size_t i = 0; i < kept; ++i)
      EXPECT_TRUE((*store)->get(key(i))) << i;
    EXPECT_FALSE((*store)->get(key(kept)));
    EXPECT_EQ(lines_.size(), cut.empty() ? 0 : 1) << "\n" << fmt::format("{}", fmt::join(lines_, "\n"));
    for (const std::string& part : cut)
      EXPECT_NE(lines_.at(0).find(part), std::string::npos) << part << "\nin: " << lines_.at(0);
  }

  asio::io_context io_;
  TemporaryDirectory directory_;
  std::vector<std::string> lines_;
  int copies_ = 0;
};

/// A store that crashed with one log, which holds these records.
class WalDirectoryWithOneLog : public WalDirectory {
 protected:
  struct Record {
    uint64_t begin = 0, end = 0;
  };

  WalDirectoryWithOneLog() {
    auto store = open(path("store"));
    KINTSUGI_ASSERT(store);
    // Small ones, one over several blocks, and small ones again.
    for (const size_t value_bytes : {50, 1, 3000, 100'000, 30'000, 20, 60, 40}) {
      const uint64_t begin = records_.empty() ? 0 : records_.back().end;
      commit(**store, records_.size(), value_bytes);
      records_.push_back({begin, fs::file_size(logs_in(path("store")).at(0))});
      const uint64_t left = kWalBlockBytes - begin % kWalBlockBytes;
      if (left < 7) records_.back().begin += left;
    }
    crashed_ = crashed(path("store"));
    bytes_ = read_file(logs_in(crashed_).at(0));
    KINTSUGI_ASSERT(bytes_.size() == records_.back().end);
  }

  /// The store as the crash left it, with other bytes in its log; removed when the next one is made.
  fs::path store_with(const std::string& bytes) {
    if (!last_.empty()) fs::remove_all(last_);
    last_ = crashed(crashed_);
    write_file(log_of_last(), bytes);
    return last_;
  }
  fs::path name() const { return logs_in(crashed_).at(0).filename(); }
  fs::path log_of_last() const { return last_ / name(); }
  size_t count() const { return records_.size(); }

  std::vector<Record> records_;
  std::string bytes_;
  fs::path crashed_, last_;
};

TEST_F(WalDirectoryWithOneLog, StartsWithoutAWordWhenNothingIsWrong) {
  expect_starts(store_with(bytes_), count(), {});
}

TEST_F(WalDirectoryWithOneLog, RefusesAFlippedBitInAnyRecordButTheLast) {
  for (size_t i = 0; i < count(); ++i) {
    const auto [begin, end] = records_[i];
    for (const uint64_t at : {begin, begin + 3, begin + 4, begin + 5, begin + 6, begin + 7, begin + 15,
                              begin + 19, (begin + end) / 2, end - 1}) {
      SCOPED_TRACE(fmt::format("byte {} of record {}", at - begin, i));
      std::string bytes = bytes_;
      bytes[at] ^= static_cast<char>(1 << at % 8);
      const fs::path store = store_with(bytes);
      if (i + 1 < count()) {
        expect_refused(store, log_of_last(), begin, count() - i - 1);
      } else {
        expect_starts(store, i,
                      {log_of_last().string(), fmt::format("from byte {} on", begin),
                       fmt::format("{} bytes", end - begin)});
      }
    }
  }
}

TEST_F(WalDirectoryWithOneLog, StartsAgainOnceTheDamageIsMendedOrCutOff) {
  for (size_t i = 0; i + 1 < count(); ++i) {
    std::string bytes = bytes_;
    bytes[(records_[i].begin + records_[i].end) / 2] ^= 0x40;
    const fs::path store = store_with(bytes);
    expect_refused(store, log_of_last(), records_[i].begin, count() - i - 1);
    const fs::path mended = crashed(store);
    write_file(mended / name(), bytes_);
    expect_starts(mended, count(), {});
    fs::resize_file(log_of_last(), records_[i].begin);
    expect_starts(store, i, {});
  }
}

TEST_F(WalDirectoryWithOneLog, StartsWhereverTheLastRecordIsCutOff) {
  const auto [begin, end] = records_.back();
  for (uint64_t size = begin; size < end; ++size) {
    SCOPED_TRACE(fmt::format("{} of {} bytes", size - begin, end - begin));
    const fs::path store = store_with(bytes_.substr(0, size));
    // A record of which nothing is there was never begun, as far as anybody can tell.
    expect_starts(store, count() - 1,
                  size == begin ? std::vector<std::string>{}
                                : std::vector{log_of_last().string(), fmt::format("from byte {} on", begin),
                                              fmt::format("{} bytes", size - begin)});
  }
}

TEST_F(WalDirectoryWithOneLog, SaysHowMuchIsGoneWhenTheEndOfTheLogIsZeros) {
  std::string bytes = bytes_;
  std::fill(bytes.end() - 512, bytes.end(), '\0');
  size_t kept = 0;
  while (records_[kept].end <= bytes.size() - 512)
    ++kept;
  const uint64_t begin = records_[kept].begin;
  expect_starts(store_with(bytes), kept,
                {log_of_last().string(), fmt::format("from byte {} on", begin),
                 fmt::format("{} bytes", bytes.size() - begin)});
}

TEST_F(WalDirectoryWithOneLog, RefusesABlockOfZerosInTheMiddle) {
  std::string bytes = bytes_;
  std::fill_n(bytes.begin() + kWalBlockBytes, kWalBlockBytes, '\0');
  const fs::path store = store_with(bytes);
  expect_refused(store, log_of_last(), records_[3].begin, count() - 4);
}

TEST_F(WalDirectoryWithOneLog, DoesNotMindDamagedLogsThatAreNoLongerNeeded) {
  // A log may outlive the crash that interrupted its removal: all that it holds is in tables by then.
  std::string bytes = bytes_;
  bytes[records_[2].begin + 10] ^= 1;
  const fs::path store = store_with(bytes_);
  {
    const auto recovered = open(store);
    ASSERT_TRUE(recovered) << recovered.error();
    ASSERT_FALSE(fs::exists(log_of_last()));
    commit(**recovered, count(), 10);
  }
  for (const std::string& lingering : {bytes, bytes_.substr(0, bytes_.size() - 1), std::string("no log")}) {
    const fs::path again = crashed(store);
    write_file(again / name(), lingering);
    expect_starts(again, count() + 1, {});
  }
}

TEST_F(WalDirectoryWithOneLog, StartsWhenItCrashedAgainWhileItRecoveredATornLog) {
  const auto [begin, end] = records_.back();
  const fs::path store = store_with(bytes_.substr(0, end - 1));
  // RocksDB begins the new log with an empty batch at the number that was cut off; here it has a write as well, to see that
  // it counts. Each of our batches has two writes, so that the last one began with this number.
  const uint64_t sequence = 1 + 2 * (count() - 1);
  std::string next;
  append_wal_record(next, wal_batch(sequence, 0, 12));
  append_wal_record(next, wal_batch(sequence, 1, 12) + "\x01\x08" + key(count() - 1) + "\x01v");
  write_file(store / "000099.log", next);
  expect_starts(store, count(), {log_of_last().string(), fmt::format("from byte {} on", begin)});
}

TEST_F(WalDirectory, SaysNothingOfALogToWhichAnotherProcessWrites) {
  const auto first = open(path("store"));
  ASSERT_TRUE(first);
  commit(**first, 0, 100);
  std::ofstream(logs_in(path("store")).at(0), std::ios::binary | std::ios::app) << "half a record";
  const auto second = open(path("store"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable) << second.error();
  EXPECT_TRUE(lines_.empty());
}

/// A store that crashed with several logs, since it had not yet written any of its memory to tables.
class WalDirectoryWithSeveralLogs : public WalDirectory {
 protected:
  WalDirectoryWithSeveralLogs() {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 64 << 10;
    options.max_write_buffer_number = 32;
    options.min_write_buffer_number_to_merge = 24;
    rocksdb::DB* raw = nullptr;
    KINTSUGI_ASSERT(rocksdb::DB::Open(options, path("store").string(), &raw).ok());
    const std::unique_ptr<rocksdb::DB> database(raw);
    rocksdb::WriteOptions sync;
    sync.sync = true;
    for (; logs_in(path("store")).size() < 4; ++count_)
      KINTSUGI_ASSERT(database->Put(sync, key(count_), std::string(4000, 'v')).ok());
    store_ = crashed(path("store"));
    logs_ = logs_in(store_);
  }
  static WalReport report_of(const fs::path& log) { return check_wal(read_file(log)); }
  /// Records in the logs from this one on.
  size_t records_from(size_t log) const {
    size_t records = 0;
    for (; log < logs_.size(); ++log)
      records += report_of(logs_[log]).intact_records;
    return records;
  }

  size_t count_ = 0;
  fs::path store_;
  std::vector<fs::path> logs_;
};

TEST_F(WalDirectoryWithSeveralLogs, StartsWithAllOfThem) {
  expect_starts(store_, count_, {});
}

TEST_F(WalDirectoryWithSeveralLogs, RefusesDamageAtTheEndOfAnyButTheLast) {
  for (size_t i = 0; i < logs_.size(); ++i) {
    const std::string bytes = read_file(logs_[i]);
    fs::resize_file(logs_[i], bytes.size() - 1);
    const WalReport report = report_of(logs_[i]);
    if (i + 1 < logs_.size()) {
      expect_refused(store_, logs_[i], report.intact_bytes, records_from(i + 1));
      // Even where a whole record is missing.
      fs::resize_file(logs_[i], report.intact_bytes);
      expect_refused(store_, logs_[i], report.intact_bytes, records_from(i + 1));
      write_file(logs_[i], bytes);
    } else {
      expect_starts(store_, count_ - 1,
                    {logs_[i].string(), fmt::format("from byte {} on", report.intact_bytes)});
    }
  }
}

TEST_F(WalDirectoryWithSeveralLogs, RefusesThatOneIsMissing) {
  const fs::path missing = logs_[1];
  fs::remove(missing);
  logs_.erase(logs_.begin() + 1);
  expect_refused(store_, logs_[0], fs::file_size(logs_[0]), records_from(1));
}

TEST_F(WalDirectoryWithSeveralLogs, StartsOnceWhatFollowsTheDamageIsGivenUp) {
  const size_t before = report_of(logs_[0]).intact_records;
  std::string bytes = read_file(logs_[1]);
  bytes[20] ^= 1;
  write_file(logs_[1], bytes);
  const auto refused = open(store_);
  ASSERT_FALSE(refused);
  // As the refusal says, word for word.
  const std::string text = refused.error().message();
  const size_t begin = text.find("(truncate") + 1;
  const std::string command = text.substr(begin, text.find(')', begin) - begin);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  expect_starts(store_, before, {});
}

}  // namespace
}  // namespace kintsugi::metaserver
