/// Finds the chunks of one disk when a store starts.
#pragma once

#include <memory>
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

  ChunkLoader(const runtime::Runtime& runtime, StoreRoot& root) : runtime_(runtime), root_(root) {}

  /// Finds every chunk of the disk. A file says by its name what it is, and is opened when it is read; those that an
  /// older version named are opened, and named anew. An error means that the disk cannot be used. It ends soon when
  /// the disk has failed.
  asio::awaitable<Status> find();
  /// Puts what was found into the index, unless another disk has it already.
  void put_into(ChunkIndex& index);
  /// Takes what was found. put_into() does this too.
  std::vector<ChunkIndex::Entry> take_found();
  StoreRoot& root() const { return root_; }
  /// Chunks of an older version whose files were there but cannot be used; damaged ones are in quarantine now.
  const std::vector<ChunkId>& unusable() const { return unusable_; }
  /// Copies that another disk has too, and which put_into() left out of the index: one that was replaced, or removed,
  /// may be back after a loss of power.
  const std::vector<ChunkIndex::Entry>& surplus() const { return surplus_; }

 private:
  asio::awaitable<Status> load_files();
  asio::awaitable<void> load_directory(const std::string& directory, const std::vector<std::string>& names);
  asio::awaitable<void> take_over(const std::vector<ChunkId>& old, size_t& next);

  const runtime::Runtime& runtime_;
  StoreRoot& root_;
  std::vector<ChunkInfo> files_;  ///< chunks that have a file of their own
  std::vector<ChunkId> unusable_;
  std::vector<ChunkIndex::Entry> surplus_;
};

/// Keeps the loader for as long as its work takes.
inline asio::awaitable<Status> find_chunks(std::shared_ptr<ChunkLoader> chunks) {
  co_return co_await chunks->find();
}

}  // namespace kintsugi::chunkserver
