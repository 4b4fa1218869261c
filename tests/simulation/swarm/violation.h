/// What a simulated run can find wrong, by kind: shrinking keeps the kind, and people see it first.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace kintsugi::simulation {

enum class Violation {
  kNone,
  kWrongBytes,    ///< a read returned bytes that nobody wrote
  kNotLinear,     ///< no order of operations explains what clients saw of a directory
  kChunkGone,     ///< a chunk that durable metadata places on a server is not there
  kStripeLost,    ///< fewer chunks than data are left of a stripe although losses stayed within its code
  kSharedServer,  ///< two chunks of a stripe are on one server
  kUnevenRacks,   ///< a rack holds more chunks of a stripe than it need to, though nothing ever failed
  kNoEnd,         ///< an operation did not end after all faults were over
  kNotHealed,     ///< the cluster did not become whole again after all faults were over
  kUnreadable,    ///< a file that is there could not be read after all faults were over
  kSpaceLeaked,   ///< chunks are kept that nothing refers to
  kRefused,       ///< a daemon or an expectation of the cluster's own reported what must not be
  kStuck,         ///< virtual time stood still, or nothing was left to do
  kCrashed,       ///< the process died, by an assertion or a signal
  kTooSlow,       ///< the run took more real time than any should
};

constexpr std::string_view name_of(Violation violation) {
  constexpr std::string_view kNames[] = {"none",        "wrong-bytes",   "not-linear",   "chunk-gone",
                                         "stripe-lost", "shared-server", "uneven-racks", "no-end",
                                         "not-healed",  "unreadable",    "space-leaked", "refused",
                                         "stuck",       "crashed",       "too-slow"};
  return kNames[static_cast<size_t>(violation)];
}

struct Finding {
  Violation violation = Violation::kNone;
  std::string message;  ///< for people

  explicit operator bool() const { return violation != Violation::kNone; }
};

}  // namespace kintsugi::simulation
