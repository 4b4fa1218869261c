#include "client/mount/file_operations.h"

#include <algorithm>

#include <fcntl.h>
#include <linux/falloc.h>

#include "client/lib/files/open_flags.h"
#include "client/mount/request_caller.h"
#include "common/posix/set_ids.h"

namespace kintsugi::mount {
namespace {

constexpr size_t kBuffers = 64;
constexpr size_t kBufferBytes = 1 << 20;

bool writes(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY;
}

}  // namespace

FileOperations::FileOperations(const runtime::Runtime& runtime, client::OpenFiles& files,
                               KernelBeliefs& beliefs, OpenHandles& handles, CachedPages& pages,
                               LockOperations& locks)
    : files_(files),
      beliefs_(beliefs),
      handles_(handles),
      pages_(pages),
      locks_(locks),
      buffers_(runtime, kBuffers, kBufferBytes) {}

asio::awaitable<Result<OpenAnswer>> FileOperations::open_told(const Caller& caller, proto::Attributes told,
                                                              OpenFlags flags, bool made_now,
                                                              const proto::OpenReadResponse* where) {
  // GetInode has had the inode held: a hold and a release make the session tell it to let go.
  if (Status may_open = client::check_may_open(told.inode(), flags.flags); !may_open.ok()) {
    files_.session().hold(told.inode());
    files_.session().release(told.inode());
    co_return may_open;
  }
  std::unique_ptr<client::OpenHandle> handle = files_.open(told, true, where);
  if ((flags.flags & O_TRUNC) != 0 && handle->file().size() > 0) {
    proto::SetAttributesRequest request;
    *request.mutable_caller() = caller_of(caller);
    request.set_size(0);
    request.set_opened_for_writing(true);
    request.set_kill_privileges(flags.kill_setid);
    const auto cut = co_await handle->file().set_attributes(caller.context, std::move(request));
    if (!cut) {
      (void)co_await handle->close(caller.context);
      co_return cut.error();
    }
  }
  const proto::Attributes now = handle->file().attributes();
  OpenAnswer answer;
  answer.keep_cache = pages_.has(now);
  if (!answer.keep_cache) pages_.dropped_by_kernel(handle->file());
  // The kernel may have attributes from before; whoever opens a file must see what others wrote before they closed it.
  if (!answer.keep_cache && !made_now) {
    const runtime::Wait wait(caller.context, runtime::WaitKind::kResource,
                             runtime::named_target(caller.context, "kernel"));
    co_await pages_.attributes_changed(told.inode());
  }
  answer.direct_io = (flags.flags & O_DIRECT) != 0;
  answer.parallel_direct_writes = answer.direct_io;
  answer.handle = handles_.keep(std::move(handle));
  co_return answer;
}

asio::awaitable<Result<OpenAnswer>> FileOperations::open(const Caller& caller, NodeId node, OpenFlags flags) {
  KINTSUGI_CO_TRY(handles_.check_room());
  const proto::Attributes* unsent = files_.names().unsent(node);
  if (unsent && (!writes(flags.flags) || files_.session().has_lease(node))) {
    beliefs_.told(caller, *unsent);
    co_return co_await open_told(caller, *unsent, flags, true);
  }
  proto::OpenReadResponse where;
  auto told = co_await files_.calls().get(caller.context, node, true, writes(flags.flags),
                                          writes(flags.flags) ? nullptr : &where);
  if (!told) co_return told.error();
  if (told->type() == proto::Attributes::DIRECTORY) co_return Status{Code::kIsDirectory, "is a directory"};
  beliefs_.told(caller, *told);
  co_return co_await open_told(caller, std::move(*told), flags, false, &where);
}

asio::awaitable<Result<ReadAnswer>> FileOperations::read(const Caller& caller, NodeId node,
                                                         const ReadRequest& request) {
  KINTSUGI_CO_ASSIGN(const OpenHandles::OpenedPtr file,
                     co_await handles_.opened(caller, node, request.handle));
  runtime::Buffer buffer = buffers_.try_acquire();
  if (!buffer) {
    const runtime::Wait wait(caller.context, runtime::WaitKind::kResource,
                             runtime::named_target(caller.context, "buffers"));
    KINTSUGI_CO_ASSIGN(buffer, co_await buffers_.acquire(TimePoint::max()));
  }
  const auto into = buffer.first(std::min<size_t>(request.bytes, buffer.size()));
  const auto bytes = co_await file->handle->file().read(caller.context, request.offset, into);
  if (!bytes) co_return bytes.error();
  ReadAnswer answer;
  answer.ranges.push_back(into.first(*bytes));
  answer.owner = std::make_shared<runtime::Buffer>(std::move(buffer));
  co_return answer;
}

asio::awaitable<Result<uint32_t>> FileOperations::write(const Caller& caller, NodeId node,
                                                        const WriteRequest& request) {
  KINTSUGI_CO_ASSIGN(const OpenHandles::OpenedPtr file,
                     co_await handles_.opened(caller, node, request.handle));
  client::OpenHandle& handle = *file->handle;
  file->written = true;
  const bool kills = request.kill_setid && (handle.file().attributes().mode() & posix::kSetIdBits) != 0;
  Status written;
  if ((request.flags & O_APPEND) != 0 && !request.from_page_cache) {
    // The kernel sends it again when this process is killed: the next one must not append it behind itself.
    const auto at =
        co_await handle.file().append(caller.context, request.data, request.kill_setid, caller.unique);
    if (!at) written = at.error();
  } else {
    written = co_await handle.file().write(caller.context, request.offset, request.data, request.kill_setid);
  }
  if (written.ok() && (request.flags & (O_SYNC | O_DSYNC)) != 0)
    written = co_await handle.sync(caller.context);
  // After a direct write the kernel continues to believe the mode.
  if (kills) co_await pages_.attributes_changed(node);
  if (!written.ok()) co_return written;
  co_return static_cast<uint32_t>(request.data.size());
}

asio::awaitable<Status> FileOperations::flush(const Caller& caller, NodeId node, Handle handle,
                                              LockOwner owner) {
  KINTSUGI_CO_ASSIGN(const OpenHandles::OpenedPtr file, co_await handles_.opened(caller, node, handle));
  if (files_.session().has_locks(node, false, owner))
    (void)co_await locks_.unlock(caller, node, owner, false);
  // Under a write lease it may wait a little: who opens the file elsewhere has it written out first.
  if (files_.session().has_lease(node)) co_return file->handle->check();
  if (!std::exchange(file->written, false)) co_return file->handle->check();
  co_return co_await file->handle->sync(caller.context);
}

asio::awaitable<Status> FileOperations::release(const Caller& caller, NodeId node,
                                                const ReleaseRequest& request) {
  if (request.unlock_flock) (void)co_await locks_.unlock(caller, node, request.lock_owner, true);
  const OpenHandles::OpenedPtr file = handles_.take(request.handle);
  if (!file) co_return Status{};
  for (const LockOwner owner : file->lock_owners)
    if (files_.session().has_locks(node, false, owner))
      (void)co_await locks_.unlock(caller, node, owner, false);
  // Without a lease others may have changed it since it was opened, which the pages do not show.
  const client::OpenFile& closed = file->handle->file();
  if (files_.session().has_lease(node) && !pages_.are_old(closed)) (void)pages_.has(closed.attributes());
  co_return co_await file->handle->close(caller.context);
}

asio::awaitable<Status> FileOperations::fsync(const Caller& caller, NodeId node, Handle handle) {
  KINTSUGI_CO_ASSIGN(const OpenHandles::OpenedPtr file, co_await handles_.opened(caller, node, handle));
  co_return co_await file->handle->sync(caller.context);
}

asio::awaitable<Status> FileOperations::allocate(const Caller& caller, NodeId node, Handle handle, int mode,
                                                 uint64_t offset, uint64_t bytes) {
  constexpr int kKnown = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
  if ((mode & ~kKnown) != 0)
    co_return Status{Code::kNotSupported, "inserting and collapsing ranges is not supported"};
  KINTSUGI_CO_ASSIGN(const OpenHandles::OpenedPtr file, co_await handles_.opened(caller, node, handle));
  file->written = true;
  client::AllocateMode how;
  how.keep_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  how.punch_hole = (mode & FALLOC_FL_PUNCH_HOLE) != 0;
  how.zero_range = (mode & FALLOC_FL_ZERO_RANGE) != 0;
  co_return co_await file->handle->file().allocate(caller.context, how, offset, bytes);
}

asio::awaitable<Result<uint64_t>> FileOperations::seek(const Caller& caller, NodeId node, Handle handle,
                                                       uint64_t offset, SeekTo what) {
  KINTSUGI_CO_ASSIGN(const OpenHandles::OpenedPtr file, co_await handles_.opened(caller, node, handle));
  client::OpenFile& open = file->handle->file();
  const auto found = what == SeekTo::kData ? co_await open.seek_data(caller.context, offset)
                                           : co_await open.seek_hole(caller.context, offset);
  if (found) co_return *found;
  const Code code = found.error().code();
  if (code == Code::kNoData || code == Code::kRange)
    co_return Status{Code::kNoDevice, found.error().message()};
  co_return found.error();
}

asio::awaitable<Result<uint64_t>> FileOperations::copy_range(const Caller& caller, const CopyRange& range) {
  KINTSUGI_CO_ASSIGN(const OpenHandles::OpenedPtr from,
                     co_await handles_.opened(caller, range.from, range.from_handle));
  KINTSUGI_CO_ASSIGN(const OpenHandles::OpenedPtr to,
                     co_await handles_.opened(caller, range.to, range.to_handle));
  to->written = true;
  co_return co_await to->handle->file().copy_range(caller.context, from->handle->file(), range.from_offset,
                                                   range.to_offset, range.bytes);
}

}  // namespace kintsugi::mount
