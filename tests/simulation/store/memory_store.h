/// The KeyValueStore of the simulator: in memory, with a disk that survives its process and forgets what was
/// not synced.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/runtime/clock.h"
#include "metaserver/kv/durability_barrier.h"
#include "metaserver/kv/key_value_store.h"

namespace kintsugi::simulation {

using metaserver::Batch;
using metaserver::DurabilityBarrier;
using metaserver::KeyValueStore;
using metaserver::ReadView;

/// The disk, which outlives a crash. At most one MemoryStore uses it at a time.
class MemoryStoreDisk {
 public:
  using Map = std::map<std::string, std::string, std::less<>>;

  /// The process dies. The first `survivors` of the batches on their way reach the disk all the same: writes that
  /// nobody acknowledged may survive a crash, in order. The store in use fails from now on and must be replaced by a
  /// new one.
  void crash(size_t survivors = 0);
  /// Every sync from the next one on fails.
  void fail_syncs() { broken_ = true; }

  /// What a store on it says; writes succeed all the same.
  uint64_t free_bytes = UINT64_MAX, free_inodes = UINT64_MAX;

  const Map& durable() const { return durable_; }
  /// What is durable now, to be put back later, as somebody does who restores an old copy of the files.
  struct Copy {
    Map durable;
    uint64_t position = 0;
  };
  Copy copy() const { return {durable_, position_}; }
  /// REQUIRES: no store is open.
  void put_back(Copy copy);
  size_t unsynced_batches() const { return unsynced_.size(); }

 private:
  friend class MemoryStore;
  void apply_front();

  Map durable_;
  uint64_t position_ = 0;  ///< durable batches
  std::deque<std::vector<Batch::Write>> unsynced_;
  uint64_t owner_ = 0;  ///< bumped by a crash and by each new store
  bool broken_ = false;
};

class MemoryStore final : public KeyValueStore {
 public:
  /// Opens what is durable on `disk`, which must outlive it. A sync takes `sync_latency` and covers all batches that
  /// came before it began.
  MemoryStore(asio::any_io_executor executor, runtime::Clock& clock, MemoryStoreDisk& disk,
              Duration sync_latency = std::chrono::microseconds(200));
  ~MemoryStore() override;

  std::optional<std::string> get(std::string_view key) const override;
  void scan(std::string_view begin, std::string_view end,
            const std::function<bool(std::string_view, std::string_view)>& visit) const override;
  std::unique_ptr<const ReadView> snapshot() const override;
  asio::awaitable<Status> commit(Batch batch) override;
  uint64_t position() const override { return disk_.position_; }
  metaserver::StoreSpace space() const override {
    return {.free_bytes = disk_.free_bytes, .free_inodes = disk_.free_inodes};
  }
  asio::awaitable<Status> durable() override;
  bool is_durable() const override { return !barrier_.pending(); }
  asio::awaitable<void> close() override;

 private:
  void begin_sync();
  void end_sync(size_t batches);
  bool owns_disk() const { return disk_.owner_ == owner_; }

  runtime::Clock& clock_;
  MemoryStoreDisk& disk_;
  uint64_t owner_;
  Duration sync_latency_;
  DurabilityBarrier barrier_;
  uint64_t synced_ = 0;
  std::shared_ptr<MemoryStoreDisk::Map> view_;  ///< copied before a write while a snapshot shares it
  runtime::TimerId timer_ = runtime::TimerId::kNone;
};

}  // namespace kintsugi::simulation
