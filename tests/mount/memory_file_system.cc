#include "tests/mount/memory_file_system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/log/log.h"

namespace kintsugi::mount {

namespace {

/// Who waits for a lock looks so often whether its application was interrupted.
constexpr Duration kLooksForInterrupt = std::chrono::milliseconds(5);

Status missing() {
  return {Code::kNotFound, "no such entry"};
}

}  // namespace

void MemoryFileSystem::forget(NodeId id, uint64_t lookups) {
  Node* node = find(id);
  if (node == nullptr) return;
  node->lookups -= std::min(node->lookups, lookups);
  drop_if_unused(id);
}

asio::awaitable<Result<Entry>> MemoryFileSystem::lookup(const Caller&, NodeId parent, std::string_view name) {
  Node* directory = find(parent);
  if (directory == nullptr) co_return gone();
  const NodeId id = find_name(*directory, name);
  if (id == 0) co_return missing();
  co_return entry_of(id, *find(id), true);
}

asio::awaitable<Result<AttributesAnswer>> MemoryFileSystem::get_attributes(const Caller&, NodeId id) {
  Node* node = find(id);
  if (node == nullptr) co_return gone();
  refresh_size(*node);
  co_return AttributesAnswer{node->attributes, lifetime};
}

asio::awaitable<Result<AttributesAnswer>> MemoryFileSystem::set_attributes(const Caller& caller, NodeId id,
                                                                           const AttributeChanges& changes) {
  Node* node = find(id);
  if (node == nullptr) co_return gone();
  Attributes& attributes = node->attributes;
  if (changes.size_bytes) {
    if (node->contents < 0) co_return Status{Code::kInvalidArgument, "no file"};
    truncate(*node, *changes.size_bytes);
  }
  const auto kill = [&] {
    if (S_ISDIR(attributes.mode)) return;
    attributes.mode &= ~uint32_t{S_ISUID};
    if ((attributes.mode & S_IXGRP) != 0) attributes.mode &= ~uint32_t{S_ISGID};
  };
  if (changes.kill_setid || changes.uid || changes.gid) kill();
  if (changes.mode) attributes.mode = (attributes.mode & S_IFMT) | (*changes.mode & ~uint32_t{S_IFMT});
  if (changes.uid) attributes.uid = *changes.uid;
  if (changes.gid) attributes.gid = *changes.gid;
  if (changes.accessed) attributes.accessed_ns = changes.accessed->now ? now() : changes.accessed->ns;
  if (changes.modified) attributes.modified_ns = changes.modified->now ? now() : changes.modified->ns;
  attributes.changed_ns = now();
  log().note_node(id, *node);
  log().commit(caller, id);
  refresh_size(*node);
  co_return AttributesAnswer{attributes, lifetime};
}

asio::awaitable<Result<std::string>> MemoryFileSystem::read_link(const Caller&, NodeId id) {
  Node* node = find(id);
  if (node == nullptr) co_return gone();
  if (node->target.empty()) co_return Status{Code::kInvalidArgument, "no link"};
  co_return node->target;
}

asio::awaitable<Result<Entry>> MemoryFileSystem::make_node(const Caller& caller, NodeId parent,
                                                           std::string_view name, const NewNode& what) {
  co_return make_entry(caller, parent, name, what);
}
asio::awaitable<Result<Entry>> MemoryFileSystem::make_directory(const Caller& caller, NodeId parent,
                                                                std::string_view name, const NewNode& what) {
  co_return make_entry(caller, parent, name, what);
}
asio::awaitable<Result<Entry>> MemoryFileSystem::symlink(const Caller& caller, NodeId parent,
                                                         std::string_view name, std::string_view target) {
  co_return make_entry(caller, parent, name, {.mode = S_IFLNK | 0777}, target);
}

asio::awaitable<Result<Entry>> MemoryFileSystem::link(const Caller& caller, NodeId id, NodeId parent,
                                                      std::string_view name) {
  Node *node = find(id), *directory = find(parent);
  if (node == nullptr || directory == nullptr) co_return gone();
  if (log().done_before(caller)) co_return entry_of(id, *node, true);
  if (find_name(*directory, name) != 0) co_return Status{Code::kAlreadyExists, "it exists"};
  ++node->attributes.links;
  node->attributes.changed_ns = now();
  log().note_node(id, *node);
  enter(*directory, name, id);
  log().note_node(parent, *directory);
  log().commit(caller, id);
  co_return entry_of(id, *node, true);
}

asio::awaitable<Status> MemoryFileSystem::unlink(const Caller& caller, NodeId parent, std::string_view name) {
  if (log().done_before(caller)) co_return Status{};
  Node* directory = find(parent);
  if (directory == nullptr) co_return gone();
  const NodeId id = find_name(*directory, name);
  if (id == 0) co_return missing();
  if (S_ISDIR(find(id)->attributes.mode)) co_return Status{Code::kIsDirectory, "a directory"};
  leave(*directory, name);
  log().note_node(parent, *directory);
  unlinked(id);
  log().commit(caller, id);
  drop_if_unused(id);
  co_return Status{};
}

asio::awaitable<Status> MemoryFileSystem::remove_directory(const Caller& caller, NodeId parent,
                                                           std::string_view name) {
  if (log().done_before(caller)) co_return Status{};
  Node* directory = find(parent);
  if (directory == nullptr) co_return gone();
  const NodeId id = find_name(*directory, name);
  if (id == 0) co_return missing();
  Node& node = *find(id);
  if (!S_ISDIR(node.attributes.mode)) co_return Status{Code::kNotDirectory, "no directory"};
  if (!node.entries.empty()) co_return Status{Code::kNotEmpty, "not empty"};
  leave(*directory, name);
  --directory->attributes.links;
  log().note_node(parent, *directory);
  unlinked(id);
  log().commit(caller, id);
  drop_if_unused(id);
  co_return Status{};
}

asio::awaitable<Status> MemoryFileSystem::rename(const Caller& caller, NodeId parent, std::string_view name,
                                                 NodeId new_parent, std::string_view new_name,
                                                 RenameFlags flags) {
  if (log().done_before(caller)) co_return Status{};
  Node *from = find(parent), *to = find(new_parent);
  if (from == nullptr || to == nullptr) co_return gone();
  const NodeId id = find_name(*from, name), other = find_name(*to, new_name);
  if (id == 0) co_return missing();
  if (flags.no_replace && other != 0) co_return Status{Code::kAlreadyExists, "it exists"};
  if (flags.exchange && other == 0) co_return missing();
  if (id == other && !flags.exchange) co_return Status{};
  Node& node = *find(id);
  const bool directory = S_ISDIR(node.attributes.mode);
  if (other != 0 && !flags.exchange) {
    Node& replaced = *find(other);
    const bool also = S_ISDIR(replaced.attributes.mode);
    if (also && !directory) co_return Status{Code::kIsDirectory, "a directory"};
    if (!also && directory) co_return Status{Code::kNotDirectory, "no directory"};
    if (!replaced.entries.empty()) co_return Status{Code::kNotEmpty, "not empty"};
    leave(*to, new_name);
    if (also) --to->attributes.links;
    unlinked(other);
  }
  leave(*from, name);
  if (flags.exchange) {
    leave(*to, new_name);
    enter(*from, name, other);
    Node& swapped = *find(other);
    if (S_ISDIR(swapped.attributes.mode)) {
      swapped.parent = parent;
      --to->attributes.links;
      ++from->attributes.links;
    }
    log().note_node(other, swapped);
  }
  enter(*to, new_name, id);
  if (directory) {
    node.parent = new_parent;
    --from->attributes.links;
    ++to->attributes.links;
  }
  node.attributes.changed_ns = now();
  log().note_node(id, node);
  log().note_node(parent, *from);
  log().note_node(new_parent, *to);
  log().commit(caller, id);
  if (other != 0) drop_if_unused(other);
  co_return Status{};
}

asio::awaitable<Result<OpenAnswer>> MemoryFileSystem::open(const Caller&, NodeId id, OpenFlags flags) {
  Node* node = find(id);
  if (node == nullptr) co_return gone();
  if ((flags.flags & O_TRUNC) != 0) truncate(*node, 0);
  ++node->opens;
  OpenAnswer answer = open_as;
  answer.handle = id;
  co_return answer;
}

asio::awaitable<Result<CreateAnswer>> MemoryFileSystem::create(const Caller& caller, NodeId parent,
                                                               std::string_view name, const NewNode& what,
                                                               OpenFlags flags) {
  Node* directory = find(parent);
  if (directory == nullptr) co_return gone();
  NodeId id = find_name(*directory, name);
  Entry entry;
  if (id == 0 || log().done_before(caller)) {
    auto made = make_entry(caller, parent, name, what);
    if (!made) co_return made.error();
    entry = *made;
    id = entry.node;
  } else {
    if ((flags.flags & O_EXCL) != 0) co_return Status{Code::kAlreadyExists, "it exists"};
    if ((flags.flags & O_TRUNC) != 0) truncate(*find(id), 0);
    entry = entry_of(id, *find(id), true);
  }
  ++find(id)->opens;
  CreateAnswer answer{.entry = entry, .open = open_as};
  answer.open.handle = id;
  co_return answer;
}

asio::awaitable<Result<CreateAnswer>> MemoryFileSystem::create_nameless(const Caller& caller, NodeId parent,
                                                                        const NewNode& what, OpenFlags) {
  const auto id = make(caller, parent, what);
  if (!id) co_return id.error();
  Node& node = *find(*id);
  node.attributes.links = 0;
  ++node.opens;
  log().note_node(*id, node);
  log().commit(caller, *id);
  CreateAnswer answer{.entry = entry_of(*id, node, true), .open = open_as};
  answer.open.handle = *id;
  co_return answer;
}

asio::awaitable<Result<ReadAnswer>> MemoryFileSystem::read(const Caller&, NodeId id,
                                                           const ReadRequest& request) {
  Node* node = find(id);
  if (node == nullptr || request.handle != id) co_return Status{Code::kBadHandle, "no such file"};
  // malloc, for std::make_shared would clear it first.
  std::shared_ptr<void> memory(std::malloc(request.bytes), std::free);
  const ssize_t got =
      ::pread(node->contents, memory.get(), request.bytes, static_cast<off_t>(request.offset));
  if (got < 0) co_return status_from_errno(errno, "pread");
  ReadAnswer answer;
  answer.ranges.push_back({static_cast<const std::byte*>(memory.get()), static_cast<size_t>(got)});
  answer.owner = std::move(memory);
  co_return answer;
}

asio::awaitable<Result<uint32_t>> MemoryFileSystem::write(const Caller&, NodeId id,
                                                          const WriteRequest& request) {
  Node* node = find(id);
  if (node == nullptr) co_return Status{Code::kBadHandle, "no such file"};
  uint64_t offset = request.offset;
  if ((request.flags & O_APPEND) != 0 && !request.from_page_cache) {
    refresh_size(*node);
    offset = node->attributes.size_bytes;
  }
  if (request.kill_setid) {
    node->attributes.mode &= ~uint32_t{S_ISUID};
    if ((node->attributes.mode & S_IXGRP) != 0) node->attributes.mode &= ~uint32_t{S_ISGID};
  }
  const ssize_t wrote =
      ::pwrite(node->contents, request.data.data(), request.data.size(), static_cast<off_t>(offset));
  if (wrote < 0) co_return status_from_errno(errno, "pwrite");
  node->attributes.modified_ns = node->attributes.changed_ns = now();
  co_return static_cast<uint32_t>(wrote);
}

asio::awaitable<Status> MemoryFileSystem::flush(const Caller& caller, NodeId id, Handle, LockOwner owner) {
  Node* node = find(id);
  if (node == nullptr) co_return Status{};
  (void)caller;
  node->locks.release(owner, false);
  unlocked_.notify_all();
  co_return Status{};
}

asio::awaitable<Status> MemoryFileSystem::release(const Caller&, NodeId id, const ReleaseRequest& request) {
  Node* node = find(id);
  if (node == nullptr) co_return Status{};
  if (request.unlock_flock) {
    node->locks.release(request.lock_owner, true);
    unlocked_.notify_all();
  }
  if (node->opens > 0) --node->opens;
  drop_if_unused(id);
  co_return Status{};
}

asio::awaitable<Status> MemoryFileSystem::fsync(const Caller&, NodeId, Handle) {
  co_return Status{};
}

asio::awaitable<Result<OpenAnswer>> MemoryFileSystem::open_directory(const Caller&, NodeId id) {
  if (find(id) == nullptr) co_return gone();
  ++find(id)->opens;
  co_return OpenAnswer{.handle = id};
}

asio::awaitable<Status> MemoryFileSystem::read_directory(const Caller&, NodeId id, Handle, uint64_t cookie,
                                                         bool plus, DirectoryListing& into) {
  Node* node = find(id);
  if (node == nullptr) co_return gone();
  const auto dots = [&](std::string_view name, NodeId which, uint64_t own_cookie) {
    return cookie >= own_cookie || into.add({.name = name,
                                             .cookie = own_cookie,
                                             .entry = {.attributes = {.inode = which, .mode = S_IFDIR}}});
  };
  if (!dots(".", id, 1) || !dots("..", node->parent, 2)) co_return Status{};
  for (auto at = node->entries.upper_bound(std::max<uint64_t>(cookie, 2)); at != node->entries.end(); ++at) {
    const auto& [name, child] = at->second;
    Node& entry = *find(child);
    if (!into.add({.name = name, .cookie = at->first, .entry = entry_of(child, entry, false)})) break;
    if (plus) ++entry.lookups;
  }
  co_return Status{};
}

asio::awaitable<Status> MemoryFileSystem::release_directory(const Caller&, NodeId id, Handle) {
  if (Node* node = find(id); node != nullptr && node->opens > 0) {
    --node->opens;
    drop_if_unused(id);
  }
  co_return Status{};
}

asio::awaitable<Status> MemoryFileSystem::fsync_directory(const Caller&, NodeId) {
  co_return Status{};
}

asio::awaitable<Result<FileSystemSpace>> MemoryFileSystem::space(const Caller&, NodeId) {
  co_return FileSystemSpace{.total_blocks = 1 << 20,
                            .free_blocks = 1 << 19,
                            .available_blocks = 1 << 19,
                            .files = 1000000,
                            .free_files = 1000000 - inodes()};
}

asio::awaitable<Status> MemoryFileSystem::set_xattr(const Caller& caller, NodeId id, std::string_view name,
                                                    std::span<const std::byte> value, SetXattrFlags flags) {
  Node* node = find(id);
  if (node == nullptr) co_return gone();
  const bool exists = node->xattrs.find(name) != node->xattrs.end();
  if (flags.create && exists && !log().done_before(caller))
    co_return Status{Code::kAlreadyExists, "it exists"};
  if (flags.replace && !exists) co_return Status{Code::kNoData, "no such attribute"};
  node->xattrs[std::string(name)] = std::string(reinterpret_cast<const char*>(value.data()), value.size());
  if (flags.kill_setgid) node->attributes.mode &= ~uint32_t{S_ISGID};
  log().note_node(id, *node);
  log().commit(caller, id);
  co_return Status{};
}

asio::awaitable<Result<std::string>> MemoryFileSystem::get_xattr(const Caller&, NodeId id,
                                                                 std::string_view name) {
  Node* node = find(id);
  if (node == nullptr) co_return gone();
  const auto found = node->xattrs.find(name);
  if (found == node->xattrs.end()) co_return Status{Code::kNoData, "no such attribute"};
  co_return found->second;
}

asio::awaitable<Result<std::vector<std::string>>> MemoryFileSystem::list_xattrs(const Caller&, NodeId id) {
  Node* node = find(id);
  if (node == nullptr) co_return gone();
  std::vector<std::string> names;
  for (const auto& [name, value] : node->xattrs)
    names.push_back(name);
  co_return names;
}

asio::awaitable<Status> MemoryFileSystem::remove_xattr(const Caller& caller, NodeId id,
                                                       std::string_view name) {
  Node* node = find(id);
  if (node == nullptr) co_return gone();
  const auto found = node->xattrs.find(name);
  if (found == node->xattrs.end())
    co_return log().done_before(caller) ? Status{} : Status{Code::kNoData, "no such attribute"};
  node->xattrs.erase(found);
  log().note_node(id, *node);
  log().commit(caller, id);
  co_return Status{};
}

asio::awaitable<Result<Lock>> MemoryFileSystem::get_lock(const Caller&, NodeId id,
                                                         const LockRequest& request) {
  Node* node = find(id);
  if (node == nullptr) co_return gone();
  Lock holder = request.lock;
  if (!node->locks.conflict(request, &holder)) holder.type = LockType::kUnlock;
  co_return holder;
}

asio::awaitable<Status> MemoryFileSystem::set_lock(const Caller& caller, NodeId id,
                                                   const LockRequest& request) {
  for (;;) {
    Node* node = find(id);
    if (node == nullptr) co_return gone();
    if (!node->locks.conflict(request, nullptr)) {
      node->locks.apply(request);
      unlocked_.notify_all();
      co_return Status{};
    }
    if (!request.wait) co_return Status{Code::kWouldBlock, "locked"};
    if (caller.interrupt->requested()) co_return Status{Code::kInterrupted, "interrupted"};
    co_await unlocked_.wait_until(runtime().clock.now() + kLooksForInterrupt);
  }
}

asio::awaitable<Status> MemoryFileSystem::allocate(const Caller&, NodeId id, Handle, int mode,
                                                   uint64_t offset, uint64_t bytes) {
  Node* node = find(id);
  if (node == nullptr || node->contents < 0) co_return gone();
  // tmpfs has no FALLOC_FL_ZERO_RANGE: a hole reads as zeros, too.
  const bool zero = (mode & FALLOC_FL_ZERO_RANGE) != 0;
  const int base = zero ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : mode;
  if (::fallocate(node->contents, base, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno == EOPNOTSUPP) co_return Status{Code::kNotSupported, "fallocate"};
    co_return status_from_errno(errno, "fallocate");
  }
  if (zero && (mode & FALLOC_FL_KEEP_SIZE) == 0) {
    refresh_size(*node);
    if (node->attributes.size_bytes < offset + bytes) truncate(*node, offset + bytes);
  }
  co_return Status{};
}

asio::awaitable<Result<uint64_t>> MemoryFileSystem::seek(const Caller&, NodeId id, Handle, uint64_t offset,
                                                         SeekTo what) {
  Node* node = find(id);
  if (node == nullptr || node->contents < 0) co_return gone();
  const off_t found =
      ::lseek(node->contents, static_cast<off_t>(offset), what == SeekTo::kData ? SEEK_DATA : SEEK_HOLE);
  if (found < 0) co_return Status{Code::kNoDevice, "nothing there"};
  co_return static_cast<uint64_t>(found);
}

asio::awaitable<Result<uint64_t>> MemoryFileSystem::copy_range(const Caller&, const CopyRange& range) {
  Node *from = find(range.from), *to = find(range.to);
  if (from == nullptr || to == nullptr) co_return gone();
  std::vector<char> buffer(std::min<uint64_t>(range.bytes, 1 << 20));
  const ssize_t got =
      ::pread(from->contents, buffer.data(), buffer.size(), static_cast<off_t>(range.from_offset));
  if (got < 0) co_return status_from_errno(errno, "pread");
  if (::pwrite(to->contents, buffer.data(), static_cast<size_t>(got), static_cast<off_t>(range.to_offset)) !=
      got) {
    co_return Status{Code::kNoSpace, "pwrite"};
  }
  co_return static_cast<uint64_t>(got);
}

}  // namespace kintsugi::mount
