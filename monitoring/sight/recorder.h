/// The records of a daemon's modules: a ring of recent events and, for every calling context, counts and a duration
/// histogram. The thread that runs a module writes them without locks; the /metrics and /debug pages read them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/context.h"
#include "monitoring/sight/site.h"

namespace kintsugi::sight {

/// One finished module execution.
struct Event {
  const Site* site = nullptr;
  uint64_t trace_id = 0, span_id = 0, parent_span_id = 0;
  uint64_t path = 0;  ///< the calling context, this site included
  TimePoint entered;
  Duration duration{};
  std::array<double, kMaxFeatures> inputs{};
  std::array<double, kMaxFeatures> outputs{};
  uint8_t input_count = 0, output_mask = 0;
  Code code = Code::kOk;
};

/// Totals of one calling context.
struct PathTotals {
  uint64_t path = 0, parent_path = 0;  ///< parent 0, or a path of another process
  const Site* site = nullptr;
  uint64_t count = 0, errors = 0;
  Duration total{};
  static constexpr size_t kBuckets = 32;  ///< bucket i: duration < 1 us * 2^i; the last one is open
  std::array<uint64_t, kBuckets> histogram{};
};

struct RecorderLimits {
  size_t ring_events = 16384;  ///< for each thread; the oldest are overwritten
  size_t max_paths = 4096;     ///< for each thread; others are counted under one "other" path
};

/// A recorder lives as long as its daemon. `clock` and `random` give times and span ids (the
/// simulator's in simulation).
class Recorder : public TraceRecorder {
 public:
  Recorder(const runtime::Clock& clock, uint64_t seed, RecorderLimits limits = {});
  ~Recorder();

  /// Makes a context that records here, with no parent: the root of background jobs and of a client's operations.
  Context root_context(TimePoint deadline = TimePoint::max());

  /// Takes a snapshot; may be called from any thread. An event that is being overwritten meanwhile is left out.
  std::vector<Event> recent_events(size_t at_most) const;
  std::vector<PathTotals> totals() const;
  /// The name of a calling context: "client.put > client.write_stripe > chunkserver.write_chunk".
  std::string path_name(uint64_t path) const;

  // Used by Module.
  TimePoint now() const { return clock_.now(); }
  uint64_t new_id();
  void record(const Event& event, uint64_t parent_path);

 private:
  struct State;
  const runtime::Clock& clock_;
  std::unique_ptr<State> state_;
};

/// The path of `site` called below `parent_path`: the same in every process.
uint64_t child_path(uint64_t parent_path, const Site& site);

}  // namespace kintsugi::sight
