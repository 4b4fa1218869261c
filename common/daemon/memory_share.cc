#include "common/daemon/memory_share.h"

#include <algorithm>
#include <fstream>

#include <unistd.h>

namespace kintsugi::daemon {
namespace {

/// The number in a file of a control group; UINT64_MAX when there is none, as when it says "max".
uint64_t limit_in(const std::string& path) {
  uint64_t limit = 0;
  return std::ifstream(path) >> limit ? limit : UINT64_MAX;
}

/// The path of this process's control group (version 2); the root when that cannot be told.
std::string own_group(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  constexpr std::string_view kVersion2 = "0::";
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with(kVersion2)) return line.substr(kVersion2.size());
  }
  return "/";
}

}  // namespace

uint64_t machine_memory_bytes() {
  return machine_memory_bytes(
      "", static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

uint64_t machine_memory_bytes(const std::string& root, uint64_t physical_bytes) {
  uint64_t bytes = std::min(physical_bytes, limit_in(root + "/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  // A group has what the groups around it leave it.
  std::string group = own_group(root);
  for (size_t end = group.size(); end != std::string::npos; end = group.rfind('/')) {
    group.resize(end);
    bytes = std::min(bytes, limit_in(root + "/sys/fs/cgroup" + group + "/memory.max"));
  }
  return bytes;
}

uint64_t memory_share(uint64_t machine_bytes, uint32_t daemons, uint64_t least, uint64_t most) {
  return std::clamp(machine_bytes / kMemoryShare / daemons, least, most);
}

}  // namespace kintsugi::daemon
