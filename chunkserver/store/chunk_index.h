/// Knows which chunks a ChunkStore has, where each of them is, and who may change that now.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/chunk_info.h"
#include "common/base/status.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"

namespace kintsugi::chunkserver {

struct StoreRoot;

/// Every copy of a chunk that this server ever had gets a generation of its own, so that whoever acts on what it saw
/// before it waited (a reader that found damage, say) can tell whether the chunk is still the one that it saw.
///
/// The claim of a chunk is the right to change what is on the disk under its name. Whoever writes, removes or
/// quarantines a chunk holds it meanwhile; readers need none.
class ChunkIndex {
 public:
  struct Entry {
    ChunkInfo info;
    StoreRoot* root = nullptr;
    bool in_segment = false;
    uint64_t generation = 0;  ///< 0: insert() gives a new one
  };

  explicit ChunkIndex(const runtime::Runtime& runtime)
      : clock_(runtime.clock), faults_(runtime.faults), unclaimed_(runtime) {}

  /// Null when there is none. Valid until the index changes.
  const Entry* find(ChunkId id) const;
  /// Null also when another copy has taken the place of that `generation`.
  const Entry* find(ChunkId id, uint64_t generation) const;
  /// REQUIRES: no chunk of this name is here.
  void insert(Entry entry);
  /// Returns the entry that was there.
  std::optional<Entry> erase(ChunkId id);

  size_t size() const { return entries_.size(); }
  uint64_t stored_bytes() const { return stored_bytes_; }
  /// Up to `limit` chunks greater than `after`, sorted by id.
  std::vector<ChunkInfo> list(ChunkId after, size_t limit) const;
  /// Lists chunks like list(), with all that is known of each.
  std::vector<Entry> entries(ChunkId after, size_t limit) const;
  /// All chunks of one disk, sorted by id.
  std::vector<ChunkInfo> list(const StoreRoot& root) const;

  /// Gives the claim back when it is destroyed. Move-only.
  class [[nodiscard]] Claim {
   public:
    Claim(ChunkIndex& index, ChunkId id) : index_(&index), id_(id) {}
    Claim(Claim&& other) noexcept : index_(std::exchange(other.index_, nullptr)), id_(other.id_) {}
    Claim& operator=(Claim&&) = delete;
    /// From here on the holder uses this disk.
    void uses(const StoreRoot& disk) { index_->claimed_[id_] = &disk; }
    ~Claim() {
      if (index_ != nullptr) index_->unclaim(id_);
    }

   private:
    ChunkIndex* index_;
    ChunkId id_;
  };
  /// Waits until the claim is free. Its holder will use this disk, if any. kUnavailable: whoever has it waits for a
  /// disk that hangs.
  asio::awaitable<Result<Claim>> claim(ChunkId id, const StoreRoot* disk);
  /// Returns nothing when somebody else has it.
  std::optional<Claim> try_claim(ChunkId id, const StoreRoot* disk);

  /// Pause between two checks whether the disk of a claim's holder hangs.
  static constexpr Duration kLookAgain = std::chrono::seconds(1);

 private:
  void unclaim(ChunkId id);

  const runtime::Clock& clock_;
  runtime::FaultPoints* const faults_;
  std::map<ChunkId, Entry> entries_;
  uint64_t stored_bytes_ = 0;  ///< bytes of all chunks
  uint64_t last_generation_ = 0;
  std::map<ChunkId, const StoreRoot*> claimed_;  ///< value: the disk that the claim's holder uses; null: none
  runtime::Event unclaimed_;
};

}  // namespace kintsugi::chunkserver
