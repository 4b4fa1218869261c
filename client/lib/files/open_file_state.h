/// One file that is open in this process: its parts, and what is done with them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "client/lib/files/change_turns.h"
#include "client/lib/files/file_attributes.h"
#include "client/lib/files/file_handles.h"
#include "client/lib/files/file_owner.h"
#include "client/lib/files/files_shared.h"
#include "client/lib/files/open_file.h"
#include "client/lib/files/stored_reader.h"
#include "client/lib/files/whole_file_changes.h"
#include "client/lib/files/write_back.h"

namespace kintsugi::client {

/// What OpenFile and OpenHandle stand for; owned by FilesShared::files while it has handles or something to write out.
/// Reads see what is not written out (WriteBack) over what is stored (StoredReader); changes have an order
/// (ChangeTurns).
class OpenFileState : public std::enable_shared_from_this<OpenFileState>, private FileOwner {
 public:
  OpenFileState(FilesShared& shared, proto::Attributes attributes);

  uint64_t inode() const { return attributes_.inode(); }
  proto::Attributes attributes() const { return write_back_.attributes(); }
  uint64_t size() const { return write_back_.size(); }

  // ---- as OpenFile has them
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

  // ---- what others do to the file
  asio::awaitable<Result<proto::Attributes>> refresh(Context context);
  /// Asks for what others did to the file. Under a lease nobody can have done anything, and nothing is asked.
  asio::awaitable<Status> see_others(Context context);
  /// Others may have changed the file when the attributes are newer than what this process knows of.
  bool adopt(const proto::Attributes& attributes) override;
  int64_t changed_by_others_ns() const { return attributes_.changed_by_others_ns(); }
  void invalidate(uint64_t begin, uint64_t end) { reader_.forget(begin, end); }
  /// Learns where the bytes of a small file lie that has just been opened. May be empty.
  void learn_locations(const proto::OpenReadResponse& where) {
    reader_.locator().learn(where, attributes_.size());
  }
  void discard(Status why) { write_back_.discard(std::move(why)); }
  void lease_lost() { write_back_.lease_lost(); }
  /// Returns true if bytes, or an operation on the whole file, may be under way to the metaserver.
  bool is_sending() const { return is_being_written_out() || turns_.is_exclusive(); }
  /// Waits until nothing is. Nothing more is begun then before go_on_sending(), which follows.
  asio::awaitable<void> stop_sending(Context context) { return changes_.begin_exclusive(context); }
  void go_on_sending() { changes_.end_exclusive(); }
  void is_gone(const Status& why) { write_back_.is_gone(why); }

  // ---- attributes that are changed without a call, under a lease
  /// Nothing that is under way carries old ones, and they are known.
  bool may_set_attributes() const;
  /// `modified`: the time of the bytes was set, too.
  void attributes_set(const proto::Attributes& attributes, bool modified);
  /// The metaserver has what attributes_set() changed, and told these attributes then.
  void attributes_written(const proto::Attributes& attributes) { attributes_.take_written(attributes); }

  /// It has not, and will not: every handle is told `why`.
  void attributes_refused(const Status& why);

  // ---- for handles
  FileHandles& handles() { return handles_; }
  bool is_open() const { return handles_.any(); }
  /// Writes out what the last handle leaves, in the background.
  void close_one();

  // ---- for FilesShared
  bool is_being_written_out() const { return write_back_.dirty().has_under_way(); }
  bool is_clean() const { return write_back_.is_clean(); }
  void start_flush() { write_back_.start_flush(); }
  void drop_idle_reads(TimePoint before) { reader_.drop_idle(before); }
  /// Takes over a piece that a process before this one left; to be called in the order in which they were written.
  void recover(DirtyPiece piece) { write_back_.recover(std::move(piece)); }
  uint64_t dirty_bytes() const { return write_back_.dirty().bytes(); }

 private:
  std::shared_ptr<void> pin() override { return shared_from_this(); }
  void take_answer(const proto::Attributes& attributes, uint64_t since) override;

  /// Writes the bytes. REQUIRES: the caller has the turn.
  asio::awaitable<Status> write_in_turn(Context context, uint64_t offset, std::span<const std::byte> bytes,
                                        bool kill_privileges);
  /// Writes the bytes at the end of the file, or where a process before this one put them already. REQUIRES: the caller
  /// has the turn.
  asio::awaitable<Result<uint64_t>> append_in_turn(Context context, std::span<const std::byte> bytes,
                                                   bool kill_privileges, uint64_t request);
  /// Returns true if what a process before this one began to append there is in the file, and others appended behind
  /// it.
  asio::awaitable<Result<bool>> holds(Context context, uint64_t offset, std::span<const std::byte> bytes);
  /// The same when that was asked more than kBelieved ago. A metaserver that does not answer within that time is not
  /// waited for: what is known of the file is read.
  asio::awaitable<void> see_others_at_times(Context context);
  asio::awaitable<Result<uint64_t>> seek_data(Context context, uint64_t offset, uint64_t size);
  asio::awaitable<Result<uint64_t>> seek_hole(Context context, uint64_t offset, uint64_t size);

  FilesShared& shared_;
  FileAttributes attributes_;
  FileHandles handles_;
  StoredReader reader_;
  WriteBack write_back_;
  ChangeTurns turns_;
  WholeFileChanges changes_;
  TimePoint asked_again_at_;  ///< until then reads believe what is known of the file
};

}  // namespace kintsugi::client
