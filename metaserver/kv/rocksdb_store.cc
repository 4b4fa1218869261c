#include "metaserver/kv/rocksdb_store.h"

#include <cstdlib>

#include <boost/asio/executor_work_guard.hpp>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <rocksdb/write_batch.h>
#include <sys/statvfs.h>

#include "common/base/last_words.h"
#include "common/log/log.h"
#include "metaserver/kv/committer.h"
#include "metaserver/kv/durability_barrier.h"
#include "metaserver/kv/empty_ranges.h"
#include "metaserver/kv/merged_scan.h"
#include "metaserver/kv/pending_writes.h"
#include "metaserver/kv/read_cache.h"
#include "metaserver/kv/store_check.h"
#include "metaserver/kv/wal_directory.h"

namespace kintsugi::metaserver {
namespace {

constexpr double kMemtableFilterShare = 0.02;  ///< filter size as a share of a write buffer
/// The cache of single values, in front of RocksDB, has one byte in so many of the memory for caches.
constexpr uint64_t kReadCacheShare = 5;
/// A file in which so many of that many keys that follow each other are deletions is compacted at once.
constexpr size_t kDeletionWindow = 16 << 10, kDeletions = 8 << 10;
/// What was written goes into a file, where it can be compacted, after so many deletions.
constexpr size_t kDeletionsAFlush = 50'000;

/// Ends the process. Metadata that cannot be read must not look like metadata that is not there, nor a part of a range
/// like all of it, and whoever asked has no way back: what it changed in memory so far is only right together with
/// what it would have read. Nothing of that has been written or answered, so that a start after the repair of the file
/// finds all that was acknowledged.
[[noreturn]] void end_at_damage(rocksdb::DB& db, const rocksdb::Status& status) {
  const std::string words = fmt::format(
      "metadata store {} cannot be read any more: {}; restore that file from a copy, see "
      "docs/runbooks/metadata_store.md",
      db.GetName(), status.ToString());
  log::error("{}", words);
  write_last_words(words);
  std::_Exit(EXIT_FAILURE);
}

std::optional<std::string> read(rocksdb::DB& db, const rocksdb::ReadOptions& options, std::string_view key) {
  std::string value;
  const rocksdb::Status status = db.Get(options, {key.data(), key.size()}, &value);
  if (status.IsNotFound()) return std::nullopt;
  if (!status.ok()) end_at_damage(db, status);
  return value;
}

/// RocksDB's iterator in the shape of merged_scan. It jumps over ranges that are known to be empty: each part between
/// them has an iterator of its own, whose bound keeps it from looking into the next.
class RocksCursor {
 public:
  RocksCursor(rocksdb::DB& db, const rocksdb::ReadOptions& options, const EmptyRanges& empty,
              std::string_view begin, std::string_view end)
      : db_(db), options_(options), empty_(empty), end_(end) {
    begin_part(begin);
    go_on();
  }
  bool valid() const { return valid_; }
  std::string_view key() const { return {iterator_->key().data(), iterator_->key().size()}; }
  std::string_view value() const { return {iterator_->value().data(), iterator_->value().size()}; }
  void next() {
    iterator_->Next();
    go_on();
  }

 private:
  void begin_part(std::string_view from) {
    auto range = empty_.at_or_behind(from);
    if (range != empty_.end() && range->first <= from) {
      from = range->second.end;
      ++range;  // ranges that touch have been merged
    }
    const bool more = range != empty_.end() && (end_.empty() || range->first < end_);
    behind_ = more ? std::string_view(range->second.end) : std::string_view();
    const std::string_view upper = more ? std::string_view(range->first) : end_;
    upper_ = {upper.data(), upper.size()};
    iterator_.reset();
    if (!end_.empty() && from >= end_) return;
    options_.iterate_upper_bound = upper.empty() ? nullptr : &upper_;
    iterator_.reset(db_.NewIterator(options_));
    iterator_->Seek({from.data(), from.size()});
  }
  /// Finds the key to stand at, in this part or the next.
  void go_on() {
    for (valid_ = false; iterator_; begin_part(behind_)) {
      valid_ = iterator_->Valid();
      if (!valid_ && !iterator_->status().ok()) end_at_damage(db_, iterator_->status());
      if (valid_ || behind_.empty()) return;
    }
  }

  rocksdb::DB& db_;
  rocksdb::ReadOptions options_;
  const EmptyRanges& empty_;
  const std::string_view end_;
  std::string_view behind_;  ///< start of the next part; empty: this part is the last
  rocksdb::Slice upper_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
  bool valid_ = false;
};

class RocksSnapshot final : public ReadView {
 public:
  RocksSnapshot(std::shared_ptr<rocksdb::DB> db, PendingWrites::Map pending)
      : db_(std::move(db)), snapshot_(db_->GetSnapshot()), pending_(std::move(pending)) {
    options_.snapshot = snapshot_;
  }
  ~RocksSnapshot() override { db_->ReleaseSnapshot(snapshot_); }

  std::optional<std::string> get(std::string_view key) const override {
    if (auto found = pending_.find(key); found != pending_.end()) return found->second;
    return read(*db_, options_, key);
  }
  void scan(std::string_view begin, std::string_view end,
            const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    const EmptyRanges unknown;  // for a snapshot: ranges that are empty now may not have been empty then
    RocksCursor cursor(*db_, options_, unknown, begin, end);
    merged_scan(
        cursor, pending_, begin, end,
        [](const std::optional<std::string>& value) { return value ? &*value : nullptr; }, visit);
  }

 private:
  std::shared_ptr<rocksdb::DB> db_;
  const rocksdb::Snapshot* snapshot_;
  rocksdb::ReadOptions options_;
  PendingWrites::Map pending_;
};

rocksdb::Options make_options(const RocksDbMemory& memory) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(memory.cache_bytes - memory.cache_bytes / kReadCacheShare);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  rocksdb::Options options;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  options.write_buffer_size = memory.write_buffer_bytes;
  options.max_background_jobs = 2;
  // Half of what a commit looks up is not there (the new stripe, deletions that may be queued, the upload, the name):
  // a filter in front of the memtable answers that without a search.
  options.memtable_prefix_bloom_size_ratio = kMemtableFilterShare;
  options.memtable_whole_key_filtering = true;
  options.allow_concurrent_memtable_write = false;  // only the committer writes
  options.keep_log_file_num = 4;
  // RocksDB stops its replay at the first record that is not right, which is the last one: check_wal_directory() has
  // refused all others, and has told what this mode drops without a word. The stricter modes would refuse records as
  // well that a crash cut off, and logs that a crash left behind a recovery.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  // A scan passes over every deletion until it is compacted away with what it deleted, and a directory of millions
  // that was emptied would make the next look into it as long as its removal.
  options.table_properties_collector_factories.push_back(
      rocksdb::NewCompactOnDeletionCollectorFactory(kDeletionWindow, kDeletions));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace

struct RocksDbStore::State {
  State(asio::any_io_executor executor_, std::shared_ptr<rocksdb::DB> db_, const RocksDbMemory& memory,
        Duration check_interval)
      : executor(std::move(executor_)),
        db(std::move(db_)),
        check(db, check_interval),
        barrier(executor, [this](const Status& why) { on_failure(why); }),
        cache(memory.cache_bytes / kReadCacheShare) {}

  void synced(uint64_t sequence, const Status& status) {
    if (!status.ok()) {
      if (barrier.failure().ok()) log::error("metadata store: {}", status.message());
      barrier.fail(status);
      work.reset();
      return;
    }
    barrier.advance(sequence);
    // RocksDB holds by now what is dropped here, so that no read ever misses it.
    pending.drop_through(sequence);
    if (!barrier.pending()) work.reset();
  }

  asio::any_io_executor executor;
  std::function<void(const Status&)> on_failure;
  std::shared_ptr<rocksdb::DB> db;
  StoreCheck check;
  DurabilityBarrier barrier;
  PendingWrites pending;
  EmptyRanges empty;  ///< used together with `pending`: keys that it skips are in neither
  ReadCache cache;
  /// Keeps the executor alive while a sync will post its completion.
  std::optional<asio::executor_work_guard<asio::any_io_executor>> work;
  std::unique_ptr<Committer> committer;
};

Result<std::unique_ptr<RocksDbStore>> RocksDbStore::open(asio::any_io_executor executor,
                                                         const std::string& directory, RocksDbMemory memory,
                                                         Duration check_interval) {
  const std::string where = "metadata store " + directory;
  KINTSUGI_TRY(check_wal_directory(directory).with_context(where));
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(make_options(memory), directory, &raw);
  if (!opened.ok()) {
    const Code code = opened.IsCorruption() ? Code::kCorrupt : Code::kIoError;
    const std::string_view help = opened.IsCorruption() ? "; see docs/runbooks/metadata_store.md" : "";
    return Status{code, opened.ToString().append(help)}.with_context(where);
  }
  auto state = std::make_unique<State>(executor, std::shared_ptr<rocksdb::DB>(raw), memory, check_interval);
  auto write = [db = state->db, deletions = size_t{0}](const Committer::Batches& batches) mutable {
    rocksdb::WriteBatch all;
    for (const auto& batch : batches) {
      for (const Batch::Write& write : batch->writes) {
        if (!write.value) ++deletions;
        const rocksdb::Status added = write.value ? all.Put(write.key, *write.value) : all.Delete(write.key);
        if (!added.ok()) return Status{Code::kIoError, "gather a commit: " + added.ToString()};
      }
    }
    rocksdb::WriteOptions sync;
    sync.sync = true;
    const rocksdb::Status written = db->Write(sync, &all);
    if (written.ok() && deletions >= kDeletionsAFlush) {
      deletions = 0;
      rocksdb::FlushOptions later;
      later.wait = false;
      later.allow_write_stall = true;  // otherwise Flush() would wait for a stall to end
      if (const rocksdb::Status begun = db->Flush(later); !begun.ok())
        log::warning("metadata store: flush after deletions: {}", begun.ToString());
    }
    return written.ok() ? Status{} : Status{Code::kIoError, "commit: " + written.ToString()};
  };
  auto done = [raw_state = state.get()](uint64_t sequence, const Status& status) {
    raw_state->synced(sequence, status);
  };
  state->committer = std::make_unique<Committer>(executor, std::move(write), std::move(done));
  return std::unique_ptr<RocksDbStore>(new RocksDbStore(std::move(state)));
}

RocksDbStore::RocksDbStore(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->on_failure = [this](const Status& why) { on_failure(why); };
}
RocksDbStore::~RocksDbStore() = default;

std::optional<std::string> RocksDbStore::get(std::string_view key) const {
  if (const std::string* cached = state_->cache.find(key)) return *cached;
  if (const std::optional<std::string>* pending = state_->pending.find(key)) return *pending;
  std::optional<std::string> value = read(*state_->db, {}, key);
  if (value) state_->cache.insert(key, *value);
  return value;
}

void RocksDbStore::scan(std::string_view begin, std::string_view end,
                        const std::function<bool(std::string_view, std::string_view)>& visit) const {
  RocksCursor cursor(*state_->db, {}, state_->empty, begin, end);
  merged_scan(
      cursor, state_->pending.entries(), begin, end,
      [](const PendingWrites::Entry& entry) { return *entry.value ? &**entry.value : nullptr; }, visit);
}

std::unique_ptr<const ReadView> RocksDbStore::snapshot() const {
  return std::make_unique<RocksSnapshot>(state_->db, state_->pending.copy());
}

asio::awaitable<Status> RocksDbStore::commit(Batch batch) {
  if (!state_->barrier.failure().ok()) co_return state_->barrier.failure();
  if (batch.writes.empty()) co_return co_await durable();
  const uint64_t sequence = state_->barrier.issue();
  auto pending = std::make_shared<const PendingBatch>(PendingBatch{sequence, std::move(batch.writes)});
  // Before the first suspension: reads see the batch from here on, in the order of commits.
  state_->pending.add(pending);
  for (Batch::Emptied& range : batch.emptied)
    state_->empty.add(std::move(range.begin), std::move(range.end), range.removed);
  for (const Batch::Write& write : pending->writes) {
    if (write.value) state_->empty.put(write.key);
    state_->cache.write(write.key, write.value);
  }
  if (!state_->work) state_->work.emplace(state_->executor);
  state_->committer->submit(std::move(pending));
  co_return co_await state_->barrier.wait(sequence);
}

const StoreCheck& RocksDbStore::check() const {
  return state_->check;
}

uint64_t RocksDbStore::position() const {
  // RocksDB counts writes for ever, and moves this number only once the log that holds them is synced.
  return state_->db->GetLatestSequenceNumber();
}

StoreSpace RocksDbStore::space() const {
  struct statvfs found{};
  // A directory that cannot be asked is not full; its writes will say what is wrong.
  if (::statvfs(state_->db->GetName().c_str(), &found) != 0) return {};
  // Some file systems have no limit of inodes, and say that they have none at all.
  return {.total_bytes = uint64_t{found.f_blocks} * found.f_frsize,
          .free_bytes = uint64_t{found.f_bavail} * found.f_frsize,
          .free_inodes = found.f_files > 0 ? uint64_t{found.f_favail} : UINT64_MAX};
}

asio::awaitable<Status> RocksDbStore::durable() {
  return state_->barrier.wait(state_->barrier.issued());
}

bool RocksDbStore::is_durable() const {
  return !state_->barrier.pending();
}

asio::awaitable<void> RocksDbStore::close() {
  const Status last = co_await durable();
  if (!last.ok()) log::error("metadata store closes after a failure: {}", last.message());
  state_->committer.reset();
}

}  // namespace kintsugi::metaserver
