/// The operations of a mount on open files.
#pragma once

#include "client/lib/files/open_files.h"
#include "client/mount/cached_pages.h"
#include "client/mount/kernel/file_system.h"
#include "client/mount/kernel_beliefs.h"
#include "client/mount/lock_operations.h"
#include "client/mount/open_handles.h"
#include "common/runtime/buffer_pool.h"
#include "common/runtime/runtime.h"

namespace kintsugi::mount {

/// The operations are those of FileSystem. A file that was written through a descriptor is written out when that is
/// closed, or under a write lease once somebody else wants it: who opens it then, wherever, sees it (close-to-open).
class FileOperations {
 public:
  /// References outlive it.
  FileOperations(const runtime::Runtime& runtime, client::OpenFiles& files, KernelBeliefs& beliefs,
                 OpenHandles& handles, CachedPages& pages, LockOperations& locks);

  asio::awaitable<Result<OpenAnswer>> open(const Caller& caller, NodeId node, OpenFlags flags);
  asio::awaitable<Result<ReadAnswer>> read(const Caller& caller, NodeId node, const ReadRequest& request);
  asio::awaitable<Result<uint32_t>> write(const Caller& caller, NodeId node, const WriteRequest& request);
  asio::awaitable<Status> flush(const Caller& caller, NodeId node, Handle handle, LockOwner owner);
  asio::awaitable<Status> release(const Caller& caller, NodeId node, const ReleaseRequest& request);
  asio::awaitable<Status> fsync(const Caller& caller, NodeId node, Handle handle);
  asio::awaitable<Status> allocate(const Caller& caller, NodeId node, Handle handle, int mode,
                                   uint64_t offset, uint64_t bytes);
  asio::awaitable<Result<uint64_t>> seek(const Caller& caller, NodeId node, Handle handle, uint64_t offset,
                                         SeekTo what);
  asio::awaitable<Result<uint64_t>> copy_range(const Caller& caller, const CopyRange& range);

  /// Opens the file with these attributes, which the metaserver has just told, with `where` its contents are if it said
  /// so. `made_now`: only this mount knows the file, so the kernel's attributes are current.
  asio::awaitable<Result<OpenAnswer>> open_told(const Caller& caller, proto::Attributes told, OpenFlags flags,
                                                bool made_now,
                                                const proto::OpenReadResponse* where = nullptr);

 private:
  client::OpenFiles& files_;
  KernelBeliefs& beliefs_;
  OpenHandles& handles_;
  CachedPages& pages_;
  LockOperations& locks_;
  runtime::BufferPool buffers_;
};

}  // namespace kintsugi::mount
