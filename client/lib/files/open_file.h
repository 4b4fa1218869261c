/// One file that is open in this process, with what was written to it and is not durable yet.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/runtime/context.h"

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::client {

class OpenFileState;

/// How space of a file is allocated or given up, as fallocate has it.
struct AllocateMode {
  bool keep_size = false;
  bool punch_hole = false;  ///< requires keep_size
  bool zero_range = false;
};

/// Shared by all handles of an inode in this process: a write is seen by every read that begins after it, whatever
/// handle they use. All operations may run at once; those that change the file have an order. Made by OpenFiles.
///
/// Writes are kept in memory and written out in the background: when a stripe is full, when memory is short, some
/// seconds after, or by sync. Until sync returns ok, a crash of this process may lose them.
///
/// While servers do not answer, operations wait up to the I/O timeout: kUnavailable then. Other errors: kStale (the
/// inode is gone), kLeaseLost (others had the file meanwhile, and what was not written out is given up), kNoSpace,
/// kQuota, kFileTooLarge.
class OpenFile {
 public:
  explicit OpenFile(std::shared_ptr<OpenFileState> state) : state_(std::move(state)) {}

  uint64_t inode() const;
  /// As last heard from the metaserver, with the size, time and mode that follow from what is not written out yet.
  proto::Attributes attributes() const;
  uint64_t size() const;

  /// Fills `into` from `offset` on; fewer bytes only at the end of the file. Returns how many.
  asio::awaitable<Result<size_t>> read(Context context, uint64_t offset, std::span<std::byte> into);
  /// Ok: the bytes are taken, all of them; `bytes` is the caller's again. Waits while too much is not written out.
  /// `kill_privileges`: as after a write by a user that is not root.
  asio::awaitable<Status> write(Context context, uint64_t offset, std::span<const std::byte> bytes,
                                bool kill_privileges = false);
  /// Writes at the end of the file as this process knows it, whole: no other write or append of this process comes
  /// between. Returns the offset. `request`, unless 0: the number under which the same append may come again to the
  /// process that takes over from this one: it goes where it went (OpenFiles::note_appends).
  asio::awaitable<Result<uint64_t>> append(Context context, std::span<const std::byte> bytes,
                                           bool kill_privileges = false, uint64_t request = 0);

  /// Any change of attributes, the size included, in order with the writes. `change` and `inode` are filled in here.
  asio::awaitable<Result<proto::Attributes>> set_attributes(Context context,
                                                            proto::SetAttributesRequest request);
  asio::awaitable<Status> truncate(Context context, uint64_t size);
  /// kNotSupported: a mode that there is none of.
  asio::awaitable<Status> allocate(Context context, AllocateMode mode, uint64_t offset, uint64_t length);
  /// The first byte from `offset` on that is data, or in a hole (the end of the file is one). kNoData: none; kRange:
  /// beyond the end. What is not written out yet is data.
  asio::awaitable<Result<uint64_t>> seek_data(Context context, uint64_t offset);
  asio::awaitable<Result<uint64_t>> seek_hole(Context context, uint64_t offset);
  /// Has this file share `length` bytes of `from`, cut at the end of that; returns how many bytes were copied, which
  /// may be fewer. Both are written out before.
  asio::awaitable<Result<uint64_t>> copy_range(Context context, OpenFile& from, uint64_t from_offset,
                                               uint64_t to_offset, uint64_t length);

  /// Everything written before is durable; or the error that an attempt ended with. Handles use OpenHandle::sync, which
  /// misses no error.
  asio::awaitable<Status> flush(Context context);

  // ---- what others do to the file
  /// Asks the metaserver; what was changed by others since is seen from now on (close-to-open).
  asio::awaitable<Result<proto::Attributes>> refresh(Context context);
  /// Takes attributes that the metaserver told in another answer.
  void adopt(const proto::Attributes& attributes);
  /// Others have, or may have, changed it since it was opened here, last at this time (Attributes::changed_ns): whatever keeps bytes
  /// that were read before has old ones. 0: nobody did, as far as is known here.
  int64_t changed_by_others_ns() const;
  /// Another client changes that range (length 0: to the end): what is known or read ahead of it is forgotten.
  void invalidate(uint64_t offset = 0, uint64_t length = 0);
  /// Drops what was not written out, as after the loss of a lease: every handle's next sync or close says `why`.
  void discard(Status why);

  const std::shared_ptr<OpenFileState>& state() const { return state_; }

 private:
  std::shared_ptr<OpenFileState> state_;
};

/// One open of a file. The inode is held (Session) as long as it has handles. REQUIRES, before it is destroyed:
/// close().
class OpenHandle {
 public:
  /// Use OpenFiles::open.
  explicit OpenHandle(std::shared_ptr<OpenFileState> state);
  ~OpenHandle();

  OpenFile& file() { return file_; }
  /// Everything that was written to the file before is durable. Every error of writing out is told once to each handle
  /// that was open when it happened: by its next sync, check or close.
  asio::awaitable<Status> sync(Context context);
  /// An error that was not told yet, without writing out. What close(2) of one of several descriptors says.
  Status check();
  /// The last close of a file writes it out first when `wait`, else it is written out in the background: at once, or
  /// under a write lease (Session::has_lease) after FilesOptions::write_behind or when another client wants it. Bytes
  /// whose writing has failed for good are given up with the last handle.
  asio::awaitable<Status> close(Context context, bool wait = false);

 private:
  OpenFile file_;
  uint64_t errors_seen_;
  bool closed_ = false;
};

}  // namespace kintsugi::client
