/// The records of a daemon's modules: a ring of recent events and, for every calling context, counts and a duration
/// histogram. The thread that runs a module writes them without locks; the /metrics and /debug pages read them.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/context.h"
#include "common/runtime/span.h"
#include "monitoring/sight/live_work.h"
#include "monitoring/sight/peer_checks.h"
#include "monitoring/sight/site.h"
#include "monitoring/sight/tables/served_calls.h"

namespace kintsugi::sight {

class PathTable;
using Event = runtime::SpanEvent;

/// Totals of one calling context.
struct PathTotals {
  uint64_t path = 0;
  uint64_t parent_path = 0;    ///< path of the parent: 0, or a path in another process
  uint64_t role_path = 0;      ///< the path from the entry of the role down; 0: unknown
  std::source_location where;  ///< line 0: unknown
  const Site* site = nullptr;
  uint64_t count = 0, errors = 0;
  Duration total{}, self{};
  /// Bucket i counts durations below 1 us * 2^i; the last one is open-ended.
  static constexpr size_t kBuckets = 32;
  std::array<uint64_t, kBuckets> histogram{};
};

struct RecorderLimits {
  size_t ring_events = 16384;  ///< events kept for each thread; the oldest are overwritten
  size_t max_paths = 1024;     ///< limit for each thread; further paths are counted as one, "other"
};

/// A recorder lives as long as its daemon. `clock` and `random` give times and span ids (the
/// simulator's in simulation).
class Recorder final : public TraceRecorder {
 public:
  Recorder(const runtime::Clock& clock, uint64_t seed, RecorderLimits limits = {});
  ~Recorder();

  /// Makes a context that records here, with no parent: the root of background jobs and of a client's operations.
  Context root_context(TimePoint deadline = TimePoint::max());

  /// Takes a snapshot; may be called from any thread. An event that is being overwritten meanwhile is left out.
  std::vector<Event> recent_events(size_t at_most) const;
  std::vector<PathTotals> totals() const;
  /// How many executions of each site have ended; cheaper than totals(). May be called from any thread: one that calls
  /// while others count may see a few of them twice or not yet.
  std::unordered_map<const Site*, uint64_t> ended() const;
  TimePoint now() const { return clock_.now(); }
  /// What is open now.
  LiveWork& live() { return live_; }
  const LiveWork& live() const { return live_; }
  /// What came of the latest checks of peers.
  PeerChecks& peer_checks() { return peer_checks_; }
  const PeerChecks& peer_checks() const { return peer_checks_; }
  /// Calls of other processes that were handled here last.
  const ServedCalls& served_calls() const { return served_; }

  Opened open(runtime::LiveHandle parent, const runtime::Opening& opening) override;
  Opened open_lightly(runtime::LiveHandle parent, const Event& event, std::source_location where,
                      runtime::RegionKind kind, bool begins) override;
  void close(runtime::LiveHandle region, uint64_t parent_path, Event& event) override;
  runtime::LiveHandle open_wait(const Context& context, runtime::WaitKind wait, uint64_t target,
                                uint64_t target_span, uint8_t need, std::source_location where) override;
  void close_wait(runtime::LiveHandle wait, Code outcome) override;
  void progress(runtime::LiveHandle region, uint64_t count) override;
  void advance(runtime::LiveHandle region, uint64_t amount) override;
  bool knows_target(uint64_t id) override;
  void name_target(uint64_t id, std::string_view name, bool device) override;
  void complain(uint64_t target, uint16_t method) override;
  void count_bytes(uint64_t target, uint64_t in, uint64_t out) override;
  void served(uint64_t call, const Site& site, Code outcome) override;

 private:
  void keep(int64_t now, const LiveWork::Closed& closed, uint64_t parent_path, Event& event);

  static constexpr uint32_t kServedCalls = 16'384;
  struct State;
  const runtime::Clock& clock_;
  LiveWork live_;
  PeerChecks peer_checks_;
  ServedCalls served_{kServedCalls};
  std::unique_ptr<State> state_;
  PathTable* own_paths_ = nullptr;  ///< the table of the loop's thread, once it has one; only that uses it
};

/// The names of all calling contexts in `totals`: "client.put > client.write_stripe > chunkserver.write_chunk".
std::unordered_map<uint64_t, std::string> path_names(const std::vector<PathTotals>& totals);

}  // namespace kintsugi::sight
