/// Directives: what a person who knows the program tells the flow construction (Mirgorodskiy 2006, section 4.3.4).
///
/// A file has one a line; "#" begins a comment.
///
///   begin  disk::Queue::put:entry arg2 as disk-request   # the flow that puts a request ...
///   end    disk::Queue::take:exit ret as disk-request    # ... is the flow of the thread that takes it
///   use    client::Operation::resume:entry arg1 as operation
///   begin  kv::Log::append:exit ret as batch shared      # several flows wait for one group commit
///   end    kv::Log::commit:entry arg2 as batch
///   idle   asio::detail::epoll_reactor::run              # what happens here belongs to no flow
///   others net::Connection::read                         # who waits here waits for somebody else's message
///   aside  metrics::                                     # functions whose names begin so only keep books
///
/// The value is an argument (arg1 to arg6) at the entry, or ret at the exit. Events of one process with the same value
/// of the same attribute belong together:
///  - begin opens a scope: the value is the running flow's from here.
///  - end continues the flow of the latest begin of its value, and closes the scope, so that the value can be used
///    again for something else. An end without a begin starts a flow of its own that nobody asked for (an orphan).
///  - use continues it, too, and leaves the scope open: for ids that are never used again. The first use of a value
///    without a begin opens its scope.
///  - shared: several flows may begin the same value, and one end serves all of them. What follows is attributed to the
///    first of them, or to all, as the reader of the flows likes (flows.h). A use of such a value continues the first.
#pragma once

#include <span>
#include <string_view>

#include "common/base/status.h"
#include "tracing/flow/event.h"

namespace kintsugi::flow {

inline constexpr size_t kMostDirectives = 1'000, kMostBytesOfDirectives = 1u << 20;

/// Where in a function the value is read.
enum class Point : uint8_t { kEntry, kExit };
inline constexpr int kReturnValue = 0;

struct Directive {
  Kind scope = Kind::kBegin;  ///< kBegin, kUse or kEnd
  std::string function;       ///< its name as the trace has it
  Point point = Point::kEntry;
  int argument = kReturnValue;  ///< 1 to 6, or kReturnValue
  uint32_t attribute = 0;       ///< a place in Directives::attributes
  size_t line = 0;              ///< its line in the file, from 1 on
};

/// A function in which a thread waits for anybody's work.
struct Idle {
  std::string function;
  size_t line = 0;
};

struct Directives {
  std::vector<Directive> directives;  ///< in the order of the file
  std::vector<Attribute> attributes;  ///< in the order in which they appear; shared if one directive says so
  std::vector<Idle> idle;
  std::vector<Idle> aside;   ///< what functions with such a beginning of their name call, or not, is chance
  std::vector<Idle> others;  ///< what runs below them waits for a message, whose sender takes the time
};

/// Errors: kInvalidArgument ("line 3: ..."), kLimitExceeded (kMostDirectives or kMostBytesOfDirectives).
Result<Directives> parse_directives(std::string_view text);

/// The ids of the functions in which threads wait; names that the trace does not have are left out.
std::vector<FunctionId> idle_functions(const std::vector<std::string>& functions, std::span<const Idle> idle);

}  // namespace kintsugi::flow
