/// Settings of open files.
#pragma once

#include <cstddef>

#include "common/runtime/clock.h"

namespace kintsugi::client {

struct FilesOptions {
  /// Reads, writes and changes are tried again for so long while servers do not answer; 0: for ever.
  Duration io_timeout = std::chrono::minutes(10);
  /// Bound on bytes that were written and are not durable yet, over all files; more than half of it is never one file's
  /// while others want memory.
  size_t dirty_bytes = size_t{128} << 20;
  /// What was written is written out at the latest so long after.
  Duration write_behind = std::chrono::seconds(2);
  /// Bound on what is read ahead for all files, of Options::memory_bytes. 0: nothing is.
  size_t read_ahead_bytes = size_t{64} << 20;
  /// Ask for leases of new directories, whose names LeasedNames gives then. For a user that asks it for every name.
  bool lease_directories = false;
  /// A kernel is told what the metaserver tells this process, and believes it for kBelieved: the session hears of
  /// changes by others (Session::believes).
  bool kernel_believes = false;
  /// Bound on names that are known under those leases: some 100 bytes each. Whoever makes more loses leases of
  /// directories.
  size_t known_names = 200'000;
  /// Bound on extents whose locations are remembered, over all files: some 100 bytes each.
  size_t known_extents = 256 << 10;
};

}  // namespace kintsugi::client
