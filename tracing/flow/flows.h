/// Separates concurrent activities: every event gets the flow it belongs to (Mirgorodskiy 2006, sections 4.2 to 4.4).
///
/// Every event keeps one edge that enters it, its parent. What remains is a forest, and each tree is a flow:
///
///   none                   if the event starts a flow
///   the directive's begin  if a directive matches it (directives have precedence over rules)
///   the matching send      if it is a receive (communication-pair rule)
///   none                   if it is a receive whose send is not recorded: somebody else's activity starts here
///   the event before it    in its thread otherwise (message-switch rule)
#pragma once

#include <span>

#include "tracing/flow/matching.h"

namespace kintsugi::flow {

inline constexpr size_t kMostNested = 4;

using FlowId = uint32_t;  ///< a place in Flows::flows

/// Why a flow starts where it does.
enum class Reason : uint8_t {
  kStart,             ///< a start event
  kUnmatchedReceive,  ///< a message whose send is not recorded
  kUnmatchedEnd,      ///< a directive's end whose begin is not recorded: an orphan
  kAfterLoss,         ///< records are missing before it
  kThread,            ///< the first record of its thread
  kIdle,              ///< a thread that waits for work: what it does then belongs to no activity
  kContradiction,     ///< its only parent happened after it: the trace contradicts itself
};

struct Flow {
  EventId root = kNone;
  Reason reason = Reason::kStart;
  size_t events = 0;
};

/// An edge that was removed although both ends are in the same flow: a join, as of the partial sums in a repair tree.
struct Join {
  EventId from = kNone, to = kNone;
};

/// Work that one directive's end does for several flows, as a group commit. Its events are those for which
/// Flows::shared_of is this one, or one below it.
struct SharedWork {
  EventId end = kNone;
  /// Ascending. The flow of the events themselves, the first that began, is not among them.
  std::vector<FlowId> others;
  uint32_t within = kNone;  ///< the shared work it is part of
};

struct Flows {
  std::vector<Flow> flows;      ///< in the order of their roots in the trace
  std::vector<FlowId> of;       ///< by event
  std::vector<EventId> parent;  ///< by event; kNone of roots
  std::vector<Join> joins;      ///< by `to`
  std::vector<SharedWork> shared;
  std::vector<uint32_t> shared_of;  ///< by event: a place in `shared`, or kNone; empty if there is none

  /// The flows beside of[event] that its work is shared with, none twice. Of shared work within shared work within ...
  /// kMostNested are looked at.
  std::vector<FlowId> others_of(EventId event) const;
};

struct FlowSettings {
  std::span<const EventId> starts;   ///< start events beside those of Kind::kStart
  std::span<const FunctionId> idle;  ///< functions in which a thread waits for work of any flow
  bool directives = true;            ///< false: by the rules alone
};

/// The algorithm of section 4.4. A directive event that directly follows an event of the same function labels that one.
/// REQUIRES: `matching` is of `trace`, and `settings` names events and functions that it has. O(n) and a sort of the directives.
Flows build_flows(const Trace& trace, const Matching& matching, const FlowSettings& settings = {});

}  // namespace kintsugi::flow
