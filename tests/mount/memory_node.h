/// An inode of a file system in memory.
#pragma once

#include <map>
#include <string>
#include <unordered_map>

#include "client/mount/kernel/file_system.h"
#include "tests/mount/held_locks.h"

namespace kintsugi::mount {

struct MemoryNode {
  Attributes attributes;
  int contents = -1;  ///< a file of a tmpfs, for regular files
  NodeId parent = 0;  ///< directory in which a directory lies
  std::string target;
  std::map<std::string, std::string, std::less<>> xattrs;
  std::map<uint64_t, std::pair<std::string, NodeId>> entries;  ///< key: cookie
  std::unordered_map<std::string, uint64_t> names;             ///< cookies of the entries, by name
  uint64_t next_cookie = 3;
  uint64_t lookups = 0;
  uint64_t opens = 0;
  HeldLocks locks;
};

}  // namespace kintsugi::mount
