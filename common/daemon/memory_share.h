/// How much memory a daemon may take for its caches and buffers, by the machine and by how many daemons share it.
#pragma once

#include <cstdint>
#include <string>

namespace kintsugi::daemon {

/// The caches of all daemons of a machine together take one byte in so many of its memory, and so do their buffers.
inline constexpr uint64_t kMemoryShare = 32;

/// The memory that this process can have at most: the machine's, or that of the control group it is in, when that is
/// less.
uint64_t machine_memory_bytes();

/// The same with the files of /proc and /sys below `root`, for tests. `physical_bytes` is the machine's memory.
uint64_t machine_memory_bytes(const std::string& root, uint64_t physical_bytes);

/// The share of one daemon in `machine_bytes` when `daemons` share the machine, kept between `least` and `most`.
/// REQUIRES: daemons > 0, least <= most.
uint64_t memory_share(uint64_t machine_bytes, uint32_t daemons, uint64_t least, uint64_t most);

}  // namespace kintsugi::daemon
