#include "chunkserver/store/chunk_cache.h"

#include <cstring>

#include "common/base/assert.h"

namespace kintsugi::chunkserver {

std::span<const std::byte> ChunkCache::use(const CachedCopy& chunk, uint64_t block, bool user) {
  if (capacity_ == 0) return {};
  const auto known = chunks_.find(chunk.id);
  const bool same_copy = known != chunks_.end() && known->second.generation == chunk.generation;
  const auto found = same_copy ? blocks_.find({chunk.id, block}) : blocks_.end();
  if (found == blocks_.end()) return {};
  const Blocks::iterator kept = found->second;
  const std::span<const std::byte> bytes(kept->bytes.get(), kept->size);
  if (!user) {
    ++counters_.background_hits;
    return bytes;
  }
  ++counters_.hits;
  counters_.hit_bytes += kept->size;
  if (kept->proven) {
    kept->read = clock_.now();
    proven_.splice(proven_.end(), proven_, kept);
  } else if (clock_.now() - kept->read > kCorrelated) {
    prove(kept);
  }
  return bytes;
}

void ChunkCache::prove(Blocks::iterator block) {
  block->proven = true;
  block->read = clock_.now();
  probation_bytes_ -= block->size;
  proven_.splice(proven_.end(), probation_, block);
}

void ChunkCache::admit(const CachedCopy& chunk, uint64_t block, std::span<const std::byte> bytes) {
  if (capacity_ == 0 || bytes.empty()) return;
  const auto known = chunks_.find(chunk.id);
  // Generations only grow, and the store admits blocks of the current one only: what is here is older.
  if (known != chunks_.end() && known->second.generation != chunk.generation) erase(chunk.id);
  const BlockKey key{chunk.id, block};
  if (blocks_.contains(key)) return;         // two readers missed the block at the same time
  const bool was_here_lately = recall(key);  // must precede make_room(), which may forget the ghost entry
  if (!make_room(bytes.size())) return;
  auto copied = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
  std::memcpy(copied.get(), bytes.data(), bytes.size());
  Blocks& into = was_here_lately ? proven_ : probation_;
  into.push_back(
      {key, std::move(copied), static_cast<uint32_t>(bytes.size()), was_here_lately, clock_.now()});
  blocks_[key] = std::prev(into.end());
  bytes_ += bytes.size();
  if (!was_here_lately) probation_bytes_ += bytes.size();
  Chunk& entry = chunks_[chunk.id];
  entry.generation = chunk.generation;
  entry.length = chunk.length;
  ++counters_.admitted;
  change_bytes(chunk.id, entry, static_cast<int64_t>(bytes.size()));
}

bool ChunkCache::make_room(uint64_t bytes) {
  const uint64_t needed = bytes + kBlockOverhead + kChunkOverhead;
  if (needed > capacity_) return false;
  while (memory_bytes() + needed > capacity_)
    evict_one();
  return true;
}

void ChunkCache::evict_one() {
  const auto share = static_cast<uint64_t>(kProbationShare * static_cast<double>(capacity_));
  // Proven blocks give way only while probation is within its share: a scan, however long, displaces itself.
  if (!probation_.empty() && (probation_bytes_ > share || proven_.empty())) {
    const BlockKey key = probation_.front().key;
    drop(probation_, probation_.begin());
    remember(key);
    ++counters_.evicted;
  } else if (!proven_.empty()) {
    drop(proven_, proven_.begin());
    ++counters_.evicted;
  } else {
    // No block is left, so that what takes the memory is names.
    KINTSUGI_ASSERT(!ghosts_.empty());
    recall(BlockKey{ghosts_.front()});
  }
}

void ChunkCache::drop(Blocks& from, Blocks::iterator block) {
  const BlockKey key = block->key;
  const uint32_t size = block->size;
  bytes_ -= size;
  if (!block->proven) probation_bytes_ -= size;
  blocks_.erase(key);
  from.erase(block);
  const auto chunk = chunks_.find(key.chunk);
  change_bytes(key.chunk, chunk->second, -static_cast<int64_t>(size));
}

void ChunkCache::remember(const BlockKey& key) {
  recall(key);
  ghosts_.push_back(key);
  ghost_of_[key] = std::prev(ghosts_.end());
  forget_names();
}

void ChunkCache::forget_names() {
  while (ghosts_.size() > blocks_.size())
    recall(BlockKey{ghosts_.front()});
}

bool ChunkCache::recall(const BlockKey& key) {
  const auto found = ghost_of_.find(key);
  if (found == ghost_of_.end()) return false;
  ghosts_.erase(found->second);
  ghost_of_.erase(found);
  return true;
}

void ChunkCache::change_bytes(ChunkId id, Chunk& chunk, int64_t by) {
  const bool before = chunk.cached();
  chunk.bytes += static_cast<uint64_t>(by);
  const bool after = chunk.cached();
  if (chunk.bytes == 0) chunks_.erase(id);  // `chunk` is gone from here on
  if (before == after) return;
  cached_chunks_ += after ? 1 : -1;
  on_change(id);
}

void ChunkCache::erase(ChunkId id) {
  auto chunk = chunks_.find(id);
  if (chunk == chunks_.end()) return;
  const uint64_t blocks = blocks_of(chunk->second.length);
  for (uint64_t block = 0; block < blocks; ++block) {
    const auto found = blocks_.find({id, block});
    if (found != blocks_.end()) drop(found->second->proven ? proven_ : probation_, found->second);
  }
}

void ChunkCache::clear() {
  while (!chunks_.empty())
    erase(ChunkId{chunks_.begin()->first});
}

void ChunkCache::drop_unread(TimePoint since) {
  // Both lists are in the order of `read`.
  for (Blocks* list : {&probation_, &proven_}) {
    while (!list->empty() && list->front().read < since) {
      drop(*list, list->begin());
      ++counters_.evicted;
    }
  }
  forget_names();
}

bool ChunkCache::cached(ChunkId id) const {
  const auto found = chunks_.find(id);
  return found != chunks_.end() && found->second.cached();
}

void ChunkCache::for_each_cached(const std::function<void(ChunkId)>& visit) const {
  for (const auto& [id, chunk] : chunks_) {
    if (chunk.cached()) visit(id);
  }
}

uint64_t ChunkCache::memory_bytes() const {
  return bytes_ + blocks_.size() * kBlockOverhead + chunks_.size() * kChunkOverhead +
         ghosts_.size() * kGhostOverhead;
}

}  // namespace kintsugi::chunkserver
