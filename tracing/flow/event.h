/// Events of a traced execution, independent of how they were recorded (Mirgorodskiy 2006, section 4.1).
///
/// A thread of control is what the text calls a process: its events are totally ordered. Everything that refers to
/// something else does so by its place in a vector of Recorded.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace kintsugi::flow {

using EventId = uint32_t;     ///< a place in Recorded::events
using FunctionId = uint32_t;  ///< a place in Recorded::functions
inline constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

/// More of anything than this is refused, not read.
inline constexpr size_t kMostEvents = 1u << 26, kMostNames = 1u << 24;

enum class Kind : uint8_t {
  kEntry,      ///< a function begins, or a coroutine is resumed
  kExit,       ///< a function returns, or a coroutine suspends
  kUnwound,    ///< an exception left the function
  kSend,       ///< bytes [offset, offset + size) are put into `channel`
  kRecv,       ///< the same bytes are taken out of it
  kStart,      ///< a flow starts here, whatever the thread did before
  kBegin,      ///< directive: `value` of `attribute` is valid from here, in this process
  kUse,        ///< directive: continues with the flow of `value`, which stays valid
  kEnd,        ///< directive: the same, and `value` may mean something else from now on
  kPreempted,  ///< the kernel takes the processor away from the thread
  kResumed,    ///< it has it again
  kLost,       ///< records of this thread are missing here
  kOther,      ///< says only that the thread is alive
};
inline constexpr Kind kLastKind = Kind::kOther;

constexpr bool is_directive(Kind kind) {
  return kind == Kind::kBegin || kind == Kind::kUse || kind == Kind::kEnd;
}

/// What a kind has no use for stays as it is here.
struct Event {
  int64_t time_ns = 0;          ///< by the clock of its host
  uint32_t process = 0;         ///< a place in Recorded::processes
  uint32_t thread = 0;          ///< any number, of its process
  FunctionId function = kNone;  ///< entered, left, or where the message or directive was seen
  uint32_t site = 0;            ///< the call site in the caller of an entry, 0 if unknown (section 6.3.7)
  Kind kind = Kind::kOther;
  uint32_t channel = kNone;    ///< a place in Recorded::channels, of a message
  int64_t offset = 0;          ///< bytes in the channel before this message, or a datagram's mark
  uint64_t size = 0;           ///< bytes
  uint32_t attribute = kNone;  ///< a place in Recorded::attributes, of a directive
  uint64_t value = 0;          ///< the join attribute's value, of a directive
};

struct Process {
  std::string name;    ///< "chunkserver-3"
  std::string binary;  ///< "kintsugi-chunkserver": processes of one binary are comparable
  /// When its trace was taken, 0 if it died or that is unknown. A function that is open then has run until then.
  int64_t end_ns = 0;
};

/// One direction of a connection.
struct Channel {
  /// A datagram is received as a whole or not at all, and `offset` is a mark no other datagram of the channel has.
  bool datagrams = false;
};

/// A join attribute of directives.
struct Attribute {
  std::string name;
  bool shared = false;  ///< several flows begin it and are served together: see directives.h
};

/// What a reader of trace files hands over. Events of one thread stand in the order in which they happened; threads
/// may be mixed in any way.
struct Recorded {
  std::vector<Process> processes;
  std::vector<std::string> functions;
  std::vector<Channel> channels;
  std::vector<Attribute> attributes;
  std::vector<Event> events;
};

}  // namespace kintsugi::flow
