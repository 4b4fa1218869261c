/// The inodes of a file system in memory, and their names.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "client/mount/kernel/file_system.h"
#include "common/runtime/runtime.h"
#include "tests/mount/memory_log.h"

namespace kintsugi::mount {

inline Status gone() {
  return {Code::kStale, "no such inode"};
}

/// Contents lie in one file of a tmpfs for each inode.
class MemoryTree {
 public:
  /// `directory`: on a tmpfs, empty at first; empty: nothing outlives this object.
  MemoryTree(const runtime::Runtime& runtime, std::string directory);
  ~MemoryTree();
  MemoryTree(const MemoryTree&) = delete;
  MemoryTree& operator=(const MemoryTree&) = delete;

  /// How long the kernel may cache.
  Lifetime lifetime = std::chrono::seconds(1);
  size_t live_lookups() const;
  size_t inodes() const { return nodes_.size(); }

 protected:
  using Node = MemoryNode;

  Node* find(NodeId id);
  const runtime::Runtime& runtime() const { return runtime_; }
  int64_t now() const;
  Entry entry_of(NodeId id, Node& node, bool count);
  NodeId find_name(const Node& directory, std::string_view name) const;
  void enter(Node& directory, std::string_view name, NodeId id);
  void leave(Node& directory, std::string_view name);
  Result<NodeId> make(const Caller& caller, NodeId parent, const NewNode& what);
  Result<Entry> make_entry(const Caller& caller, NodeId parent, std::string_view name, const NewNode& what,
                           std::string_view target = {});
  void unlinked(NodeId id);
  void drop_if_unused(NodeId id);
  void refresh_size(Node& node);
  void truncate(Node& node, uint64_t bytes);
  MemoryLog& log() { return log_; }

 private:
  void open_contents(NodeId id, Node& node);

  const runtime::Runtime& runtime_;
  std::string directory_;
  MemoryLog log_;
  std::unordered_map<NodeId, Node> nodes_;
  NodeId next_id_ = 2;
};

}  // namespace kintsugi::mount
