/// A request of the kernel from the moment it was read until its handler ended.
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <string>

#include "client/mount/kernel/file_system.h"
#include "client/mount/kernel/protocol.h"
#include "common/base/assert.h"
#include "common/runtime/buffer_pool.h"
#include "common/runtime/clock.h"

namespace kintsugi::mount {

struct Operation;

/// What a handler has to say. Together: fixed, then text, then the ranges.
struct Reply {
  alignas(8) std::array<std::byte, 192> fixed;  ///< structures of the protocol
  size_t fixed_bytes = 0;
  std::string text;
  static constexpr size_t kKeptBytes =
      4096;  ///< of `text`, for the next request: there are many that wait for one
  ReadAnswer data;

  template <class T>
  void put(const T& value) {
    static_assert(sizeof(T) <= sizeof(fixed));
    KINTSUGI_ASSERT(fixed_bytes + sizeof(T) <= fixed.size());
    std::memcpy(fixed.data() + fixed_bytes, &value, sizeof(T));
    fixed_bytes += sizeof(T);
  }
  void clear() {
    fixed_bytes = 0;
    text.clear();
    if (text.capacity() > kKeptBytes) text.shrink_to_fit();
    data.ranges.clear();
    data.owner.reset();
  }
};

/// What the kernel was given and will give back: undone when the answer did not reach it.
struct Granted {
  NodeId node = 0;  ///< looked up once
  bool opened = false;
  bool directory = false;
  NodeId opened_node = 0;
  Handle handle = 0;
};

/// Reused for one request after the other; it lives at one address.
struct Request {
  uint64_t id = 0;         ///< `unique` without the bit that says that it was sent again
  uint64_t answer_as = 0;  ///< `unique` as the kernel knows the request now
  uint32_t opcode = 0;
  const Operation* operation = nullptr;  ///< null: the mount does not serve it, or it has no answer
  NodeId node = 0;
  Caller caller;
  Interrupt interrupt;
  /// Behind the header; in `small` or in `large`.
  std::span<const std::byte> body;
  std::array<std::byte, 4608> small;  ///< enough for two names or a symlink's target
  runtime::Buffer large;
  TimePoint arrived;
  runtime::TimerId patience = runtime::TimerId::kNone;  ///< the end of the wait for an interrupted request
  bool answered = false;
  size_t slot = 0;      ///< among all request objects
  size_t position = 0;  ///< among those in flight
  Reply reply;
  Granted granted;
};

/// Checks the header of what was read, and fills the request except for its buffers. An errno: to be answered with that.
/// kNoAnswerPossible: what was read is no request at all.
inline constexpr int kNoAnswerPossible = -1;
int parse_header(std::span<const std::byte> bytes, Request& request);

}  // namespace kintsugi::mount
