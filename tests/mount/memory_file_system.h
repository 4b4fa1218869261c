/// A whole file system in memory, for tests and benchmarks of the kernel's side of a mount.
///
/// Contents lie in one file of a tmpfs for each inode (memfd, or named ones below a directory that a process which takes over
/// opens again), so holes, punching and sizes are the tmpfs's. With such a directory every change of metadata is also one
/// record of a log there: a process that takes over reads it and knows which requests were carried out.
#pragma once

#include <string>

#include "client/mount/kernel/file_system.h"
#include "common/runtime/event.h"
#include "tests/mount/memory_tree.h"

namespace kintsugi::mount {

class MemoryFileSystem : public FileSystem, protected MemoryTree {
 public:
  /// `directory`: on a tmpfs, empty at first; empty: nothing outlives this object.
  explicit MemoryFileSystem(const runtime::Runtime& runtime, std::string directory = "")
      : MemoryTree(runtime, std::move(directory)), unlocked_(runtime) {}

  using MemoryTree::lifetime;
  using MemoryTree::live_lookups;
  OpenAnswer open_as{.parallel_direct_writes = true};

  void started(const Negotiated& negotiated) override { negotiated_ = negotiated; }
  const Negotiated& negotiated() const { return negotiated_; }

  void forget(NodeId node, uint64_t lookups) override;
  asio::awaitable<Result<Entry>> lookup(const Caller&, NodeId parent, std::string_view name) override;
  asio::awaitable<Result<AttributesAnswer>> get_attributes(const Caller&, NodeId) override;
  asio::awaitable<Result<AttributesAnswer>> set_attributes(const Caller&, NodeId,
                                                           const AttributeChanges&) override;
  asio::awaitable<Result<std::string>> read_link(const Caller&, NodeId) override;
  asio::awaitable<Result<Entry>> make_node(const Caller&, NodeId, std::string_view, const NewNode&) override;
  asio::awaitable<Result<Entry>> make_directory(const Caller&, NodeId, std::string_view,
                                                const NewNode&) override;
  asio::awaitable<Result<Entry>> symlink(const Caller&, NodeId, std::string_view, std::string_view) override;
  asio::awaitable<Result<Entry>> link(const Caller&, NodeId, NodeId, std::string_view) override;
  asio::awaitable<Status> unlink(const Caller&, NodeId, std::string_view) override;
  asio::awaitable<Status> remove_directory(const Caller&, NodeId, std::string_view) override;
  asio::awaitable<Status> rename(const Caller&, NodeId, std::string_view, NodeId, std::string_view,
                                 RenameFlags) override;
  asio::awaitable<Result<OpenAnswer>> open(const Caller&, NodeId, OpenFlags) override;
  asio::awaitable<Result<CreateAnswer>> create(const Caller&, NodeId, std::string_view, const NewNode&,
                                               OpenFlags) override;
  asio::awaitable<Result<CreateAnswer>> create_nameless(const Caller&, NodeId, const NewNode&,
                                                        OpenFlags) override;
  asio::awaitable<Result<ReadAnswer>> read(const Caller&, NodeId, const ReadRequest&) override;
  asio::awaitable<Result<uint32_t>> write(const Caller&, NodeId, const WriteRequest&) override;
  asio::awaitable<Status> flush(const Caller&, NodeId, Handle, LockOwner) override;
  asio::awaitable<Status> release(const Caller&, NodeId, const ReleaseRequest&) override;
  asio::awaitable<Status> fsync(const Caller&, NodeId, Handle) override;
  asio::awaitable<Result<OpenAnswer>> open_directory(const Caller&, NodeId) override;
  asio::awaitable<Status> read_directory(const Caller&, NodeId, Handle, uint64_t, bool,
                                         DirectoryListing&) override;
  asio::awaitable<Status> release_directory(const Caller&, NodeId, Handle) override;
  asio::awaitable<Status> fsync_directory(const Caller&, NodeId) override;
  asio::awaitable<Result<FileSystemSpace>> space(const Caller&, NodeId) override;
  asio::awaitable<Status> set_xattr(const Caller&, NodeId, std::string_view, std::span<const std::byte>,
                                    SetXattrFlags) override;
  asio::awaitable<Result<std::string>> get_xattr(const Caller&, NodeId, std::string_view) override;
  asio::awaitable<Result<std::vector<std::string>>> list_xattrs(const Caller&, NodeId) override;
  asio::awaitable<Status> remove_xattr(const Caller&, NodeId, std::string_view) override;
  asio::awaitable<Result<Lock>> get_lock(const Caller&, NodeId, const LockRequest&) override;
  asio::awaitable<Status> set_lock(const Caller&, NodeId, const LockRequest&) override;
  asio::awaitable<Status> allocate(const Caller&, NodeId, Handle, int, uint64_t, uint64_t) override;
  asio::awaitable<Result<uint64_t>> seek(const Caller&, NodeId, Handle, uint64_t, SeekTo) override;
  asio::awaitable<Result<uint64_t>> copy_range(const Caller&, const CopyRange&) override;

 private:
  Negotiated negotiated_;
  runtime::Event unlocked_;
};

}  // namespace kintsugi::mount
