/// Keeps the most recently used chunks open, so that a hot one costs no open and no read of its table.
#pragma once

#include <list>
#include <map>

#include "chunkserver/store/disk/open_chunk.h"

namespace kintsugi::chunkserver {

class OpenChunkCache {
 public:
  explicit OpenChunkCache(size_t capacity) : capacity_(capacity) {}

  /// The open chunk, which is now the newest; null when it is not here.
  std::shared_ptr<OpenChunk> find(ChunkId id) {
    auto found = by_id_.find(id);
    if (found == by_id_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return *found->second;
  }
  void insert(std::shared_ptr<OpenChunk> chunk) {
    erase(chunk->info.id);
    order_.push_front(std::move(chunk));
    by_id_[order_.front()->info.id] = order_.begin();
    if (order_.size() > capacity_) erase(order_.back()->info.id);
  }
  void erase(ChunkId id) {
    auto found = by_id_.find(id);
    if (found == by_id_.end()) return;
    order_.erase(found->second);
    by_id_.erase(found);
  }
  /// Erases all chunks of a file; looks at every chunk that is open.
  void erase_of(const runtime::File& file) {
    std::erase_if(by_id_, [&](const auto& entry) { return (*entry.second)->file.get() == &file; });
    std::erase_if(order_, [&](const auto& chunk) { return chunk->file.get() == &file; });
  }
  void clear() {
    by_id_.clear();
    order_.clear();
  }

 private:
  size_t capacity_;
  std::list<std::shared_ptr<OpenChunk>> order_;  ///< newest first
  std::map<ChunkId, std::list<std::shared_ptr<OpenChunk>>::iterator> by_id_;
};

}  // namespace kintsugi::chunkserver
