/// Finds the chunks of one disk when a store starts.
#pragma once

#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/chunk_index.h"
#include "chunkserver/store/store_root.h"
#include "common/runtime/runtime.h"

namespace kintsugi::chunkserver {

/// References outlive it.
class ChunkLoader {
 public:
  static constexpr size_t kProbesAtOnce = 16;

  ChunkLoader(const runtime::Runtime& runtime, StoreRoot& root, ChunkIndex& index)
      : runtime_(runtime), root_(root), index_(index) {}

  /// Puts every chunk of the disk into the index, unless another disk has it already. A disk that cannot be read
  /// is dropped.
  asio::awaitable<void> load();
  /// Chunks whose files were there but cannot be used; damaged ones are in quarantine now.
  const std::vector<ChunkId>& unusable() const { return unusable_; }
  /// Copies of this disk that another disk has too, and which are not in the index: one that was replaced, or removed, may
  /// be back after a loss of power.
  const std::vector<ChunkIndex::Entry>& surplus() const { return surplus_; }

 private:
  asio::awaitable<Status> load_files();
  asio::awaitable<void> load_names(const std::string& directory, const std::vector<std::string>& names,
                                   size_t& next);
  asio::awaitable<void> load_file(const std::string& directory, const std::string& name);
  void adopt(const ChunkInfo& info, bool in_segment);

  const runtime::Runtime& runtime_;
  StoreRoot& root_;
  ChunkIndex& index_;
  std::vector<ChunkId> unusable_;
  std::vector<ChunkIndex::Entry> surplus_;
};

}  // namespace kintsugi::chunkserver
