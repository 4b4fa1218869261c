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

Status gone() {
  return {Code::kStale, "no such inode"};
}
Status missing() {
  return {Code::kNotFound, "no such entry"};
}

template <class T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<uint32_t>(text.size()));
  out.append(text);
}

struct Reader {
  std::string_view left;
  bool ok = true;
  template <class T>
  T get() {
    T value{};
    if (left.size() < sizeof value) {
      ok = false;
      return value;
    }
    std::memcpy(&value, left.data(), sizeof value);
    left.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    const auto size = get<uint32_t>();
    if (left.size() < size) {
      ok = false;
      return {};
    }
    std::string result(left.substr(0, size));
    left.remove_prefix(size);
    return result;
  }
};

}  // namespace

MemoryFileSystem::MemoryFileSystem(const runtime::Runtime& runtime, std::string directory)
    : runtime_(runtime), directory_(std::move(directory)), unlocked_(runtime) {
  if (!directory_.empty()) {
    log_ = ::open((directory_ + "/log").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    KINTSUGI_ASSERT(log_ >= 0);
    replay();
  }
  if (!nodes_.contains(kRootNode)) {
    Node& root = nodes_[kRootNode];
    root.attributes = {.inode = kRootNode, .mode = S_IFDIR | 0777, .links = 2};
    root.attributes.modified_ns = root.attributes.changed_ns = root.attributes.accessed_ns = now();
    root.parent = kRootNode;
  }
}

MemoryFileSystem::~MemoryFileSystem() {
  for (auto& [id, node] : nodes_)
    if (node.contents >= 0) ::close(node.contents);
  if (log_ >= 0) ::close(log_);
}

size_t MemoryFileSystem::live_lookups() const {
  size_t total = 0;
  for (const auto& [id, node] : nodes_)
    total += node.lookups;
  return total;
}

int64_t MemoryFileSystem::now() const {
  return runtime_.clock.wall_now().time_since_epoch().count();
}

MemoryFileSystem::Node* MemoryFileSystem::find(NodeId id) {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

Entry MemoryFileSystem::entry_of(NodeId id, Node& node, bool count) {
  refresh_size(node);
  if (count) ++node.lookups;
  return {.node = id, .attributes = node.attributes, .entry_valid = lifetime, .attributes_valid = lifetime};
}

NodeId MemoryFileSystem::find_name(const Node& directory, std::string_view name) const {
  const auto found = directory.names.find(std::string(name));
  return found == directory.names.end() ? 0 : directory.entries.at(found->second).second;
}

void MemoryFileSystem::enter(Node& directory, std::string_view name, NodeId id) {
  const uint64_t cookie = directory.next_cookie++;
  directory.entries[cookie] = {std::string(name), id};
  directory.names[std::string(name)] = cookie;
  directory.attributes.modified_ns = directory.attributes.changed_ns = now();
  note_entry(directory.attributes.inode, name, id, cookie);
}

void MemoryFileSystem::leave(Node& directory, std::string_view name) {
  const auto found = directory.names.find(std::string(name));
  directory.entries.erase(found->second);
  directory.names.erase(found);
  directory.attributes.modified_ns = directory.attributes.changed_ns = now();
  note_entry(directory.attributes.inode, name, 0, 0);
}

void MemoryFileSystem::open_contents(NodeId id, Node& node) {
  if (!S_ISREG(node.attributes.mode)) return;
  node.contents = directory_.empty() ? ::memfd_create("file", MFD_CLOEXEC)
                                     : ::open(fmt::format("{}/{}", directory_, id).c_str(),
                                              O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  KINTSUGI_ASSERT(node.contents >= 0);
}

void MemoryFileSystem::refresh_size(Node& node) {
  if (node.contents < 0) return;
  struct stat found{};
  ::fstat(node.contents, &found);
  node.attributes.size_bytes = static_cast<uint64_t>(found.st_size);
  node.attributes.blocks = static_cast<uint64_t>(found.st_blocks);
}

Result<NodeId> MemoryFileSystem::make(const Caller& caller, NodeId parent, const NewNode& what) {
  Node* directory = find(parent);
  if (directory == nullptr) return gone();
  if (!S_ISDIR(directory->attributes.mode)) return Status{Code::kNotDirectory, "no directory"};
  const NodeId id = next_id_++;
  Node& node = nodes_[id];
  directory = find(parent);  // the table may have moved
  node.attributes = {.inode = id,
                     .mode = what.mode & ~(what.umask & 0777),
                     .links = 1,
                     .uid = caller.uid,
                     .gid = caller.gid,
                     .device = what.device};
  if ((directory->attributes.mode & S_ISGID) != 0) {
    node.attributes.gid = directory->attributes.gid;
    if (S_ISDIR(what.mode)) node.attributes.mode |= S_ISGID;
  }
  node.attributes.accessed_ns = node.attributes.modified_ns = node.attributes.changed_ns = now();
  open_contents(id, node);
  return id;
}

Result<Entry> MemoryFileSystem::make_entry(const Caller& caller, NodeId parent, std::string_view name,
                                           const NewNode& what, std::string_view target) {
  if (const auto before = done_before(caller)) {
    if (Node* node = find(*before)) return entry_of(*before, *node, true);
  }
  Node* directory = find(parent);
  if (directory == nullptr) return gone();
  if (find_name(*directory, name) != 0) return Status{Code::kAlreadyExists, "it exists"};
  const auto id = make(caller, parent, what);
  if (!id) return id.error();
  Node& node = *find(*id);
  directory = find(parent);
  if (S_ISDIR(what.mode)) {
    node.attributes.links = 2;
    node.parent = parent;
    ++directory->attributes.links;
  }
  node.target = target;
  if (!target.empty()) node.attributes.size_bytes = target.size();
  note_node(*id, node);
  enter(*directory, name, *id);
  note_node(parent, *directory);
  commit(caller, *id);
  return entry_of(*id, node, true);
}

void MemoryFileSystem::forget(NodeId id, uint64_t lookups) {
  Node* node = find(id);
  if (node == nullptr) return;
  node->lookups -= std::min(node->lookups, lookups);
  drop_if_unused(id);
}

void MemoryFileSystem::drop_if_unused(NodeId id) {
  Node* node = find(id);
  if (node == nullptr || node->attributes.links > 0 || node->lookups > 0 || node->opens > 0) return;
  // After a restart nobody knows what is looked up and open, so nothing goes away then.
  if (!directory_.empty()) return;
  if (node->contents >= 0) ::close(node->contents);
  nodes_.erase(id);
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

void MemoryFileSystem::truncate(Node& node, uint64_t bytes) {
  (void)!::ftruncate(node.contents, static_cast<off_t>(bytes));
  node.attributes.modified_ns = node.attributes.changed_ns = now();
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
  note_node(id, *node);
  commit(caller, id);
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
  if (done_before(caller)) co_return entry_of(id, *node, true);
  if (find_name(*directory, name) != 0) co_return Status{Code::kAlreadyExists, "it exists"};
  ++node->attributes.links;
  node->attributes.changed_ns = now();
  note_node(id, *node);
  enter(*directory, name, id);
  note_node(parent, *directory);
  commit(caller, id);
  co_return entry_of(id, *node, true);
}

void MemoryFileSystem::unlinked(NodeId id) {
  Node& node = *find(id);
  node.attributes.links -= S_ISDIR(node.attributes.mode) ? node.attributes.links : 1;
  node.attributes.changed_ns = now();
  note_node(id, node);
}

asio::awaitable<Status> MemoryFileSystem::unlink(const Caller& caller, NodeId parent, std::string_view name) {
  if (done_before(caller)) co_return Status{};
  Node* directory = find(parent);
  if (directory == nullptr) co_return gone();
  const NodeId id = find_name(*directory, name);
  if (id == 0) co_return missing();
  if (S_ISDIR(find(id)->attributes.mode)) co_return Status{Code::kIsDirectory, "a directory"};
  leave(*directory, name);
  note_node(parent, *directory);
  unlinked(id);
  commit(caller, id);
  drop_if_unused(id);
  co_return Status{};
}

asio::awaitable<Status> MemoryFileSystem::remove_directory(const Caller& caller, NodeId parent,
                                                           std::string_view name) {
  if (done_before(caller)) co_return Status{};
  Node* directory = find(parent);
  if (directory == nullptr) co_return gone();
  const NodeId id = find_name(*directory, name);
  if (id == 0) co_return missing();
  Node& node = *find(id);
  if (!S_ISDIR(node.attributes.mode)) co_return Status{Code::kNotDirectory, "no directory"};
  if (!node.entries.empty()) co_return Status{Code::kNotEmpty, "not empty"};
  leave(*directory, name);
  --directory->attributes.links;
  note_node(parent, *directory);
  unlinked(id);
  commit(caller, id);
  drop_if_unused(id);
  co_return Status{};
}

asio::awaitable<Status> MemoryFileSystem::rename(const Caller& caller, NodeId parent, std::string_view name,
                                                 NodeId new_parent, std::string_view new_name,
                                                 RenameFlags flags) {
  if (done_before(caller)) co_return Status{};
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
    note_node(other, swapped);
  }
  enter(*to, new_name, id);
  if (directory) {
    node.parent = new_parent;
    --from->attributes.links;
    ++to->attributes.links;
  }
  node.attributes.changed_ns = now();
  note_node(id, node);
  note_node(parent, *from);
  note_node(new_parent, *to);
  commit(caller, id);
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
  if (id == 0 || done_before(caller)) {
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
  note_node(*id, node);
  commit(caller, *id);
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
  std::erase_if(node->locks, [&](const HeldLock& held) { return held.owner == owner && !held.flock; });
  unlocked_.notify_all();
  co_return Status{};
}

asio::awaitable<Status> MemoryFileSystem::release(const Caller&, NodeId id, const ReleaseRequest& request) {
  Node* node = find(id);
  if (node == nullptr) co_return Status{};
  if (request.unlock_flock) {
    std::erase_if(node->locks,
                  [&](const HeldLock& held) { return held.owner == request.lock_owner && held.flock; });
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
                            .free_files = 1000000 - nodes_.size()};
}

asio::awaitable<Status> MemoryFileSystem::set_xattr(const Caller& caller, NodeId id, std::string_view name,
                                                    std::span<const std::byte> value, SetXattrFlags flags) {
  Node* node = find(id);
  if (node == nullptr) co_return gone();
  const bool exists = node->xattrs.find(name) != node->xattrs.end();
  if (flags.create && exists && !done_before(caller)) co_return Status{Code::kAlreadyExists, "it exists"};
  if (flags.replace && !exists) co_return Status{Code::kNoData, "no such attribute"};
  node->xattrs[std::string(name)] = std::string(reinterpret_cast<const char*>(value.data()), value.size());
  if (flags.kill_setgid) node->attributes.mode &= ~uint32_t{S_ISGID};
  note_node(id, *node);
  commit(caller, id);
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
    co_return done_before(caller) ? Status{} : Status{Code::kNoData, "no such attribute"};
  node->xattrs.erase(found);
  note_node(id, *node);
  commit(caller, id);
  co_return Status{};
}

bool MemoryFileSystem::conflicts(const Node& node, const LockRequest& request, Lock* holder) const {
  if (request.lock.type == LockType::kUnlock) return false;
  for (const HeldLock& held : node.locks) {
    if (held.flock != request.flock || held.owner == request.owner) continue;
    if (held.lock.end < request.lock.start || request.lock.end < held.lock.start) continue;
    if (held.lock.type == LockType::kRead && request.lock.type == LockType::kRead) continue;
    if (holder != nullptr) *holder = held.lock;
    return true;
  }
  return false;
}

void MemoryFileSystem::apply_lock(Node& node, const LockRequest& request) {
  std::list<HeldLock> kept;
  for (const HeldLock& held : node.locks) {
    const bool meets = held.flock == request.flock && held.owner == request.owner &&
                       held.lock.end >= request.lock.start && held.lock.start <= request.lock.end;
    if (!meets) {
      kept.push_back(held);
      continue;
    }
    if (held.lock.start < request.lock.start) {
      kept.push_back(held);
      kept.back().lock.end = request.lock.start - 1;
    }
    if (held.lock.end > request.lock.end) {
      kept.push_back(held);
      kept.back().lock.start = request.lock.end + 1;
    }
  }
  if (request.lock.type != LockType::kUnlock) kept.push_back({request.owner, request.flock, request.lock});
  node.locks = std::move(kept);
  unlocked_.notify_all();
}

asio::awaitable<Result<Lock>> MemoryFileSystem::get_lock(const Caller&, NodeId id,
                                                         const LockRequest& request) {
  Node* node = find(id);
  if (node == nullptr) co_return gone();
  Lock holder = request.lock;
  if (!conflicts(*node, request, &holder)) holder.type = LockType::kUnlock;
  co_return holder;
}

asio::awaitable<Status> MemoryFileSystem::set_lock(const Caller& caller, NodeId id,
                                                   const LockRequest& request) {
  for (;;) {
    Node* node = find(id);
    if (node == nullptr) co_return gone();
    if (!conflicts(*node, request, nullptr)) {
      apply_lock(*node, request);
      co_return Status{};
    }
    if (!request.wait) co_return Status{Code::kWouldBlock, "locked"};
    if (caller.interrupt->requested()) co_return Status{Code::kInterrupted, "interrupted"};
    co_await unlocked_.wait_until(runtime_.clock.now() + kLooksForInterrupt);
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

void MemoryFileSystem::note_node(NodeId id, const Node& node) {
  if (log_ < 0) return;
  pending_.push_back('N');
  put(pending_, id);
  put(pending_, node.attributes);
  put(pending_, node.parent);
  put_text(pending_, node.target);
  put(pending_, static_cast<uint32_t>(node.xattrs.size()));
  for (const auto& [name, value] : node.xattrs) {
    put_text(pending_, name);
    put_text(pending_, value);
  }
}

void MemoryFileSystem::note_entry(NodeId directory, std::string_view name, NodeId child, uint64_t cookie) {
  if (log_ < 0) return;
  pending_.push_back('D');
  put(pending_, directory);
  put_text(pending_, name);
  put(pending_, child);
  put(pending_, cookie);
}

void MemoryFileSystem::commit(const Caller& caller, NodeId result) {
  if (log_ < 0) return;
  pending_.push_back('U');
  put(pending_, caller.unique);
  put(pending_, result);
  std::string record;
  put_text(record, pending_);
  pending_.clear();
  KINTSUGI_ASSERT(::write(log_, record.data(), record.size()) == static_cast<ssize_t>(record.size()));
}

std::optional<NodeId> MemoryFileSystem::done_before(const Caller& caller) const {
  if (!caller.resent) return {};
  const auto found = done_.find(caller.unique);
  if (found == done_.end()) return {};
  return found->second;
}

void MemoryFileSystem::replay() {
  struct stat found{};
  ::fstat(log_, &found);
  std::string all(static_cast<size_t>(found.st_size), 0);
  KINTSUGI_ASSERT(::pread(log_, all.data(), all.size(), 0) == found.st_size);
  Reader log{all};
  size_t good = 0;
  for (;;) {
    Reader record{{}};
    const std::string text = log.text();
    if (!log.ok) break;
    good = all.size() - log.left.size();
    record.left = text;
    while (!record.left.empty() && record.ok) {
      const auto kind = record.get<char>();
      if (kind == 'N') {
        const auto id = record.get<NodeId>();
        Node& node = nodes_[id];
        node.attributes = record.get<Attributes>();
        node.parent = record.get<NodeId>();
        node.target = record.text();
        node.xattrs.clear();
        for (auto left = record.get<uint32_t>(); left > 0 && record.ok; --left) {
          const std::string name = record.text();
          node.xattrs[name] = record.text();
        }
        next_id_ = std::max(next_id_, id + 1);
      } else if (kind == 'D') {
        Node& directory = nodes_[record.get<NodeId>()];
        const std::string name = record.text();
        const auto child = record.get<NodeId>();
        const auto cookie = record.get<uint64_t>();
        if (const auto old = directory.names.find(name); old != directory.names.end()) {
          directory.entries.erase(old->second);
          directory.names.erase(old);
        }
        if (child != 0) {
          directory.entries[cookie] = {name, child};
          directory.names[name] = cookie;
          directory.next_cookie = cookie + 1;
        }
      } else {
        const auto unique = record.get<uint64_t>();
        done_[unique] = record.get<NodeId>();
      }
    }
    KINTSUGI_ASSERT(record.ok);
  }
  // What a killed process had half written was answered to nobody.
  KINTSUGI_ASSERT(::ftruncate(log_, static_cast<off_t>(good)) == 0);
  for (auto& [id, node] : nodes_)
    if (node.contents < 0) open_contents(id, node);
}

}  // namespace kintsugi::mount
