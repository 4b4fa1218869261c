/// What the kernel asks of a file system, as an interface without the kernel's structures: client/mount/kernel speaks the
/// FUSE protocol on one side of it, the cluster's mount (or a file system in memory, in tests) stands on the other.
///
/// Everything runs on one single-threaded executor. Each operation is a coroutine; any number of them overlap, up to the
/// bound of the connection. Errors are a Status whose Code becomes an errno (errno_of.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/container/small_vector.hpp>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/context.h"

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::mount {

/// An inode, as long as the file system exists: node ids are inode numbers, so that no table is lost when a mount's
/// process is replaced. 0 is no node.
using NodeId = uint64_t;
inline constexpr NodeId kRootNode = 1;

/// An open file or directory. The file system chooses it; the kernel gives it back with each operation. It must mean the
/// same to the process that replaces this one.
using Handle = uint64_t;

/// Who holds a lock: opaque, the kernel's.
using LockOwner = uint64_t;

/// How long the kernel may believe an answer without asking again. 0: not at all.
using Lifetime = std::chrono::nanoseconds;

/// A signal that came for the application while its request was under way.
///
/// A lock that waits must end soon after with kInterrupted (or with success, if it was granted first: whoever answers
/// first wins). Every other operation may ignore it: when the request is older than a second, the connection answers the
/// application with EINTR by itself, and drops what the operation returns later.
class Interrupt {
 public:
  bool requested() const { return requested_; }
  /// The application has been told EINTR and will never hear the answer. Whoever took a lock for it undoes that.
  bool abandoned() const { return abandoned_; }

  /// Runs `callback` when the signal comes, or at once if it came. There is one callback; an empty one forgets it.
  void on_request(std::function<void()> callback) {
    callback_ = std::move(callback);
    if (requested_ && callback_) callback_();
  }

  /// For the connection.
  void request() {
    if (requested_) return;
    requested_ = true;
    if (callback_) callback_();
  }
  void abandon() { abandoned_ = true; }

 private:
  bool requested_ = false;
  bool abandoned_ = false;
  std::function<void()> callback_;
};

/// Who asks. It lives until the operation's coroutine has returned, whether its answer was still wanted or not.
struct Caller {
  Context context;  ///< of the operation, which is a task of its own
  uint32_t uid = 0;
  uint32_t gid = 0;
  TimePoint asked;   ///< when the request was read
  uint32_t pid = 0;  ///< the thread's; 0 for what the kernel does by itself, or from another pid namespace
  uint64_t unique =
      0;  ///< names the request, also over a restart of this process; never 0, unique while it is unanswered
  /// The process before this one got the request too and died before it answered: what it asks may be done already.
  bool resent = false;
  /// For what creates a node: the caller also is in this group, which is the parent directory's (kernels ≥ 6.4).
  std::optional<uint32_t> supplementary_group;
  Interrupt* interrupt = nullptr;  ///< never null
};

/// What stat(2) shows. Times are nanoseconds since 1970.
struct Attributes {
  uint64_t inode = 0;
  uint64_t size_bytes = 0;
  uint64_t blocks = 0;  ///< of 512 bytes, that are allocated
  int64_t accessed_ns = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  uint32_t mode = 0;  ///< with the type of the file (S_IFMT)
  uint32_t links = 1;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t device = 0;  ///< of a device file (st_rdev, as in new_encode_dev)
  uint32_t block_bytes = 4096;
};

struct AttributesAnswer {
  Attributes attributes;
  Lifetime valid{0};
};

/// A name's meaning. node 0 with a lifetime tells the kernel that the name does not exist; without a lifetime it
/// is the same as kNotFound.
struct Entry {
  NodeId node = 0;
  uint64_t generation = 0;  ///< differs between two files that had one inode number
  Attributes attributes;
  Lifetime entry_valid{0};
  Lifetime attributes_valid{0};
};

/// The time to set: `now` is the server's choice of the present.
struct TimeChange {
  bool now = false;
  int64_t ns = 0;  ///< unless now
};

/// Only what has a value changes.
struct AttributeChanges {
  std::optional<uint32_t> mode;  ///< permission bits and S_IFMT
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  std::optional<uint64_t> size_bytes;
  std::optional<TimeChange> accessed;
  std::optional<TimeChange> modified;
  std::optional<int64_t> changed_ns;
  std::optional<Handle> handle;  ///< ftruncate: opened for writing, so the mode is not asked again
  std::optional<LockOwner> lock_owner;
  bool kill_setid =
      false;  ///< clear set-user-ID, and set-group-ID if the group may execute (the caller has no CAP_FSETID)
};

/// A node to be made. `mode` is what the application gave, with S_IFMT; `umask` applies unless the parent has a default
/// access list.
struct NewNode {
  uint32_t mode = 0;
  uint32_t umask = 0;
  uint32_t device = 0;  ///< for S_IFCHR and S_IFBLK
};

struct OpenFlags {
  int flags = 0;            ///< open(2): O_ACCMODE, O_TRUNC (also to be done here), O_APPEND, O_DIRECT, ...
  bool kill_setid = false;  ///< with O_TRUNC, see AttributeChanges
};

/// How the kernel shall treat an open file.
struct OpenAnswer {
  Handle handle = 0;
  bool direct_io = false;  ///< past the page cache
  bool keep_cache =
      false;  ///< what the page cache has of the inode is still right (for directories: of its entries)
  bool nonseekable = false;
  bool parallel_direct_writes = false;  ///< several direct writes of one file at once (that do not grow it)
  bool no_flush = false;                ///< close(2) needs no flush()
  bool cache_directory = false;         ///< for directories: the kernel may keep the entries
};

struct CreateAnswer {
  Entry entry;
  OpenAnswer open;
};

/// Bytes to be read, where they lie: they go to the kernel from there, without a copy.
struct ReadAnswer {
  /// At most kMaxReadRanges, together at most what was asked; less means the end of the file.
  boost::container::small_vector<std::span<const std::byte>, 4> ranges;
  std::shared_ptr<const void> owner;  ///< keeps the ranges in place until they were written
};
inline constexpr size_t kMaxReadRanges = 512;

struct ReadRequest {
  Handle handle = 0;
  uint64_t offset = 0;
  uint32_t bytes = 0;  ///< at most the negotiated maximum (1 MiB)
  int flags = 0;       ///< of the open file, as O_DIRECT
  std::optional<LockOwner> lock_owner;
};

struct WriteRequest {
  Handle handle = 0;
  uint64_t offset = 0;
  std::span<const std::byte> data;  ///< valid until write() returns
  int flags = 0;  ///< of the open file: O_APPEND (the kernel's offset may be old), O_DIRECT, O_DSYNC, O_SYNC
  bool from_page_cache = false;  ///< from a mapping: the handle is a guess, and the caller is not who wrote
  bool kill_setid = false;
  std::optional<LockOwner> lock_owner;
};

struct RenameFlags {
  bool no_replace = false;
  bool exchange = false;
  bool whiteout = false;
};

/// One name of a directory, for a DirectoryListing.
struct DirectoryEntry {
  std::string_view name;
  uint64_t cookie =
      0;  ///< opaque, not 0: read_directory() with it goes on behind this entry, whatever came and went
  /// For plain listings attributes.inode and the type in attributes.mode suffice. For listings "plus" node 0 means
  /// that the kernel shall look the name up by itself; "." and ".." are always such.
  Entry entry;
};

/// Takes the entries of a directory as far as there is room. It lives until read_directory() returned.
class DirectoryListing {
 public:
  virtual ~DirectoryListing() = default;
  /// False: no room, the entry was not taken, and this answer is complete. An entry that was taken in a listing "plus"
  /// and has a node counts as looked up (see forget()).
  virtual bool add(const DirectoryEntry& entry) = 0;
  /// How many more entries with names of `name_bytes` fit: how many are worth fetching.
  virtual size_t room(size_t name_bytes) const = 0;
};

struct FileSystemSpace {
  uint64_t total_blocks = 0;
  uint64_t free_blocks = 0;
  uint64_t available_blocks = 0;  ///< for users who are not root
  uint64_t files = 0;
  uint64_t free_files = 0;
  uint32_t block_bytes = 4096;
  uint32_t fragment_bytes = 4096;
  uint32_t name_bytes = 255;
};

enum class LockType { kRead, kWrite, kUnlock };

struct Lock {
  LockType type = LockType::kUnlock;
  uint64_t start = 0;
  uint64_t end = UINT64_MAX;  ///< inclusive; UINT64_MAX or INT64_MAX: up to the end of the file, however far
  uint32_t pid = 0;           ///< who holds it, for F_GETLK
};

struct LockRequest {
  Handle handle = 0;
  LockOwner owner = 0;
  Lock lock;
  bool flock = false;  ///< flock(2), of the whole file; it does not meet fcntl(2) locks
  bool wait = false;   ///< else kWouldBlock when somebody holds it
};

struct ReleaseRequest {
  Handle handle = 0;
  int flags = 0;
  LockOwner lock_owner = 0;
  bool flush = false;
  bool unlock_flock = false;  ///< the flock(2) lock of `lock_owner` ends
};

enum class SeekTo { kData, kHole };

struct CopyRange {
  NodeId from = 0;
  Handle from_handle = 0;
  uint64_t from_offset = 0;
  NodeId to = 0;
  Handle to_handle = 0;
  uint64_t to_offset = 0;
  uint64_t bytes = 0;
};

enum class SetXattrMode { kAny, kCreate, kReplace, kCreateAndReplace };  ///< the last one never succeeds

/// What was agreed with the kernel.
struct Negotiated {
  uint32_t minor = 0;  ///< of the protocol, 7.minor
  uint64_t flags = 0;  ///< FUSE_* of INIT that both want
  uint32_t max_write_bytes = 0;
  uint32_t max_read_bytes = 0;
  bool resend = false;  ///< requests that this process leaves unanswered are sent to the next one
};

/// Names come without a slash and without a nul, 1 to 255 bytes, not "." or ".." where something is made or removed;
/// that was checked. Offsets plus lengths stay within INT64_MAX. Nothing else that comes from the kernel was checked: node
/// ids and handles may be stale or never have existed (kStale, kBadHandle).
///
/// Every operation with a name that can meet a replay (Caller::resent) must recognize it by Caller::unique.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// The kernel and the connection agreed. Called once before everything else, also by a process that took over.
  virtual void started(const Negotiated& negotiated) = 0;
  /// The file system was unmounted; nothing is called afterwards, operations under way may still end.
  virtual asio::awaitable<void> destroyed() = 0;

  /// Counts as `lookups` of the node less: each answer with an Entry counted one. At 0 the kernel knows it no more (but
  /// may still name it in handles that are open).
  virtual void forget(NodeId node, uint64_t lookups) = 0;

  virtual asio::awaitable<Result<Entry>> lookup(const Caller& caller, NodeId parent,
                                                std::string_view name) = 0;
  virtual asio::awaitable<Result<AttributesAnswer>> get_attributes(const Caller& caller, NodeId node,
                                                                   std::optional<Handle> handle) = 0;
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
  virtual asio::awaitable<Status> fsync(const Caller& caller, NodeId node, Handle handle, bool data_only) = 0;

  virtual asio::awaitable<Result<OpenAnswer>> open_directory(const Caller& caller, NodeId node,
                                                             OpenFlags flags) = 0;
  /// Adds the entries behind `cookie` (0: from the start, "." and ".." included) until `into` is full or the directory
  /// ends; an answer without any entry means the end. `plus`: with whole entries.
  virtual asio::awaitable<Status> read_directory(const Caller& caller, NodeId node, Handle handle,
                                                 uint64_t cookie, bool plus, DirectoryListing& into) = 0;
  virtual asio::awaitable<Status> release_directory(const Caller& caller, NodeId node, Handle handle) = 0;
  virtual asio::awaitable<Status> fsync_directory(const Caller& caller, NodeId node, Handle handle,
                                                  bool data_only) = 0;

  virtual asio::awaitable<Result<FileSystemSpace>> space(const Caller& caller, NodeId node) = 0;

  /// `kill_setgid`: an access list was set by somebody outside the file's group.
  virtual asio::awaitable<Status> set_xattr(const Caller& caller, NodeId node, std::string_view name,
                                            std::span<const std::byte> value, SetXattrMode mode,
                                            bool kill_setgid) = 0;
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
