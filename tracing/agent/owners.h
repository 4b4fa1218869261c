/// For whom a process records, and what became of the recordings of those for whom it did.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>

#include "common/base/status.h"
#include "tracing/agent/agent_status.h"

namespace kintsugi::tracing {

/// Somebody who had the process record. Several share one recording, and each of them ends when it likes.
struct Owner {
  uint64_t number = 0;  ///< 0: it has none, and shares its recording with nobody
  std::chrono::steady_clock::time_point deadline;
  /// It ends so long after the recording began, if that is earlier.
  std::optional<Duration> recorded_for;
  std::optional<End> leaves;              ///< it wants no more, or somebody else wants that it ends
  std::optional<AgentStatus> ended = {};  ///< what it is told from its end on

  bool is_leaving(std::chrono::steady_clock::time_point now) const { return leaves || deadline <= now; }
  /// REQUIRES: it is leaving.
  End why() const { return leaves.value_or(End::kDeadline); }
};

/// Whoever calls has the lock of the agent.
class Owners {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  /// At the same time; and those whose recordings have ended, of whom the later ones are remembered.
  static constexpr size_t kMost = 8, kMostEnded = 24;

  /// kLimitExceeded: there are kMost. kUnavailable: the same, and one of them is about to leave. REQUIRES: find() does not
  /// know it.
  Status join(Owner owner);
  /// Null when nobody has this number, or it was forgotten; 0 is nobody's.
  const Owner* find(uint64_t number) const;
  /// For how many the process records.
  size_t active() const;
  /// Has one leave that wants no more; with 0 somebody else has all of them leave. False: nobody does.
  bool leave(uint64_t number);
  /// The recording began: whose time is counted from then on ends so much later.
  void began(TimePoint now);
  /// When the last one's time is over.
  TimePoint last_deadline() const;

  struct Departure {
    uint64_t number = 0;
    End why{};
    bool last = false;  ///< nobody stays
  };
  /// Who leaves next. Nothing: all stay.
  std::optional<Departure> departure(TimePoint now) const;
  /// This one has left, and is told that from now on. REQUIRES: it is active.
  void end(uint64_t number, AgentStatus told);
  /// The recording has ended for all who were there. Those who were leaving are told their own reason.
  void end_all(const AgentStatus& told);

 private:
  void forget_earliest();

  std::list<Owner> owners_;  ///< those that joined later, or ended later, stand behind
};

}  // namespace kintsugi::tracing
