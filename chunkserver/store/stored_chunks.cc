#include "chunkserver/store/stored_chunks.h"

#include "common/log/log.h"

namespace kintsugi::chunkserver {

StoredChunks::StoredChunks(const runtime::Runtime& runtime, uint64_t cache_bytes, runtime::TaskGroup& tasks)
    : tasks_(tasks),
      index_(runtime),
      cache_(cache_bytes, runtime.clock),
      usage_(runtime.clock),
      surplus_(runtime, index_) {}

void StoredChunks::follow(StoreRoot& root) {
  root.disk.on_failed = [this, &root] { drop_disk(root); };
  root.segments.cleaner().on_corrupt = [this, &root](ChunkId id) { drop_corrupt_record(root, id); };
  root.segments.cleaner().on_delete = [this](const runtime::File& file) { open_records_.erase_of(file); };
}

void StoredChunks::admit(const OpenChunk& chunk, uint64_t block, std::span<const std::byte> bytes) {
  if (index_.find(chunk.info.id, chunk.generation) == nullptr) return;
  cache_.admit({chunk.info.id, chunk.generation, chunk.info.length}, block, bytes);
}

std::optional<ChunkIndex::Entry> StoredChunks::erase(ChunkId id) {
  std::optional<Entry> entry = index_.erase(id);
  if (entry) {
    open_chunks(*entry).erase(id);
    cache_.erase(id);
  }
  return entry;
}

void StoredChunks::drop_corrupt_record(StoreRoot& root, ChunkId id) {
  const Entry* entry = index_.find(id);
  if (entry == nullptr) return;
  // A record that was replaced by a copy elsewhere only waits for its removal.
  if (entry->root != &root || !entry->in_segment) return;
  drop_corrupt(id, entry->generation, {Code::kCorrupt, "damaged record"});
}

void StoredChunks::drop_corrupt(ChunkId id, uint64_t generation, const Status& why) {
  const Entry* entry = index_.find(id, generation);
  if (entry == nullptr) return;
  log::error("chunk {} on disk {} is lost: {}", id, entry->root->disk.root(), why.to_string());
  drop_lost(id, generation, why.code());
}

bool StoredChunks::drop_lost(ChunkId id, uint64_t generation, Code why) {
  if (index_.find(id, generation) == nullptr) return false;
  const Entry entry = *erase(id);
  ++corrupt_;
  lost_.push_back(entry.info);
  const bool file_is_gone = why == Code::kNotFound && !entry.in_segment;
  if (entry.root->disk.failed() || file_is_gone) return true;
  // Whoever else holds the claim replaces or removes the chunk just now; to clear it away then would hit a new copy.
  if (auto claim = index_.try_claim(id, entry.root)) tasks_.spawn(clear_away(entry, std::move(*claim)));
  return true;
}

asio::awaitable<void> StoredChunks::clear_away(Entry entry, ChunkIndex::Claim claim) {
  // Held until the end of this function; the parameter itself may live longer.
  const ChunkIndex::Claim held = std::move(claim);
  const ChunkId id = entry.info.id;
  if (!entry.in_segment) {
    co_await entry.root->disk.quarantine(entry.root->disk.chunk_path(entry.info), chunk_file_name(id));
    co_return;
  }
  // A record shares its file with others, so there is nothing to move: the tombstone keeps it from coming back.
  Status removed = co_await entry.root->segments.remove(Context{}, id);
  if (!removed.ok()) log::warning("chunk {} stays on the disk: {}", id, removed.to_string());
}

void StoredChunks::drop_disk(StoreRoot& root) {
  for (const ChunkInfo& info : index_.list(root)) {
    lost_.push_back(info);
    erase(info.id);
  }
}

void StoredChunks::add_unusable(const std::vector<ChunkId>& chunks) {
  corrupt_ += chunks.size();
  for (ChunkId id : chunks)
    lost_.push_back({id, 0, 0});
}

void StoredChunks::clear_memory() {
  open_files_.clear();
  open_records_.clear();
  cache_.clear();
}

}  // namespace kintsugi::chunkserver
