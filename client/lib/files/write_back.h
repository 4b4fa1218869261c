/// Writes of one file: taken into memory at once, and written out in the background.
#pragma once

#include <cstdint>
#include <span>

#include "client/lib/dirty/dirty_layers.h"
#include "client/lib/dirty/full_runs.h"
#include "client/lib/files/file_attributes.h"
#include "client/lib/files/file_handles.h"
#include "client/lib/files/file_owner.h"
#include "client/lib/files/files_shared.h"
#include "client/lib/files/stored_reader.h"

namespace kintsugi::client {

/// What is written out is a layer (DirtyLayers), which does not change until it is durable. Two layers may be uploaded
/// at the same time; they become part of the file in their order. Layers that failed stay, and are tried again in
/// their order.
class WriteBack {
 public:
  WriteBack(FilesShared& shared, FileOwner& owner, FileAttributes& attributes, StoredReader& reader,
            FileHandles& handles);
  WriteBack(const WriteBack&) = delete;

  // ---- what is not durable yet
  uint64_t inode() const { return inode_; }
  const DirtyLayers& dirty() const { return dirty_; }
  bool is_clean() const { return dirty_.empty(); }
  /// Returns the size of the file with the bytes that are not written out yet.
  uint64_t size() const { return std::max(attributes_.size(), dirty_.end()); }
  proto::Attributes attributes() const;

  /// Takes all of the bytes. Waits while too much is not written out: kUnavailable when no memory comes free, and the
  /// error of an upload that fails for good. The error with which the file is gone.
  asio::awaitable<Status> write(Context context, uint64_t offset, std::span<const std::byte> bytes,
                                bool kill_privileges);
  /// Takes over a piece that a process before this one left; to be called in the order in which they were written.
  void recover(DirtyPiece piece);

  // ---- writing out
  /// Begins to write everything out, as far as that may continue now.
  void start_flush();
  /// Waits until everything that was written before is durable. The error of the oldest layer that failed.
  asio::awaitable<Status> drain(Context context);

  // ---- for an operation on the whole file, between pause() and resume(), or while there are no layers
  /// Nothing more is frozen, but by drain_while_paused().
  void pause() { paused_ = true; }
  void resume();
  asio::awaitable<void> wait_for_uploads(Context context);
  asio::awaitable<Status> drain_while_paused(Context context);
  void cut(uint64_t size);
  void set_modified(int64_t modified_ns) { dirty_.set_modified(modified_ns); }
  void keep_privileges() { dirty_.keep_privileges(); }

  // ---- what cannot be written out any more
  /// Gives up what is not written out: every handle is told `why`.
  void discard(Status why);
  /// Others have seen the file, and may have changed it, without what is not written out here: that is given up.
  void lease_lost();
  /// There is no such inode at the metaserver: whatever is done with it fails.
  void is_gone(const Status& why);
  const Status& gone() const { return gone_; }
  /// Bytes whose writing failed for good have nobody any more who could be told.
  void give_up_failed();

 private:
  using Layer = DirtyLayers::Layer;
  static constexpr size_t kMaxLayers = 2;          ///< layers that are being written out
  static constexpr size_t kMaxLayerPieces = 8192;  ///< the WriteExtents call must fit into a frame's header

  asio::awaitable<Status> wait_for_room(Context context);

  // ---- freezing
  bool may_freeze() const { return (!paused_ || draining_) && !shared_.handed_over; }
  /// Freezes what may be written out now and begins to.
  void advance();
  void freeze(DirtyRanges ranges);
  void start(const Layer& layer);
  void retry_failed();

  // ---- uploading
  asio::awaitable<void> flush_layer(std::shared_ptr<void> owner, Layer layer);
  asio::awaitable<Status> write_out(Context context, Layer layer);
  asio::awaitable<Status> try_write_out(Context context, Layer layer);
  asio::awaitable<Status> write_small(Context context, Layer layer, UploadMember member);
  /// Waits until the layers before it are durable.
  asio::awaitable<Status> wait_for_turn(Context context, const DirtyLayer& layer);
  void layer_is_durable(const DirtyLayer& layer, const proto::Attributes& attributes, uint64_t since);
  void layer_failed(DirtyLayer& layer, const Status& status);
  /// Waits until something changes; `span`: the region that is waited for.
  asio::awaitable<void> wait_for_change(Context context, uint64_t span);

  FilesShared& shared_;
  FileOwner& owner_;
  FileAttributes& attributes_;
  StoredReader& reader_;
  FileHandles& handles_;
  const uint64_t inode_;

  DirtyLayers dirty_;
  DirtySince dirty_since_;
  FullRuns full_runs_;
  bool want_all_ = false;  ///< all dirty data is to be frozen
  bool paused_ = false, draining_ = false;
  Status gone_;
  TimePoint retry_after_{};  ///< when failed layers are retried in the background
  runtime::Event changed_;
};

}  // namespace kintsugi::client
