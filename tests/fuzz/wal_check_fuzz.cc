// Write-ahead logs of the metadata store: what a disk gives back after a crash may be anything.
#include "metaserver/kv/wal_check.h"
#include "tests/fuzz/subject.h"
#include "tests/metaserver/wal_writer.h"

namespace kintsugi::fuzz {
namespace {

using namespace metaserver;

std::string log_of(std::initializer_list<size_t> batches) {
  std::string log;
  uint64_t sequence = 100;
  for (const size_t bytes : batches) {
    append_wal_record(log, wal_batch(sequence, 3, bytes));
    sequence += 3;
  }
  return log;
}

std::vector<std::string> seeds() {
  return {"",
          log_of({12}),
          log_of({100, 12, 300, 50}),
          log_of({1000, 2000, 70'000, 100, 30'000, 64}),
          log_of({kWalBlockBytes - 7 - 3, 80, 20}),
          log_of({kWalBlockBytes - 7 - 7, 80, 20})};
}

/// Replaces a header by one that is right for what follows it: nearly no mutation would have a right CRC.
std::string mended(std::string log, size_t at) {
  if (log.size() < 7) return log;
  at %= log.size() - 6;
  const size_t room = std::min(log.size(), (at / kWalBlockBytes + 1) * kWalBlockBytes) - at;
  if (room < 7) return log;
  const size_t length = std::min<size_t>(room - 7, static_cast<uint8_t>(log[at + 4]));
  const std::string fragment =
      wal_fragment(static_cast<uint8_t>(log[at + 6]), std::string_view(log).substr(at + 7, length));
  return log.replace(at, fragment.size(), fragment);
}

void check_log(const std::string& log) {
  const WalReport report = check_wal(log);
  require(report.bytes == log.size() && report.intact_bytes <= report.bytes, "a record lies in its log");
  require((report.intact_records > 0) == report.first_sequence.has_value() &&
              (report.intact_records > 0) == report.next_sequence.has_value(),
          "intact records have sequence numbers");
  if (report.verdict() == WalVerdict::kWhole)
    require(report.intact_bytes == report.bytes, "nothing of a whole log is cut off");

  std::string cut = log.substr(0, report.intact_bytes);
  const WalReport kept = check_wal(cut);
  require(kept.verdict() == WalVerdict::kWhole, "a log that is cut off where the damage begins is whole");
  require(kept.intact_records == report.intact_records && kept.next_sequence == report.next_sequence,
          "cutting off the damage keeps all that stands before it");

  append_wal_record(cut, wal_batch(report.next_sequence.value_or(7), 1, 40));
  const WalReport longer = check_wal(cut);
  require(longer.verdict() == WalVerdict::kWhole && longer.intact_records == report.intact_records + 1,
          "a whole log can be written on");

  // In a block of its own, for what is torn may look like the beginning of a fragment that covers the record; and behind
  // bytes that mend no fragment whose end was cut off.
  std::string written_on = log + std::string(kWalBlockBytes - log.size() % kWalBlockBytes, '\xff');
  append_wal_record(written_on, wal_batch(report.next_sequence.value_or(7), 1, 40));
  const WalReport after = check_wal(written_on);
  require(after.verdict() != WalVerdict::kTornTail,
          "what was written on behind a broken record is never cut off");
  require(after.intact_bytes == report.intact_bytes || report.verdict() == WalVerdict::kWhole,
          "damage stays where it is");
}

void check(std::string_view input) {
  std::string log(input);
  check_log(log);
  check_log(mended(log, crc32c(std::as_bytes(std::span(input)))));  // any function of the input
}

const Registration registration{{"wal_check", seeds, check}};

}  // namespace
}  // namespace kintsugi::fuzz
