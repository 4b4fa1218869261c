/// The log of a file system in memory: what a process that takes over reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tests/mount/memory_node.h"

namespace kintsugi::mount {

/// Records of a change are collected and written by one call.
class MemoryLog {
 public:
  /// `path`: empty: nothing is logged.
  explicit MemoryLog(const std::string& path);
  ~MemoryLog();
  MemoryLog(const MemoryLog&) = delete;
  MemoryLog& operator=(const MemoryLog&) = delete;

  void note_node(NodeId id, const MemoryNode& node);
  /// `child`: 0: the name is gone.
  void note_entry(NodeId directory, std::string_view name, NodeId child, uint64_t cookie);
  /// Writes what was noted, as the outcome of the caller's request.
  void commit(const Caller& caller, NodeId result);
  /// The result of a request that the kernel sent again and that was carried out before.
  std::optional<NodeId> done_before(const Caller& caller) const;
  /// Reads everything that was logged into `nodes`.
  void replay(std::unordered_map<NodeId, MemoryNode>& nodes);

 private:
  int log_ = -1;
  std::string pending_;
  std::unordered_map<uint64_t, NodeId> done_;  ///< requests that were carried out, by their unique ids
};

}  // namespace kintsugi::mount
