#include "tests/fuzz/doubtful_file_system.h"

#include <climits>

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>

namespace kintsugi::fuzz {

using namespace mount;

namespace {

void require_range(uint64_t offset, uint64_t bytes) {
  require(offset <= INT64_MAX && bytes <= INT64_MAX - offset, "a range is one of a file");
}

}  // namespace

void DoubtfulFileSystem::begin(const Request& request) {
  body_ = request.body;
  entries_taken = 0;
}

// ---- answers

uint64_t DoubtfulFileSystem::number() {
  const uint64_t number = random_();
  switch (random_() % 4) {
    case 0: return number;
    case 1: return number % 2 == 0 ? UINT64_MAX : uint64_t{1} << 63;
    default: return number % 1000;
  }
}

Status DoubtfulFileSystem::status() {
  if (!chance(4)) return {};
  return {static_cast<Code>(1 + random_() % static_cast<uint64_t>(kLastCode)), "is refused"};
}

Attributes DoubtfulFileSystem::attributes() {
  Attributes made;
  made.inode = number();
  made.size_bytes = number();
  made.accessed_ns = static_cast<int64_t>(number());
  made.modified_ns = static_cast<int64_t>(number());
  made.mode = static_cast<uint32_t>(number());
  return made;
}

Result<Entry> DoubtfulFileSystem::entry() {
  const Status refused = status();
  if (!refused.ok()) return refused;
  Entry made;
  made.node = chance(4) ? 0 : 1 + random_() % 9;
  made.attributes = attributes();
  made.entry_valid = Lifetime(static_cast<int64_t>(number()));
  made.attributes_valid = Lifetime(static_cast<int64_t>(number()));
  if (made.node != 0) ++looked_up_;
  return made;
}

OpenAnswer DoubtfulFileSystem::opened(std::multiset<Handle>& among) {
  OpenAnswer answer;
  answer.handle = number();
  answer.direct_io = chance(2);
  answer.keep_cache = chance(2);
  among.insert(answer.handle);
  return answer;
}

Result<CreateAnswer> DoubtfulFileSystem::created() {
  const Status refused = status();
  if (!refused.ok()) return refused;
  CreateAnswer answer;
  answer.entry.node = 1 + random_() % 9;
  answer.entry.attributes = attributes();
  answer.open = opened(handles_);
  ++looked_up_;
  return answer;
}

// ---- what is promised

void DoubtfulFileSystem::check(std::string_view name) {
  require(!name.empty() && name.size() <= NAME_MAX, "a name has 1 to 255 bytes");
  require(name.find_first_of(std::string_view("/\0", 2)) == name.npos, "a name has no slash");
}

void DoubtfulFileSystem::check_new(std::string_view name) {
  check(name);
  require(name != "." && name != "..", "nobody makes or removes . and ..");
}

void DoubtfulFileSystem::check(const LockRequest& request) {
  require(request.lock.start <= INT64_MAX && request.lock.start <= request.lock.end, "a lock has a range");
}

void DoubtfulFileSystem::forget(NodeId, uint64_t lookups) {
  require(lookups > 0, "something is forgotten");
  // The kernel, which is not asked here, may forget more than it was told.
  looked_up_ -= std::min(looked_up_, lookups);
}

asio::awaitable<Result<Entry>> DoubtfulFileSystem::lookup(const Caller&, NodeId, std::string_view name) {
  check(name);
  co_return entry();
}

asio::awaitable<Result<AttributesAnswer>> DoubtfulFileSystem::get_attributes(const Caller&, NodeId) {
  const Status refused = status();
  if (!refused.ok()) co_return refused;
  co_return AttributesAnswer{attributes(), Lifetime(static_cast<int64_t>(number()))};
}

asio::awaitable<Result<AttributesAnswer>> DoubtfulFileSystem::set_attributes(
    const Caller& caller, NodeId node, const AttributeChanges& changes) {
  require_range(changes.size_bytes.value_or(0), 0);
  return get_attributes(caller, node);
}

asio::awaitable<Result<std::string>> DoubtfulFileSystem::read_link(const Caller&, NodeId) {
  const Status refused = status();
  if (!refused.ok()) co_return refused;
  co_return text(PATH_MAX + 9);
}

asio::awaitable<Result<Entry>> DoubtfulFileSystem::make_node(const Caller&, NodeId, std::string_view name,
                                                             const NewNode&) {
  check_new(name);
  co_return entry();
}

asio::awaitable<Result<Entry>> DoubtfulFileSystem::make_directory(const Caller&, NodeId,
                                                                  std::string_view name,
                                                                  const NewNode& node) {
  check_new(name);
  require(S_ISDIR(node.mode), "a directory is made");
  co_return entry();
}

asio::awaitable<Result<Entry>> DoubtfulFileSystem::symlink(const Caller&, NodeId, std::string_view name,
                                                           std::string_view target) {
  check_new(name);
  require(!target.empty() && target.size() < PATH_MAX && target.find('\0') == target.npos,
          "a target is a path");
  co_return entry();
}

asio::awaitable<Result<Entry>> DoubtfulFileSystem::link(const Caller&, NodeId, NodeId,
                                                        std::string_view name) {
  check_new(name);
  co_return entry();
}

asio::awaitable<Status> DoubtfulFileSystem::unlink(const Caller&, NodeId, std::string_view name) {
  check_new(name);
  co_return status();
}

asio::awaitable<Status> DoubtfulFileSystem::remove_directory(const Caller&, NodeId, std::string_view name) {
  check_new(name);
  co_return status();
}

asio::awaitable<Status> DoubtfulFileSystem::rename(const Caller&, NodeId, std::string_view name, NodeId,
                                                   std::string_view new_name, RenameFlags flags) {
  check_new(name);
  check_new(new_name);
  require(!flags.exchange || !flags.no_replace, "an exchange is nothing else");
  co_return status();
}

asio::awaitable<Result<OpenAnswer>> DoubtfulFileSystem::open(const Caller&, NodeId, OpenFlags) {
  const Status refused = status();
  if (!refused.ok()) co_return refused;
  co_return opened(handles_);
}

asio::awaitable<Result<CreateAnswer>> DoubtfulFileSystem::create(const Caller&, NodeId, std::string_view name,
                                                                 const NewNode& node, OpenFlags) {
  check_new(name);
  require(S_ISREG(node.mode), "a file is made");
  co_return created();
}

asio::awaitable<Result<CreateAnswer>> DoubtfulFileSystem::create_nameless(const Caller&, NodeId,
                                                                          const NewNode& node, OpenFlags) {
  require(S_ISREG(node.mode), "a file is made");
  co_return created();
}

asio::awaitable<Result<ReadAnswer>> DoubtfulFileSystem::read(const Caller&, NodeId,
                                                             const ReadRequest& request) {
  require_range(request.offset, request.bytes);
  require(request.bytes <= 1 << 20, "a read has a limit");
  const Status refused = status();
  if (!refused.ok()) co_return refused;
  // Now and then more than was asked for, or in more pieces than can be written.
  const size_t bytes = chance(8) ? request.bytes + 1 : random_() % (size_t{request.bytes} + 1);
  auto owner = std::make_shared<std::vector<std::byte>>(bytes);
  ReadAnswer answer;
  size_t pieces = chance(8) ? kMaxReadRanges + 1 : 1 + random_() % 3;
  for (std::span<const std::byte> left = *owner; pieces > 0; --pieces) {
    const size_t piece = pieces == 1 ? left.size() : std::min(left.size(), size_t{1});
    answer.ranges.push_back(left.first(piece));
    left = left.subspan(piece);
  }
  answer.owner = std::move(owner);
  co_return answer;
}

asio::awaitable<Result<uint32_t>> DoubtfulFileSystem::write(const Caller&, NodeId,
                                                            const WriteRequest& request) {
  require_range(request.offset, request.data.size());
  const bool inside =
      request.data.empty() || (request.data.data() >= body_.data() &&
                               request.data.data() + request.data.size() <= body_.data() + body_.size());
  require(inside, "what is written came with the request");
  const Status refused = status();
  if (!refused.ok()) co_return refused;
  co_return static_cast<uint32_t>(request.data.size() + (chance(8) ? 1 : 0));
}

asio::awaitable<Status> DoubtfulFileSystem::flush(const Caller&, NodeId, Handle, LockOwner) {
  co_return status();
}

asio::awaitable<Status> DoubtfulFileSystem::release(const Caller&, NodeId, const ReleaseRequest& request) {
  if (const auto found = handles_.find(request.handle); found != handles_.end()) handles_.erase(found);
  co_return status();
}

asio::awaitable<Status> DoubtfulFileSystem::fsync(const Caller&, NodeId, Handle) {
  co_return status();
}

asio::awaitable<Result<OpenAnswer>> DoubtfulFileSystem::open_directory(const Caller&, NodeId) {
  const Status refused = status();
  if (!refused.ok()) co_return refused;
  co_return opened(directories_);
}

asio::awaitable<Status> DoubtfulFileSystem::read_directory(const Caller&, NodeId, Handle, uint64_t, bool,
                                                           DirectoryListing& into) {
  const size_t room = into.room(1 + random_() % NAME_MAX);
  for (size_t i = 0; i < std::min<size_t>(room + 2, 100); ++i) {
    const std::string name = i == 0 && chance(2) ? "." : "n" + text(NAME_MAX - 1);
    DirectoryEntry one;
    one.name = name;
    one.cookie = number();
    one.entry.node = number();
    one.entry.attributes = attributes();
    if (!into.add(one)) break;
    ++entries_taken;
  }
  co_return status();
}

asio::awaitable<Status> DoubtfulFileSystem::release_directory(const Caller&, NodeId, Handle handle) {
  if (const auto found = directories_.find(handle); found != directories_.end()) directories_.erase(found);
  co_return status();
}

asio::awaitable<Status> DoubtfulFileSystem::fsync_directory(const Caller&, NodeId) {
  co_return status();
}

asio::awaitable<Result<FileSystemSpace>> DoubtfulFileSystem::space(const Caller&, NodeId) {
  const Status refused = status();
  if (!refused.ok()) co_return refused;
  co_return FileSystemSpace{.total_blocks = number(), .free_blocks = number()};
}

asio::awaitable<Status> DoubtfulFileSystem::set_xattr(const Caller&, NodeId, std::string_view name,
                                                      std::span<const std::byte> value, SetXattrFlags) {
  require(!name.empty() && name.size() <= XATTR_NAME_MAX, "an attribute has a name");
  require(value.size() <= XATTR_SIZE_MAX, "a value has a limit");
  co_return status();
}

asio::awaitable<Result<std::string>> DoubtfulFileSystem::get_xattr(const Caller&, NodeId,
                                                                   std::string_view name) {
  require(!name.empty() && name.size() <= XATTR_NAME_MAX, "an attribute has a name");
  const Status refused = status();
  if (!refused.ok()) co_return refused;
  co_return text(chance(8) ? XATTR_SIZE_MAX + 9 : 99);
}

asio::awaitable<Result<std::vector<std::string>>> DoubtfulFileSystem::list_xattrs(const Caller&, NodeId) {
  const Status refused = status();
  if (!refused.ok()) co_return refused;
  std::vector<std::string> names(chance(16) ? 300 : random_() % 5);
  for (std::string& name : names)
    name = "user." + text(XATTR_NAME_MAX - 5);
  co_return names;
}

asio::awaitable<Status> DoubtfulFileSystem::remove_xattr(const Caller&, NodeId, std::string_view name) {
  require(!name.empty() && name.size() <= XATTR_NAME_MAX, "an attribute has a name");
  co_return status();
}

asio::awaitable<Result<Lock>> DoubtfulFileSystem::get_lock(const Caller&, NodeId,
                                                           const LockRequest& request) {
  check(request);
  const Status refused = status();
  if (!refused.ok()) co_return refused;
  Lock lock;
  lock.type = static_cast<LockType>(random_() % 3);
  lock.start = number();
  lock.end = number();
  co_return lock;
}

asio::awaitable<Status> DoubtfulFileSystem::set_lock(const Caller&, NodeId, const LockRequest& request) {
  check(request);
  co_return status();
}

asio::awaitable<Status> DoubtfulFileSystem::allocate(const Caller&, NodeId, Handle, int, uint64_t offset,
                                                     uint64_t bytes) {
  require_range(offset, bytes);
  co_return status();
}

asio::awaitable<Result<uint64_t>> DoubtfulFileSystem::seek(const Caller&, NodeId, Handle, uint64_t offset,
                                                           SeekTo) {
  require_range(offset, 0);
  const Status refused = status();
  if (!refused.ok()) co_return refused;
  co_return number();
}

asio::awaitable<Result<uint64_t>> DoubtfulFileSystem::copy_range(const Caller&, const CopyRange& range) {
  require_range(range.from_offset, range.bytes);
  require_range(range.to_offset, range.bytes);
  const Status refused = status();
  if (!refused.ok()) co_return refused;
  co_return random_() % (range.bytes + 2);
}

}  // namespace kintsugi::fuzz
