#include "client/mount/kernel/directory_buffer.h"

#include <climits>
#include <cstring>

#include "common/base/assert.h"
#include "common/posix/file_time.h"

namespace kintsugi::mount {

namespace {

struct Split {
  uint64_t seconds;
  uint32_t ns;
};

Split split(int64_t ns) {
  const posix::FileTime time = posix::file_time(ns);
  return {static_cast<uint64_t>(time.seconds), static_cast<uint32_t>(time.nanoseconds)};
}

}  // namespace

fuse_attr to_fuse(const Attributes& from) {
  const Split accessed = split(from.accessed_ns), modified = split(from.modified_ns),
              changed = split(from.changed_ns);
  fuse_attr to{};
  to.ino = from.inode;
  to.size = from.size_bytes;
  to.blocks = from.blocks;
  to.atime = accessed.seconds;
  to.mtime = modified.seconds;
  to.ctime = changed.seconds;
  to.atimensec = accessed.ns;
  to.mtimensec = modified.ns;
  to.ctimensec = changed.ns;
  to.mode = from.mode;
  to.nlink = from.links;
  to.uid = from.uid;
  to.gid = from.gid;
  to.rdev = from.device;
  to.blksize = from.block_bytes;
  return to;
}

fuse_entry_out to_fuse(const Entry& from) {
  const Split entry_valid = split(std::max<int64_t>(from.entry_valid.count(), 0));
  const Split attributes_valid = split(std::max<int64_t>(from.attributes_valid.count(), 0));
  fuse_entry_out to{};
  to.nodeid = from.node;
  to.entry_valid = entry_valid.seconds;
  to.entry_valid_nsec = entry_valid.ns;
  to.attr_valid = attributes_valid.seconds;
  to.attr_valid_nsec = attributes_valid.ns;
  to.attr = to_fuse(from.attributes);
  return to;
}

void for_each_listed(std::string_view bytes, const std::function<void(NodeId)>& visit) {
  while (!bytes.empty()) {
    fuse_entry_out entry;
    fuse_dirent head;
    KINTSUGI_ASSERT(bytes.size() >= FUSE_NAME_OFFSET_DIRENTPLUS);
    std::memcpy(&entry, bytes.data(), sizeof entry);
    std::memcpy(&head, bytes.data() + sizeof entry, FUSE_NAME_OFFSET);
    if (entry.nodeid != 0) visit(entry.nodeid);
    bytes.remove_prefix(FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET_DIRENTPLUS + head.namelen));
  }
}

DirectoryBuffer::DirectoryBuffer(std::string& bytes, size_t limit, bool plus)
    : bytes_(bytes), limit_(limit), plus_(plus) {
  bytes_.clear();
}

size_t DirectoryBuffer::record_bytes(size_t name_bytes) const {
  return FUSE_DIRENT_ALIGN((plus_ ? FUSE_NAME_OFFSET_DIRENTPLUS : FUSE_NAME_OFFSET) + name_bytes);
}

size_t DirectoryBuffer::room(size_t name_bytes) const {
  return (limit_ - bytes_.size()) / record_bytes(name_bytes);
}

bool DirectoryBuffer::add(const DirectoryEntry& entry) {
  KINTSUGI_ASSERT(!entry.name.empty() && entry.name.size() <= NAME_MAX);
  const size_t bytes = record_bytes(entry.name.size());
  if (bytes > limit_ - bytes_.size()) return false;
  const size_t at = bytes_.size();
  bytes_.resize(at + bytes);  // fills the padding with zeros
  char* out = bytes_.data() + at;
  if (plus_) {
    fuse_entry_out whole = to_fuse(entry.entry);
    // The kernel knows what these mean, and would never forget a look-up of them.
    if (entry.name == "." || entry.name == "..") whole.nodeid = 0;
    std::memcpy(out, &whole, sizeof whole);
    out += sizeof whole;
  }
  fuse_dirent head{};
  head.ino = entry.entry.attributes.inode;
  head.off = entry.cookie;
  head.namelen = static_cast<uint32_t>(entry.name.size());
  head.type = entry.entry.attributes.mode >> 12 & 15;
  std::memcpy(out, &head, FUSE_NAME_OFFSET);
  std::memcpy(out + FUSE_NAME_OFFSET, entry.name.data(), entry.name.size());
  return true;
}

}  // namespace kintsugi::mount
