/// Puts chunks into the store and takes them out of it, for good.
#pragma once

#include <memory>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/chunk_file.h"
#include "chunkserver/store/disk/disk_calls.h"
#include "chunkserver/store/disk/owned_span.h"
#include "chunkserver/store/removed_lately.h"
#include "chunkserver/store/stored_chunks.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// A chunk that came whole and matches its checksum, but is not in the store yet.
struct FinishedChunk {
  ChunkHeader header;
  std::vector<uint32_t> block_crcs;
  StoreRoot& root;                        ///< disk to which the chunk was written
  std::shared_ptr<ChunkFileWriter> file;  ///< null: the chunk is small, and its bytes are in `data`
  OwnedBytes data;
  /// When the write began. A removal since then wins: the chunk must not be committed.
  TimePoint began;
};

/// Is told that chunks are wanted here.
class WriteListener {
 public:
  /// A chunk of this name is about to be written or committed.
  virtual void on_write(ChunkId id) = 0;

 protected:
  ~WriteListener() = default;
};

/// A change of a chunk holds its claim, so that one comes after the other. References outlive it.
class ChunkChanges {
 public:
  /// Removals and commits that nobody waits for any more end in `tasks`.
  ChunkChanges(const runtime::Runtime& runtime, StoredChunks& chunks, DiskCalls& calls,
               runtime::TaskGroup& tasks)
      : runtime_(runtime), chunks_(chunks), calls_(calls), tasks_(tasks) {}

  /// Names who is told from here on; null: nobody is.
  void set_listener(WriteListener* listener) { listener_ = listener; }
  void tell_of_write(ChunkId id) {
    if (listener_ != nullptr) listener_->on_write(id);
  }

  /// kConflict: the chunk was removed within RemovedLately::kMemory. A client writes each chunk once, so this is a late
  /// write.
  Status check_not_removed(ChunkId id);
  /// Makes the chunk durable and visible. kAlreadyExists: another chunk has its name; an equal one is replaced.
  /// kUnavailable: the disk began to hang. After an error nothing of it is left, or will be when the disk answers.
  asio::awaitable<Status> commit(Context context, FinishedChunk chunk);
  /// The chunk is hidden at once, and gone for good on return. kNotFound.
  asio::awaitable<Status> remove(Context context, ChunkId id);
  /// Discards what was written of a chunk; nobody waits for that.
  void discard_later(std::shared_ptr<ChunkFileWriter> file);

  DiskCalls& disk_calls() { return calls_; }
  uint64_t committed() const { return committed_; }  ///< chunks since the start
  uint64_t removed() const { return removed_; }      ///< chunks since the start

 private:
  using Entry = ChunkIndex::Entry;
  using SharedClaim = std::shared_ptr<ChunkIndex::Claim>;

  /// The commit itself, which owns what it uses: its caller may have gone when the disk answers.
  asio::awaitable<Status> carry_out_commit(Context context, FinishedChunk chunk,
                                           std::shared_ptr<const Abandoned> abandoned);
  asio::awaitable<Status> commit_claimed(Context context, FinishedChunk& chunk, const Abandoned& abandoned,
                                         SharedClaim claim);
  asio::awaitable<Status> remove_claimed(Context context, ChunkId id);
  /// Keeps the claim until the copy is gone, and may continue after its caller has.
  asio::awaitable<Status> remove_replaced(Context context, Entry old, SharedClaim claim);
  asio::awaitable<void> discard(std::shared_ptr<ChunkFileWriter> file);

  const runtime::Runtime& runtime_;
  StoredChunks& chunks_;
  DiskCalls& calls_;
  runtime::TaskGroup& tasks_;
  WriteListener* listener_ = nullptr;
  RemovedLately removed_lately_;
  uint64_t committed_ = 0, removed_ = 0;
};

}  // namespace kintsugi::chunkserver
