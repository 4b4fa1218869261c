/// The cluster as a file system for the kernel.
#pragma once

#include "client/lib/client.h"
#include "client/lib/files/open_files.h"
#include "client/mount/attribute_operations.h"
#include "client/mount/cached_pages.h"
#include "client/mount/directory_operations.h"
#include "client/mount/file_operations.h"
#include "client/mount/kernel/file_system.h"
#include "client/mount/kernel/notifier.h"
#include "client/mount/kernel_beliefs.h"
#include "client/mount/last_known.h"
#include "client/mount/lock_operations.h"
#include "client/mount/name_operations.h"
#include "client/mount/open_handles.h"
#include "client/mount/space_operations.h"
#include "client/mount/told_inodes.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::mount {

struct ClusterFileSystemOptions {
  uint64_t root = kRootNode;
  /// The kernel may believe names and attributes for so long without asking again: what others change it forgets
  /// before (KernelBeliefs).
  Lifetime cached_for = std::chrono::seconds(1);
  // The tables hold at most so much. An entry takes a few hundred bytes, an open file up to 4 KiB.
  size_t remembered = 100'000;         ///< inodes and names that the kernel was told of most recently
  size_t listing_positions = 200'000;  ///< limit over all open directories
  size_t open_handles = 32'000;        ///< open files and directories; beyond it, opening fails with EDQUOT
};

/// Node ids are inode numbers, and handles mean the same to the next process of the mount, which opens again what it
/// does not know. The operations are those of its parts; this owns them, and what they share.
class ClusterFileSystem final : public FileSystem {
 public:
  /// References outlive it. `notifier` may be null: then the kernel believes for `cached_for` what others have changed.
  ClusterFileSystem(const runtime::Runtime& runtime, client::Client& client, client::OpenFiles& files,
                    Notifier* notifier, ClusterFileSystemOptions options);
  ~ClusterFileSystem() override;

  /// How much the tables hold now, for tests.
  struct Held {
    size_t inodes = 0, names = 0, contents = 0, kept = 0;  ///< entries in the tables
    size_t positions = 0;                                  ///< positions over all open directories
    size_t handles = 0;
  };
  Held held() const;

  /// Closes all handles that are still open.
  asio::awaitable<void> close_all();

  void started(const Negotiated& negotiated) override;
  void forget(NodeId node, uint64_t lookups) override;
  asio::awaitable<Result<Entry>> lookup(const Caller& caller, NodeId parent, std::string_view name) override;
  asio::awaitable<Result<AttributesAnswer>> get_attributes(const Caller& caller, NodeId node) override;
  asio::awaitable<Result<AttributesAnswer>> set_attributes(const Caller& caller, NodeId node,
                                                           const AttributeChanges& changes) override;
  asio::awaitable<Result<std::string>> read_link(const Caller& caller, NodeId node) override;
  asio::awaitable<Result<Entry>> make_node(const Caller& caller, NodeId parent, std::string_view name,
                                           const NewNode& node) override;
  asio::awaitable<Result<Entry>> make_directory(const Caller& caller, NodeId parent, std::string_view name,
                                                const NewNode& node) override;
  asio::awaitable<Result<Entry>> symlink(const Caller& caller, NodeId parent, std::string_view name,
                                         std::string_view target) override;
  asio::awaitable<Result<Entry>> link(const Caller& caller, NodeId node, NodeId new_parent,
                                      std::string_view new_name) override;
  asio::awaitable<Status> unlink(const Caller& caller, NodeId parent, std::string_view name) override;
  asio::awaitable<Status> remove_directory(const Caller& caller, NodeId parent,
                                           std::string_view name) override;
  asio::awaitable<Status> rename(const Caller& caller, NodeId parent, std::string_view name,
                                 NodeId new_parent, std::string_view new_name, RenameFlags flags) override;
  asio::awaitable<Result<OpenAnswer>> open(const Caller& caller, NodeId node, OpenFlags flags) override;
  asio::awaitable<Result<CreateAnswer>> create(const Caller& caller, NodeId parent, std::string_view name,
                                               const NewNode& node, OpenFlags flags) override;
  asio::awaitable<Result<CreateAnswer>> create_nameless(const Caller& caller, NodeId parent,
                                                        const NewNode& node, OpenFlags flags) override;
  asio::awaitable<Result<ReadAnswer>> read(const Caller& caller, NodeId node,
                                           const ReadRequest& request) override;
  asio::awaitable<Result<uint32_t>> write(const Caller& caller, NodeId node,
                                          const WriteRequest& request) override;
  asio::awaitable<Status> flush(const Caller& caller, NodeId node, Handle handle, LockOwner owner) override;
  asio::awaitable<Status> release(const Caller& caller, NodeId node, const ReleaseRequest& request) override;
  asio::awaitable<Status> fsync(const Caller& caller, NodeId node, Handle handle) override;
  asio::awaitable<Result<OpenAnswer>> open_directory(const Caller& caller, NodeId node) override;
  asio::awaitable<Status> read_directory(const Caller& caller, NodeId node, Handle handle, uint64_t cookie,
                                         bool plus, DirectoryListing& into) override;
  asio::awaitable<Status> release_directory(const Caller& caller, NodeId node, Handle handle) override;
  asio::awaitable<Status> fsync_directory(const Caller& caller, NodeId node) override;
  asio::awaitable<Result<FileSystemSpace>> space(const Caller& caller, NodeId node) override;
  asio::awaitable<Status> set_xattr(const Caller& caller, NodeId node, std::string_view name,
                                    std::span<const std::byte> value, SetXattrFlags flags) override;
  asio::awaitable<Result<std::string>> get_xattr(const Caller& caller, NodeId node,
                                                 std::string_view name) override;
  asio::awaitable<Result<std::vector<std::string>>> list_xattrs(const Caller& caller, NodeId node) override;
  asio::awaitable<Status> remove_xattr(const Caller& caller, NodeId node, std::string_view name) override;
  asio::awaitable<Result<Lock>> get_lock(const Caller& caller, NodeId node,
                                         const LockRequest& request) override;
  asio::awaitable<Status> set_lock(const Caller& caller, NodeId node, const LockRequest& request) override;
  asio::awaitable<Status> allocate(const Caller& caller, NodeId node, Handle handle, int mode,
                                   uint64_t offset, uint64_t bytes) override;
  asio::awaitable<Result<uint64_t>> seek(const Caller& caller, NodeId node, Handle handle, uint64_t offset,
                                         SeekTo what) override;
  asio::awaitable<Result<uint64_t>> copy_range(const Caller& caller, const CopyRange& range) override;

 private:
  /// Asks for what LastKnown holds, before anybody needs it.
  asio::awaitable<void> learn();

  client::Client& client_;
  client::OpenFiles& files_;
  const ClusterFileSystemOptions options_;
  /// Short tasks: locks that wait, names that cannot be invalidated yet, learn().
  runtime::TaskGroup tasks_;
  LastKnown last_known_;
  KernelBeliefs beliefs_;
  CachedPages pages_;
  ToldInodes told_;
  OpenHandles handles_;
  AttributeOperations attribute_operations_;
  NameOperations name_operations_;
  DirectoryOperations directory_operations_;
  LockOperations lock_operations_;
  FileOperations file_operations_;
  SpaceOperations space_operations_;
};

}  // namespace kintsugi::mount
