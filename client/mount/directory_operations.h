/// The operations of a mount on open directories.
#pragma once

#include "client/lib/files/open_files.h"
#include "client/mount/kernel/file_system.h"
#include "client/mount/open_handles.h"
#include "client/mount/told_inodes.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"

namespace kintsugi::mount {

/// The operations are those of FileSystem.
class DirectoryOperations {
 public:
  /// References outlive it.
  DirectoryOperations(const runtime::Runtime& runtime, client::OpenFiles& files, ToldInodes& told,
                      OpenHandles& handles);

  asio::awaitable<Result<OpenAnswer>> open_directory(const Caller& caller, NodeId node);
  asio::awaitable<Status> read_directory(const Caller& caller, NodeId node, Handle handle, uint64_t cookie,
                                         bool plus, DirectoryListing& into);
  asio::awaitable<Status> release_directory(const Caller& caller, NodeId node, Handle handle);
  asio::awaitable<Status> fsync_directory(const Caller& caller);

 private:
  asio::awaitable<Status> list_entries(const Caller& caller, NodeId node, Handle handle, uint64_t cookie,
                                       bool plus, DirectoryListing& into);

  client::OpenFiles& files_;
  ToldInodes& told_;
  OpenHandles& handles_;
  runtime::Semaphore listings_;  ///< limits the listings that hold memory for a page
};

}  // namespace kintsugi::mount
