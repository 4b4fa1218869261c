/// The handles that the kernel has of open files and directories.
#pragma once

#include <memory>
#include <set>
#include <unordered_map>

#include <boost/asio/awaitable.hpp>

#include "client/lib/files/open_files.h"
#include "client/mount/directory_cookies.h"
#include "client/mount/kernel/file_system.h"
#include "common/runtime/runtime.h"

namespace kintsugi::mount {

struct OpenedFile {
  std::unique_ptr<client::OpenHandle> handle;
  bool written = false;  ///< written through this handle since the last flush
  /// Who took fcntl locks through this handle. Those of processes have ended with their flushes when the handle is
  /// released; those of the open file description itself end then, of which the kernel says nothing.
  std::set<LockOwner> lock_owners;
};

/// Handles mean the same to the next process of the mount, which opens again what it does not know. Single-threaded.
class OpenHandles {
 public:
  using OpenedPtr = std::shared_ptr<OpenedFile>;

  struct Limits {
    size_t handles;            ///< open files and directories
    size_t listing_positions;  ///< limit over all open directories
  };
  /// References outlive it.
  OpenHandles(const runtime::Runtime& runtime, client::OpenFiles& files, Limits limits);

  /// Checks that there may be one more handle. kLimitExceeded.
  Status check_room() const;
  Handle keep(std::unique_ptr<client::OpenHandle> handle);
  /// Returns the open file of a handle, which is opened if a process before this one gave it out.
  asio::awaitable<Result<OpenedPtr>> opened(const Caller& caller, NodeId node, Handle handle);
  /// Returns null if this process does not know the handle.
  OpenedPtr find(Handle handle) const;
  OpenedPtr take(Handle handle);

  Handle open_directory();
  std::shared_ptr<DirectoryCookies> directory(Handle handle);
  void release_directory(Handle handle) { directories_.erase(handle); }

  /// Closes all files that are still open.
  asio::awaitable<void> close_all(Context context);

  size_t count() const { return files_open_.size() + directories_.size(); }
  size_t listing_positions() const { return cookie_budget_.names(); }

 private:
  client::OpenFiles& files_;
  const Limits limits_;
  CookieBudget cookie_budget_;
  std::unordered_map<Handle, OpenedPtr> files_open_;
  std::unordered_map<Handle, std::shared_ptr<DirectoryCookies>> directories_;
  Handle next_handle_;
};

}  // namespace kintsugi::mount
