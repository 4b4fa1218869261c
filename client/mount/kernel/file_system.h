/// What the kernel asks of a file system, as an interface without the kernel's structures: client/mount/kernel speaks
/// the FUSE protocol on one side of it, the cluster's mount (or a file system in memory, in tests) stands on the
/// other.
///
/// Everything runs on one single-threaded executor. Each operation is a coroutine; any number of them overlap, up to
/// the bound of the connection. Errors are a Status whose Code becomes an errno (errno_of.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "client/mount/kernel/attributes.h"
#include "client/mount/kernel/caller.h"
#include "client/mount/kernel/directory_listing.h"
#include "client/mount/kernel/file_requests.h"
#include "client/mount/kernel/lock_request.h"
#include "common/base/status.h"

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::mount {

struct RenameFlags {
  bool no_replace = false;
  bool exchange = false;
};

/// `create` and `replace` together never set anything.
struct SetXattrFlags {
  bool create = false;       ///< An attribute that exists is kAlreadyExists.
  bool replace = false;      ///< One that does not exist is kNoData.
  bool kill_setgid = false;  ///< Somebody outside of the file's group sets an access list.
};

struct FileSystemSpace {
  uint64_t total_blocks = 0;
  uint64_t free_blocks = 0;
  uint64_t available_blocks = 0;  ///< Users who are not root may fill these.
  uint64_t files = 0;
  uint64_t free_files = 0;
  uint32_t block_bytes = 4096;
};

/// What was agreed with the kernel.
struct Negotiated {
  uint32_t minor = 0;  ///< The protocol is 7.minor.
  uint64_t flags = 0;  ///< Both want these FUSE_* flags of INIT.
  uint32_t max_write_bytes = 0;
  uint32_t max_read_bytes = 0;
  bool resend = false;  ///< The next process is sent the requests that this one leaves unanswered.
};

/// Names come without a slash and without a nul, 1 to 255 bytes, not "." or ".." where something is made or removed;
/// that was checked. Offsets plus lengths stay within INT64_MAX. Nothing else that comes from the kernel was checked:
/// node ids and handles may be stale or never have existed (kStale, kBadHandle).
///
/// Every operation with a name that can meet a replay (Caller::resent) must recognize it by Caller::unique.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// The kernel and the connection agreed. Called once before everything else, also by a process that took over.
  virtual void started(const Negotiated& negotiated) = 0;

  /// Counts as `lookups` of the node less: each answer with an Entry counted one. At 0 the kernel knows it no more (but
  /// may still name it in handles that are open).
  virtual void forget(NodeId node, uint64_t lookups) = 0;

  virtual asio::awaitable<Result<Entry>> lookup(const Caller& caller, NodeId parent,
                                                std::string_view name) = 0;
  virtual asio::awaitable<Result<AttributesAnswer>> get_attributes(const Caller& caller, NodeId node) = 0;
  virtual asio::awaitable<Result<AttributesAnswer>> set_attributes(const Caller& caller, NodeId node,
                                                                   const AttributeChanges& changes) = 0;
  virtual asio::awaitable<Result<std::string>> read_link(const Caller& caller, NodeId node) = 0;

  virtual asio::awaitable<Result<Entry>> make_node(const Caller& caller, NodeId parent, std::string_view name,
                                                   const NewNode& node) = 0;
  virtual asio::awaitable<Result<Entry>> make_directory(const Caller& caller, NodeId parent,
                                                        std::string_view name, const NewNode& node) = 0;
  virtual asio::awaitable<Result<Entry>> symlink(const Caller& caller, NodeId parent, std::string_view name,
                                                 std::string_view target) = 0;
  virtual asio::awaitable<Result<Entry>> link(const Caller& caller, NodeId node, NodeId new_parent,
                                              std::string_view new_name) = 0;
  virtual asio::awaitable<Status> unlink(const Caller& caller, NodeId parent, std::string_view name) = 0;
  virtual asio::awaitable<Status> remove_directory(const Caller& caller, NodeId parent,
                                                   std::string_view name) = 0;
  virtual asio::awaitable<Status> rename(const Caller& caller, NodeId parent, std::string_view name,
                                         NodeId new_parent, std::string_view new_name, RenameFlags flags) = 0;

  virtual asio::awaitable<Result<OpenAnswer>> open(const Caller& caller, NodeId node, OpenFlags flags) = 0;
  /// Makes the file if it does not exist (else kAlreadyExists with O_EXCL), and opens it.
  virtual asio::awaitable<Result<CreateAnswer>> create(const Caller& caller, NodeId parent,
                                                       std::string_view name, const NewNode& node,
                                                       OpenFlags flags) = 0;
  /// Opens a new file without a name in the directory. It may get one by link(), unless O_EXCL was given.
  virtual asio::awaitable<Result<CreateAnswer>> create_nameless(const Caller& caller, NodeId parent,
                                                                const NewNode& node, OpenFlags flags) = 0;
  virtual asio::awaitable<Result<ReadAnswer>> read(const Caller& caller, NodeId node,
                                                   const ReadRequest& request) = 0;
  /// Returns how many bytes were written: all of them, unless an error came after some.
  virtual asio::awaitable<Result<uint32_t>> write(const Caller& caller, NodeId node,
                                                  const WriteRequest& request) = 0;
  /// At each close(2): reports what write-back met, and ends the fcntl(2) locks of `owner`.
  virtual asio::awaitable<Status> flush(const Caller& caller, NodeId node, Handle handle,
                                        LockOwner owner) = 0;
  /// After the last close; nobody waits for it.
  virtual asio::awaitable<Status> release(const Caller& caller, NodeId node,
                                          const ReleaseRequest& request) = 0;
  virtual asio::awaitable<Status> fsync(const Caller& caller, NodeId node, Handle handle) = 0;

  virtual asio::awaitable<Result<OpenAnswer>> open_directory(const Caller& caller, NodeId node) = 0;
  /// Adds the entries behind `cookie` (0: from the start, "." and ".." included) until `into` is full or the directory
  /// ends; an answer without any entry means the end. `plus`: with whole entries.
  virtual asio::awaitable<Status> read_directory(const Caller& caller, NodeId node, Handle handle,
                                                 uint64_t cookie, bool plus, DirectoryListing& into) = 0;
  virtual asio::awaitable<Status> release_directory(const Caller& caller, NodeId node, Handle handle) = 0;
  virtual asio::awaitable<Status> fsync_directory(const Caller& caller, NodeId node) = 0;

  virtual asio::awaitable<Result<FileSystemSpace>> space(const Caller& caller, NodeId node) = 0;

  virtual asio::awaitable<Status> set_xattr(const Caller& caller, NodeId node, std::string_view name,
                                            std::span<const std::byte> value, SetXattrFlags flags) = 0;
  /// kNoData when there is none. The connection answers kRange if the application has too little room.
  virtual asio::awaitable<Result<std::string>> get_xattr(const Caller& caller, NodeId node,
                                                         std::string_view name) = 0;
  virtual asio::awaitable<Result<std::vector<std::string>>> list_xattrs(const Caller& caller,
                                                                        NodeId node) = 0;
  virtual asio::awaitable<Status> remove_xattr(const Caller& caller, NodeId node, std::string_view name) = 0;

  /// A lock that is in the way of `request`, or one of type kUnlock.
  virtual asio::awaitable<Result<Lock>> get_lock(const Caller& caller, NodeId node,
                                                 const LockRequest& request) = 0;
  /// Takes, changes or ends a lock. kWouldBlock, kDeadlock, kInterrupted (see Interrupt).
  virtual asio::awaitable<Status> set_lock(const Caller& caller, NodeId node, const LockRequest& request) = 0;

  /// `mode`: FALLOC_FL_* of fallocate(2).
  virtual asio::awaitable<Status> allocate(const Caller& caller, NodeId node, Handle handle, int mode,
                                           uint64_t offset, uint64_t bytes) = 0;
  /// kNoDevice when `offset` is at or behind the end, or no data follows it.
  virtual asio::awaitable<Result<uint64_t>> seek(const Caller& caller, NodeId node, Handle handle,
                                                 uint64_t offset, SeekTo what) = 0;
  /// Returns how many bytes were copied; 0 at the end of the source.
  virtual asio::awaitable<Result<uint64_t>> copy_range(const Caller& caller, const CopyRange& range) = 0;
};

}  // namespace kintsugi::mount
