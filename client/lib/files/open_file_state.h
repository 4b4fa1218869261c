/// One file that is open in this process: what is not written out yet, how it is written out, and what was last heard of it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "client/lib/files/dirty_ranges.h"
#include "client/lib/files/files_shared.h"
#include "client/lib/files/open_file.h"
#include "client/lib/files/stored_reader.h"

namespace kintsugi::client {

/// What OpenFile and OpenHandle stand for; owned by FilesShared::files while it has handles or something to write out.
///
/// Written bytes are in `dirty_`. To be written out they are frozen: they become a layer, which does not change until it is
/// durable. Two layers may be uploaded at the same time; they become part of the file in their order. Newer bytes lie over
/// older ones: dirty_ over the layers, a later layer over an earlier one, all over what is stored.
///
/// Changes have an order, as under the lock of an inode in a local file system: each write, append and operation on the whole
/// file takes `turn_`, and keeps it until it has ended. So an append is whole, also where it waits for memory. Operations on the
/// whole file (truncate, punch, ...) are exclusive moreover: they wait until no layer is under way, and reads wait for them.
class OpenFileState : public std::enable_shared_from_this<OpenFileState> {
 public:
  OpenFileState(FilesShared& shared, proto::Attributes attributes);
  ~OpenFileState();

  uint64_t inode() const { return inode_; }
  proto::Attributes attributes() const;
  uint64_t size() const;

  asio::awaitable<Result<size_t>> read(Context context, uint64_t offset, std::span<std::byte> into);
  asio::awaitable<Status> write(Context context, uint64_t offset, std::span<const std::byte> bytes,
                                bool kill_privileges);
  asio::awaitable<Result<uint64_t>> append(Context context, std::span<const std::byte> bytes,
                                           bool kill_privileges, uint64_t request);
  asio::awaitable<Status> flush(Context context);

  asio::awaitable<Result<proto::Attributes>> set_attributes(Context context,
                                                            proto::SetAttributesRequest request);
  asio::awaitable<Status> allocate(Context context, AllocateMode mode, uint64_t offset, uint64_t length);
  asio::awaitable<Result<uint64_t>> seek(Context context, uint64_t offset, bool data);
  asio::awaitable<Result<uint64_t>> copy_range(Context context, OpenFileState& from, uint64_t from_offset,
                                               uint64_t to_offset, uint64_t length);

  asio::awaitable<Result<proto::Attributes>> refresh(Context context);
  /// Others may have changed the file when the attributes are newer than what this process knows of.
  void adopt(const proto::Attributes& attributes);
  void invalidate(uint64_t begin, uint64_t end);
  /// Where the bytes of a small file lie that has just been opened. May be empty.
  void lies(const proto::OpenReadResponse& where) { stored_reader_.learn(where, stored_.size()); }
  void discard(Status why);
  /// Others have seen the file, and may have changed it, without what is not written out here: that is given up, and handles are
  /// told.
  void lease_lost();
  /// There is no such inode at the metaserver: whatever is done with it fails.
  void is_gone(const Status& why);
  /// The attributes that the metaserver told when it had carried out a change of our own, which was sent when `heard()` was
  /// `since`. An answer that was overtaken by a newer one changes nothing.
  void take(const proto::Attributes& attributes, uint64_t since);
  /// The metaserver has what attributes_set() changed, and told these attributes then.
  void attributes_written(const proto::Attributes& attributes);
  /// How often attributes were heard of the metaserver.
  uint64_t heard() const { return heard_; }
  /// Attributes may be changed without a call: nothing that is under way carries old ones, and they are known.
  bool may_set_attributes() const {
    return !exclusive_ && changes_under_way_ == 0 && layers_.empty() && stored_.changed_ns() != 0;
  }
  void attributes_set(const proto::Attributes& attributes, bool modified);

  // ---- for handles
  void opened() { ++handles_; }
  /// Writes out what the last handle leaves, in the background.
  void close_one();
  bool is_open() const { return handles_ > 0; }
  uint64_t errors() const { return errors_; }
  const Status& last_error() const { return last_error_; }
  /// Bytes whose writing failed for good have nobody any more who could be told.
  void give_up_failed();

  // ---- for FilesShared
  bool is_being_written_out() const { return has_under_way(); }
  bool is_clean() const { return dirty_.empty() && layers_.empty(); }
  /// Begins to write everything out, as far as that may go on now.
  void start_flush();
  void drop_idle_reads(TimePoint before) { stored_reader_.drop_idle(before); }
  /// A piece that a process before this one left, in the order in which they were written.
  void recover(DirtyPiece piece);
  /// Dirty bytes and buffers.
  uint64_t dirty_bytes() const;

 private:
  /// Bytes that are being written out, or whose writing has failed.
  struct Layer {
    uint64_t number = 0;
    uint64_t span = 0;  ///< of the region that writes it out
    DirtyRanges ranges;
    bool under_way = false;
    bool discarded = false;
    bool told = false;  ///< its failure was counted
    Status failure;
  };
  static constexpr size_t kMaxLayers = 2;          ///< under way
  static constexpr size_t kMaxLayerPieces = 8192;  ///< a WriteExtents call fits a frame's header

  /// Freezes what may be written out now and begins to.
  void advance();
  void freeze(DirtyRanges ranges);
  void start(std::shared_ptr<Layer> layer);
  void retry_failed();
  asio::awaitable<void> flush_layer(std::shared_ptr<OpenFileState> self, std::shared_ptr<Layer> layer);
  asio::awaitable<Status> write_out(Context context, std::shared_ptr<Layer> layer);
  asio::awaitable<Status> try_write_out(Context context, std::shared_ptr<Layer> layer);
  /// Waits until the layers before it are durable.
  asio::awaitable<Status> wait_for_turn(Context context, const Layer& layer);
  void layer_is_durable(const Layer& layer, const proto::Attributes& attributes, uint64_t since);
  void record_error(const Status& status);
  /// Everything written before is durable. The error of the oldest layer that failed.
  asio::awaitable<Status> drain(Context context);
  /// The same inside of an exclusive operation.
  asio::awaitable<Status> drain_exclusively(Context context);
  asio::awaitable<Status> wait_for_room(Context context);
  /// REQUIRES: the caller has the turn.
  asio::awaitable<Status> write_in_turn(Context context, uint64_t offset, std::span<const std::byte> bytes,
                                        bool kill_privileges);
  /// The same, at the end of the file; or where a process before this one put these bytes already.
  asio::awaitable<Result<uint64_t>> append_in_turn(Context context, std::span<const std::byte> bytes,
                                                   bool kill_privileges, uint64_t request);
  /// What a process before this one began to append there is in the file, and others appended behind it.
  asio::awaitable<Result<bool>> holds(Context context, uint64_t offset, std::span<const std::byte> bytes);
  /// Until every change that was begun before has ended. Ok: the turn is to be released.
  asio::awaitable<Status> take_turn(Context context);
  void note_dirty();
  void note_clean();
  /// Bytes of a contiguous run that are worth being written out at once.
  uint64_t full_bytes();
  /// Until something changes; `span`: the region that is waited for.
  asio::awaitable<void> wait_for_change(Context context, uint64_t span);
  asio::awaitable<void> wait_while_exclusive(Context context);
  /// The region that writes out the oldest bytes that are being written out.
  uint64_t writing_span() const { return layers_.empty() ? 0 : layers_.front()->span; }
  /// No exclusive operation is in the way.
  bool may_freeze() const { return (!exclusive_ || draining_) && !shared_.handed_over; }
  bool has_failed() const;
  bool kills_privileges() const;
  void each_dirty(const std::function<void(DirtyRanges&)>& change);
  bool has_under_way() const;

  /// Begins an exclusive operation: end_exclusive() ends it.
  asio::awaitable<void> begin_exclusive(Context context);
  void end_exclusive();
  asio::awaitable<Status> set_attributes_exclusively(Context context, proto::SetAttributesRequest& request,
                                                     proto::Attributes& attributes);
  asio::awaitable<Status> make_hole(Context context, AllocateMode mode, uint64_t offset, uint64_t length);
  asio::awaitable<Result<uint64_t>> copy_into(Context context, OpenFileState& from, uint64_t from_offset,
                                              uint64_t to_offset, uint64_t length);
  FilesShared& shared_;
  const uint64_t inode_;
  proto::Attributes stored_;  ///< as last heard, or as attributes_set() left them
  int64_t told_ns_ = 0;       ///< when they changed, as last heard: this machine's clock may be another
  StoredReader stored_reader_;
  size_t handles_ = 0;

  DirtyRanges dirty_;
  std::optional<TimePoint> dirty_since_;       ///< as FilesShared has it
  std::deque<std::shared_ptr<Layer>> layers_;  ///< older ones first
  uint64_t layers_made_ = 0;
  bool want_all_ = false;         ///< everything dirty is to be frozen
  uint64_t look_for_run_at_ = 0;  ///< dirty bytes from which on a full stripe is looked for
  uint64_t errors_ = 0;
  Status last_error_;
  Status gone_;  ///< the inode is no more

  uint64_t full_bytes_ = 0;
  std::string policy_of_full_;
  TimePoint retry_after_{};  ///< layers that failed, in the background

  bool exclusive_ = false, draining_ = false;
  uint64_t turn_span_ = 0;  ///< the region of the exclusive operation
  uint64_t heard_ = 0;
  size_t changes_under_way_ = 0;  ///< calls that change attributes and wait for no turn
  runtime::Semaphore turn_;       ///< one change at a time
  runtime::Event changed_;
};

}  // namespace kintsugi::client
