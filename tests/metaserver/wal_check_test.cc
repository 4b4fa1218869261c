// What the judgement of a write-ahead log says of logs that a crash or a bad disk has left.
#include <gtest/gtest.h>

#include "metaserver/kv/wal_directory.h"
#include "tests/metaserver/wal_writer.h"

namespace kintsugi::metaserver {
namespace {

struct Log {
  struct Record {
    uint64_t begin = 0, end = 0;
  };
  std::string bytes;
  std::vector<Record> records;
  uint64_t next = 1;

  /// Each batch has two writes.
  Log& add(size_t batch_bytes) {
    const size_t left = kWalBlockBytes - bytes.size() % kWalBlockBytes;
    const uint64_t begin = bytes.size() + (left < 7 ? left : 0);
    append_wal_record(bytes, wal_batch(next, 2, batch_bytes));
    records.push_back({begin, bytes.size()});
    next += 2;
    return *this;
  }
};

Log log_of(std::initializer_list<size_t> batches, uint64_t first = 1) {
  Log log;
  log.next = first;
  for (const size_t bytes : batches)
    log.add(bytes);
  return log;
}

/// Records within a block, one that leaves too few bytes for a header at its end, one over several blocks, one whose header
/// alone stands at the end of a block, and small ones behind.
Log usual_log() {
  Log log = log_of({30, 12, 500, 3000});
  log.add(kWalBlockBytes - log.bytes.size() - 7 - 3).add(100).add(90'000);
  log.add(2 * kWalBlockBytes - log.bytes.size() % kWalBlockBytes - 14 - 7).add(40).add(200).add(60);
  return log;
}

/// All bytes near both ends of a record, and some of those between.
std::vector<uint64_t> places_in(const Log::Record& record) {
  std::vector<uint64_t> places;
  for (uint64_t at = record.begin; at < record.end;) {
    places.push_back(at);
    at += at < record.begin + 40 || at + 10 > record.end ? 1 : std::min<uint64_t>(997, record.end - 9 - at);
  }
  return places;
}

TEST(WalCheck, FindsAWholeLogWhole) {
  const Log log = usual_log();
  const WalReport report = check_wal(log.bytes);
  EXPECT_EQ(report.verdict(), WalVerdict::kWhole);
  EXPECT_EQ(report.intact_records, log.records.size());
  EXPECT_EQ(report.intact_bytes, log.bytes.size());
  EXPECT_EQ(report.first_sequence, 1u);
  EXPECT_EQ(report.next_sequence, log.next);
  EXPECT_EQ(check_wal("").verdict(), WalVerdict::kWhole);
}

TEST(WalCheck, FindsAnyFlippedBitAndCountsWhatFollowsIt) {
  const Log log = usual_log();
  for (size_t record = 0; record < log.records.size(); ++record) {
    const size_t following = log.records.size() - record - 1;
    for (const uint64_t at : places_in(log.records[record])) {
      std::string bytes = log.bytes;
      bytes[at] ^= static_cast<char>(1 << at % 8);
      const WalReport report = check_wal(bytes);
      ASSERT_EQ(report.verdict(), following > 0 ? WalVerdict::kDamaged : WalVerdict::kTornTail) << at;
      ASSERT_EQ(report.intact_records, record) << at;
      ASSERT_EQ(report.intact_bytes, log.records[record].begin) << at;
      ASSERT_EQ(report.following_records, following) << at;
    }
  }
}

TEST(WalCheck, FindsEveryTruncationTornAndKeepsWhatStandsBefore) {
  const Log log = usual_log();
  for (size_t record = 0; record < log.records.size(); ++record) {
    const uint64_t begin = log.records[record].begin;
    for (const uint64_t end : places_in(log.records[record])) {
      const WalReport report = check_wal(std::string_view(log.bytes).substr(0, end));
      ASSERT_EQ(report.verdict(), end > begin ? WalVerdict::kTornTail : WalVerdict::kWhole) << end;
      ASSERT_EQ(report.intact_records, record) << end;
      ASSERT_EQ(report.intact_bytes, begin) << end;
    }
  }
}

TEST(WalCheck, FindsZerosTornAtTheEndAndDamageInTheMiddle) {
  const Log log = usual_log();
  std::string bytes = log.bytes + std::string(100'000, '\0');
  EXPECT_EQ(check_wal(bytes).verdict(), WalVerdict::kTornTail);
  EXPECT_EQ(check_wal(bytes).intact_bytes, log.bytes.size());
  bytes = log.bytes;
  std::fill(bytes.end() - 512, bytes.end(), '\0');
  EXPECT_EQ(check_wal(bytes).verdict(), WalVerdict::kTornTail);
  // RocksDB takes a block of zeros for space that was never used and goes on behind it.
  bytes = log.bytes;
  std::fill_n(bytes.begin() + kWalBlockBytes, kWalBlockBytes, '\0');
  EXPECT_EQ(check_wal(bytes).verdict(), WalVerdict::kDamaged);
}

TEST(WalCheck, FindsTheRestOfOneRecordWithoutItsBeginningTorn) {
  // The pages of a record that was being written may reach the disk in any order.
  Log log = log_of({100, 200});
  const uint64_t begin = log.bytes.size();
  log.add(100'000);
  std::fill_n(log.bytes.begin() + static_cast<ptrdiff_t>(begin), 5000, '\0');
  const WalReport report = check_wal(log.bytes);
  EXPECT_EQ(report.verdict(), WalVerdict::kTornTail);
  EXPECT_EQ(report.intact_bytes, begin);
}

TEST(WalCheck, FindsMissingBatchesBetweenIntactOnes) {
  const Log log = usual_log();
  std::string bytes = log.bytes;
  bytes.resize(log.records[2].end);
  bytes.erase(log.records[1].begin, log.records[1].end - log.records[1].begin);
  const WalReport report = check_wal(bytes);
  EXPECT_EQ(report.verdict(), WalVerdict::kDamaged);
  EXPECT_EQ(report.intact_bytes, log.records[1].begin);
  EXPECT_EQ(report.following_records, 1u);
}

TEST(WalCheck, DoesNotTakeWhatABlockHeldBeforeForRecordsThatFollow) {
  Log log = log_of({100, 100}, 1000);
  const uint64_t end = log.bytes.size();
  log.bytes += std::string(50, '\0');  // of a record that was begun
  append_wal_record(log.bytes, wal_batch(990, 2, 100));
  const WalReport report = check_wal(log.bytes);
  EXPECT_EQ(report.verdict(), WalVerdict::kTornTail);
  EXPECT_EQ(report.intact_bytes, end);
}

WalFile file_of(uint64_t number, const Log& log, std::optional<uint64_t> end = {}) {
  const std::string_view bytes = log.bytes;
  return {number, fmt::format("{:06}.log", number), check_wal(bytes.substr(0, end.value_or(bytes.size())))};
}

TEST(WalFiles, GoOnWhereTheLastOneEnded) {
  const Log first = log_of({100, 200}), second = log_of({100}, first.next), third = log_of({}, second.next);
  EXPECT_FALSE(find_damage(std::vector<WalFile>{}));
  EXPECT_FALSE(find_damage(std::vector{file_of(3, first), file_of(7, second), file_of(9, third)}));
  EXPECT_FALSE(find_damage(std::vector{file_of(3, third), file_of(7, first)}));
}

TEST(WalFiles, MayBeTornAtTheEndOfTheLastOneThatHoldsAnything) {
  const Log first = log_of({100, 200}), second = log_of({100}, first.next), none = log_of({});
  EXPECT_FALSE(find_damage(std::vector{file_of(3, first), file_of(7, second, 50), file_of(9, none)}));
}

TEST(WalFiles, AreDamagedWhenAnEarlierOneIsTornOrShort) {
  const Log first = log_of({100, 200}), second = log_of({100, 100}, first.next);
  for (const uint64_t end : {first.bytes.size() - 1, first.records[1].begin + 1, first.records[1].begin}) {
    const auto damage = find_damage(std::vector{file_of(3, first, end), file_of(7, second)});
    ASSERT_TRUE(damage) << end;
    EXPECT_EQ(damage->file, 0u);
    EXPECT_EQ(damage->offset, first.records[1].begin);
    EXPECT_EQ(damage->following_records, 2u);
  }
  EXPECT_TRUE(find_damage(std::vector{file_of(3, first, 5), file_of(7, second)}));
}

TEST(WalFiles, CountWhatFollowsInAllLogs) {
  Log first = log_of({100, 200, 300});
  const Log second = log_of({100, 100}, first.next), third = log_of({100}, second.next);
  first.bytes[first.records[1].begin + 20] ^= 1;
  const auto damage = find_damage(std::vector{file_of(3, first), file_of(7, second), file_of(9, third)});
  ASSERT_TRUE(damage);
  EXPECT_EQ(damage->offset, first.records[1].begin);
  EXPECT_EQ(damage->following_records, 4u);
}

TEST(WalFiles, MayHaveATornOneThatWasRecoveredAndRemained) {
  const Log first = log_of({100, 200});
  // What RocksDB writes first after it has cut off the second record, and what came then.
  Log second;
  append_wal_record(second.bytes, wal_batch(3, 0, 12));
  append_wal_record(second.bytes, wal_batch(3, 2, 100));
  EXPECT_FALSE(find_damage(std::vector{file_of(3, first, first.bytes.size() - 1), file_of(7, second)}));
}

}  // namespace
}  // namespace kintsugi::metaserver
