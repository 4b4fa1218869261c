/// The operations of the kernel that a mount serves, one row each in the table of operation.cc. What else one must
/// know of an operation stands in its row: nobody else tells opcodes apart.
#pragma once

#include <cstdint>

#include "client/mount/kernel/arguments.h"
#include "client/mount/kernel/file_system.h"
#include "client/mount/kernel/request.h"
#include "monitoring/sight/site.h"

namespace kintsugi::mount {

/// What stands below the operations. It outlives them.
struct Served {
  FileSystem& file_system;
  Negotiated agreed;
};

/// Reads the arguments, has the file system do it, fills request.reply and request.granted. Returns 0 or an errno.
using Handler = asio::awaitable<int>(const Served& served, Request& request, Arguments in);

/// What makes the connection tell an application EINTR, though the operation has not ended.
enum class GivesUp {
  kWhenKilled,
  /// As in a local file system a signal that a process handles ends the wait for a lock, and nothing else: programs
  /// take EINTR of an fsync for lost data.
  kAtAnySignal,
};

struct Operation {
  uint32_t opcode;
  sight::Site site;  ///< the name in traces and diagnoses; the bytes of the arguments are its input
  Handler* serve;
  GivesUp gives_up = GivesUp::kWhenKilled;
};

/// Null: the mount does not serve it, or it has no answer.
const Operation* operation_of(uint32_t opcode);

}  // namespace kintsugi::mount
