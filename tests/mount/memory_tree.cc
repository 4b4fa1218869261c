#include "tests/mount/memory_tree.h"

#include <algorithm>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/assert.h"

namespace kintsugi::mount {

MemoryTree::MemoryTree(const runtime::Runtime& runtime, std::string directory)
    : runtime_(runtime),
      directory_(std::move(directory)),
      log_(directory_.empty() ? "" : directory_ + "/log") {
  log_.replay(nodes_);
  for (auto& [id, node] : nodes_) {
    next_id_ = std::max(next_id_, id + 1);
    if (node.contents < 0) open_contents(id, node);
  }
  if (!nodes_.contains(kRootNode)) {
    Node& root = nodes_[kRootNode];
    root.attributes = {.inode = kRootNode, .mode = S_IFDIR | 0777, .links = 2};
    root.attributes.modified_ns = root.attributes.changed_ns = root.attributes.accessed_ns = now();
    root.parent = kRootNode;
  }
}

MemoryTree::~MemoryTree() {
  for (auto& [id, node] : nodes_)
    if (node.contents >= 0) ::close(node.contents);
}

size_t MemoryTree::live_lookups() const {
  size_t total = 0;
  for (const auto& [id, node] : nodes_)
    total += node.lookups;
  return total;
}

int64_t MemoryTree::now() const {
  return runtime_.clock.wall_now().time_since_epoch().count();
}

MemoryTree::Node* MemoryTree::find(NodeId id) {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

Entry MemoryTree::entry_of(NodeId id, Node& node, bool count) {
  refresh_size(node);
  if (count) ++node.lookups;
  return {.node = id, .attributes = node.attributes, .entry_valid = lifetime, .attributes_valid = lifetime};
}

NodeId MemoryTree::find_name(const Node& directory, std::string_view name) const {
  const auto found = directory.names.find(std::string(name));
  return found == directory.names.end() ? 0 : directory.entries.at(found->second).second;
}

void MemoryTree::enter(Node& directory, std::string_view name, NodeId id) {
  const uint64_t cookie = directory.next_cookie++;
  directory.entries[cookie] = {std::string(name), id};
  directory.names[std::string(name)] = cookie;
  directory.attributes.modified_ns = directory.attributes.changed_ns = now();
  log_.note_entry(directory.attributes.inode, name, id, cookie);
}

void MemoryTree::leave(Node& directory, std::string_view name) {
  const auto found = directory.names.find(std::string(name));
  directory.entries.erase(found->second);
  directory.names.erase(found);
  directory.attributes.modified_ns = directory.attributes.changed_ns = now();
  log_.note_entry(directory.attributes.inode, name, 0, 0);
}

void MemoryTree::open_contents(NodeId id, Node& node) {
  if (!S_ISREG(node.attributes.mode)) return;
  node.contents = directory_.empty() ? ::memfd_create("file", MFD_CLOEXEC)
                                     : ::open(fmt::format("{}/{}", directory_, id).c_str(),
                                              O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  KINTSUGI_ASSERT(node.contents >= 0);
}

void MemoryTree::refresh_size(Node& node) {
  if (node.contents < 0) return;
  struct stat found{};
  ::fstat(node.contents, &found);
  node.attributes.size_bytes = static_cast<uint64_t>(found.st_size);
  node.attributes.blocks = static_cast<uint64_t>(found.st_blocks);
}

Result<NodeId> MemoryTree::make(const Caller& caller, NodeId parent, const NewNode& what) {
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

Result<Entry> MemoryTree::make_entry(const Caller& caller, NodeId parent, std::string_view name,
                                     const NewNode& what, std::string_view target) {
  if (const auto before = log_.done_before(caller)) {
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
  log_.note_node(*id, node);
  enter(*directory, name, *id);
  log_.note_node(parent, *directory);
  log_.commit(caller, *id);
  return entry_of(*id, node, true);
}

void MemoryTree::drop_if_unused(NodeId id) {
  Node* node = find(id);
  if (node == nullptr || node->attributes.links > 0 || node->lookups > 0 || node->opens > 0) return;
  // After a restart nobody knows what is looked up and open, so nothing goes away then.
  if (!directory_.empty()) return;
  if (node->contents >= 0) ::close(node->contents);
  nodes_.erase(id);
}

void MemoryTree::truncate(Node& node, uint64_t bytes) {
  (void)!::ftruncate(node.contents, static_cast<off_t>(bytes));
  node.attributes.modified_ns = node.attributes.changed_ns = now();
}

void MemoryTree::unlinked(NodeId id) {
  Node& node = *find(id);
  node.attributes.links -= S_ISDIR(node.attributes.mode) ? node.attributes.links : 1;
  node.attributes.changed_ns = now();
  log_.note_node(id, node);
}

}  // namespace kintsugi::mount
