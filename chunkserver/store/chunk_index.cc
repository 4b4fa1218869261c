#include "chunkserver/store/chunk_index.h"

#include "chunkserver/store/store_root.h"
#include "common/runtime/fault_points.h"

namespace kintsugi::chunkserver {

const ChunkIndex::Entry* ChunkIndex::find(ChunkId id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

const ChunkIndex::Entry* ChunkIndex::find(ChunkId id, uint64_t generation) const {
  const Entry* entry = find(id);
  return entry != nullptr && entry->generation == generation ? entry : nullptr;
}

void ChunkIndex::insert(Entry entry) {
  if (entry.generation == 0) entry.generation = ++last_generation_;
  const auto [place, inserted] = entries_.emplace(entry.info.id, entry);
  KINTSUGI_ASSERT(inserted);
  stored_bytes_ += entry.info.length;
  if (entry.root != nullptr) ++entry.root->chunks;
}

std::optional<ChunkIndex::Entry> ChunkIndex::erase(ChunkId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return std::nullopt;
  const Entry erased = found->second;
  entries_.erase(found);
  stored_bytes_ -= erased.info.length;
  if (erased.root != nullptr) --erased.root->chunks;
  return erased;
}

std::vector<ChunkInfo> ChunkIndex::list(ChunkId after, size_t limit) const {
  std::vector<ChunkInfo> chunks;
  for (auto entry = entries_.upper_bound(after); entry != entries_.end() && chunks.size() < limit; ++entry)
    chunks.push_back(entry->second.info);
  return chunks;
}

std::vector<ChunkIndex::Entry> ChunkIndex::entries(ChunkId after, size_t limit) const {
  std::vector<Entry> entries;
  for (auto entry = entries_.upper_bound(after); entry != entries_.end() && entries.size() < limit; ++entry)
    entries.push_back(entry->second);
  return entries;
}

std::vector<ChunkInfo> ChunkIndex::list(const StoreRoot& root) const {
  std::vector<ChunkInfo> chunks;
  for (const auto& [id, entry] : entries_) {
    if (entry.root == &root) chunks.push_back(entry.info);
  }
  return chunks;
}

asio::awaitable<Result<ChunkIndex::Claim>> ChunkIndex::claim(ChunkId id, const StoreRoot* disk) {
  for (auto held = claimed_.find(id); held != claimed_.end(); held = claimed_.find(id)) {
    if (const StoreRoot* root = held->second; root != nullptr && !root->disk.failed())
      KINTSUGI_CO_TRY(root->disk.check_answers());
    (void)co_await unclaimed_.wait_until(clock_.now() + kLookAgain);
  }
  claimed_.emplace(id, disk);
  co_return Claim(*this, id);
}

std::optional<ChunkIndex::Claim> ChunkIndex::try_claim(ChunkId id, const StoreRoot* disk) {
  if (!claimed_.emplace(id, disk).second) return std::nullopt;
  return std::optional<Claim>(std::in_place, *this, id);
}

void ChunkIndex::unclaim(ChunkId id) {
  runtime::do_or_lose(faults_, {runtime::FaultPoint::kRelease, "claim"}, [this, id] {
    claimed_.erase(id);
    unclaimed_.notify_all();
  });
}

}  // namespace kintsugi::chunkserver
