/// Where a thread of this process is at the moment, also when it never comes back to where it could be asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pthread.h>

#include "common/runtime/clock.h"

namespace kintsugi::sight {

struct StackSample {
  /// Offsets in the binary, innermost first; in libraries, addresses.
  std::vector<uint64_t> offsets;
  std::vector<std::string> symbols;  ///< names of the functions, as far as known
};

/// Has SIGURG interrupt the thread and copy its return addresses. Empty when it does not answer within `limit`. One
/// thread samples at a time. REQUIRES: the thread lives.
StackSample sample_stack(pthread_t thread, Duration limit = std::chrono::milliseconds(200));

/// The build id of the running binary; empty when it has none.
std::string build_id();

/// The inode of this process's pid namespace; 0: not known. Equal numbers of processes mean the same process only within
/// one namespace of one machine.
uint64_t pid_namespace();

}  // namespace kintsugi::sight
