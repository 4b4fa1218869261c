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

/// What a handler answers: `fixed`, then `text`, then the ranges of `data`.
struct Reply {
  /// The next request finds so much room in `text`. Many request objects wait for one, so it is little.
  static constexpr size_t kKeptBytes = 4096;

  alignas(8) std::array<std::byte, 192> fixed;  ///< It holds structures of the protocol.
  size_t fixed_bytes = 0;
  std::string text;
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
  NodeId node = 0;      ///< It counts as looked up once.
  bool listed = false;  ///< So does each node that the answer lists (for_each_listed()).
  bool opened = false;
  bool directory = false;
  NodeId opened_node = 0;
  Handle handle = 0;
};

/// An object serves one request after the other, and lives at one address.
struct Request {
  uint64_t id = 0;         ///< This is `unique` without the bit that says that it was sent again.
  uint64_t answer_as = 0;  ///< This is `unique` as the kernel knows the request now.
  uint32_t opcode = 0;
  /// Null: the mount does not serve it, or it has no answer.
  const Operation* operation = nullptr;
  NodeId node = 0;
  Caller caller;
  Interrupt interrupt;
  /// The arguments, which stand behind the header. They lie in `small` or in `large`.
  std::span<const std::byte> body;
  std::array<std::byte, 4608> small;  ///< It has room for two names, or for the target of a link.
  runtime::Buffer large;
  TimePoint arrived;
  runtime::TimerId patience = runtime::TimerId::kNone;  ///< Interrupts looks after the request then.
  bool answered = false;
  size_t slot = 0;      ///< Its place among all request objects (RequestsInFlight).
  size_t position = 0;  ///< Its place among those in flight (RequestsInFlight).
  Reply reply;
  Granted granted;
};

/// Checks the header of what was read, and fills the request except for its buffers. Returns 0, the errno that is to
/// be answered, or kNoAnswerPossible: what was read is no request at all.
inline constexpr int kNoAnswerPossible = -1;
int parse_header(std::span<const std::byte> bytes, Request& request);

}  // namespace kintsugi::mount
