#include "metaserver/kv/wal_directory.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/wal_filter.h>

#include "common/log/log.h"

namespace kintsugi::metaserver {
namespace {

Status io_error(const rocksdb::Status& status) {
  return {Code::kIoError, status.ToString()};
}

/// The number of a log by its file's name, "000012.log".
std::optional<uint64_t> log_number(std::string_view name) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || std::string_view(end, name.data() + name.size()) != ".log") return std::nullopt;
  return number;
}

Result<WalReport> read_log(rocksdb::Env& env, const std::string& path) {
  std::unique_ptr<rocksdb::SequentialFile> file;
  if (const auto opened = env.NewSequentialFile(path, &file, rocksdb::EnvOptions()); !opened.ok())
    return io_error(opened);
  WalCheck check;
  std::array<char, kWalBlockBytes> buffer;
  rocksdb::Slice block;
  do {
    if (const auto read = file->Read(buffer.size(), &block, buffer.data()); !read.ok()) return io_error(read);
    check.add(std::as_bytes(std::span(block.data(), block.size())));
  } while (block.size() == buffer.size());
  return check.finish();
}

Result<std::vector<WalFile>> read_logs(rocksdb::Env& env, const std::string& directory) {
  std::vector<std::string> names;
  if (const auto listed = env.GetChildren(directory, &names); !listed.ok()) return io_error(listed);
  std::vector<WalFile> logs;
  for (const std::string& name : names) {
    const auto number = log_number(name);
    if (!number) continue;
    const std::string path = directory + "/" + name;
    KINTSUGI_ASSIGN(const WalReport report, read_log(env, path));
    logs.push_back({*number, path, report});
  }
  std::ranges::sort(logs, {}, &WalFile::number);
  return logs;
}

/// Learns from RocksDB which logs it needs, and replays none.
class OldestLog final : public rocksdb::WalFilter {
 public:
  void ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>& numbers,
                                const std::map<std::string, uint32_t>&) override {
    number = numbers.at(0);  // the store has only the default column family
  }
  WalProcessingOption LogRecordFound(unsigned long long, const std::string&, const rocksdb::WriteBatch&,
                                     rocksdb::WriteBatch*, bool*) override {
    return WalProcessingOption::kStopReplay;
  }
  const char* Name() const override { return "OldestLog"; }

  uint64_t number = 0;
};

/// The number of the oldest log that RocksDB would replay. Older ones may linger after a crash, while all that they
/// hold is in tables: what became of them does not matter.
Result<uint64_t> oldest_needed_log(const std::string& directory) {
  OldestLog oldest;
  rocksdb::Options options;
  options.wal_filter = &oldest;
  // Damage is judged by us, not here.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  // Without a limit RocksDB would open every table, or take the directory for a compacted one and not look at logs.
  options.max_open_files = 16;
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status opened = rocksdb::DB::OpenForReadOnly(options, directory, &raw);
  const std::unique_ptr<rocksdb::DB> database(raw);
  if (opened.IsCorruption()) return Status{Code::kCorrupt, opened.ToString()};
  if (!opened.ok()) return io_error(opened);
  return oldest.number;
}

bool all_whole(std::span<const WalFile> logs) {
  return !find_damage(logs) && std::ranges::all_of(logs, [](const WalFile& log) {
    return log.report.verdict() == WalVerdict::kWhole;
  });
}

Status refusal(std::span<const WalFile> logs, const WalDamage& damage) {
  const std::string& path = logs[damage.file].path;
  std::string cut = fmt::format("truncate -s {} {}", damage.offset, path);
  for (const WalFile& later : logs.subspan(damage.file + 1))
    if (later.report.bytes > 0) cut += fmt::format(" && truncate -s 0 {}", later.path);
  return {Code::kCorrupt,
          fmt::format(
              "{} is damaged from byte {} on, and {} intact records stand behind the damage, which would be "
              "lost with it: restore the directory from a copy, or give up all that was written since and "
              "cut it off there ({}); see docs/runbooks/metadata_store.md",
              path, damage.offset, damage.following_records, cut)};
}

Status check_logs(rocksdb::Env& env, const std::string& directory) {
  KINTSUGI_ASSIGN(std::vector<WalFile> logs, read_logs(env, directory));
  if (all_whole(logs)) return {};
  KINTSUGI_ASSIGN(const uint64_t oldest, oldest_needed_log(directory));
  std::erase_if(logs, [&](const WalFile& log) { return log.number < oldest; });
  if (const auto damage = find_damage(logs)) return refusal(logs, *damage);
  for (const auto& [number, path, report] : logs) {
    if (report.verdict() == WalVerdict::kWhole) continue;
    log::warning(
        "metadata store: {}: the last record is incomplete or broken, as after a crash while it was written: "
        "{} bytes from byte {} on are cut off",
        path, report.bytes - report.intact_bytes, report.intact_bytes);
  }
  return {};
}

}  // namespace

std::optional<WalDamage> find_damage(std::span<const WalFile> logs) {
  std::optional<uint64_t> next;  // the sequence number that must follow
  bool torn = false;             // an earlier log is torn
  size_t end = 0;                // index of the last earlier log that is not empty
  std::optional<WalDamage> damage;
  for (size_t i = 0; i < logs.size(); ++i) {
    const WalReport& report = logs[i].report;
    if (damage) {
      damage->following_records += report.intact_records + report.following_records;
      continue;
    }
    const bool follows = next ? report.first_sequence == next : !torn;
    if (report.intact_records > 0 && !follows) {
      damage = {end, logs[end].report.intact_bytes, report.intact_records + report.following_records};
    } else if (report.verdict() == WalVerdict::kDamaged) {
      damage = {i, report.intact_bytes, report.following_records};
    }
    if (report.next_sequence) next = report.next_sequence;
    if (report.bytes > 0) end = i;
    torn |= report.verdict() == WalVerdict::kTornTail;
  }
  return damage;
}

Status check_wal_directory(const std::string& directory) {
  rocksdb::Env& env = *rocksdb::Env::Default();
  if (env.FileExists(directory).IsNotFound()) return {};
  // A log to which somebody writes looks torn.
  rocksdb::FileLock* lock = nullptr;
  if (const auto locked = env.LockFile(directory + "/LOCK", &lock); !locked.ok())
    return {Code::kUnavailable, locked.ToString()};
  const Status status = check_logs(env, directory);
  const rocksdb::Status unlocked = env.UnlockFile(lock);
  if (status.ok() && !unlocked.ok()) return io_error(unlocked);
  return status;
}

}  // namespace kintsugi::metaserver
