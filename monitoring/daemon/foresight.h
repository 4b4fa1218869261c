/// Which resources of the recorded processes will run out, found every minute on a thread of its own: it reads what the
/// sampler has written, and a caller gets the latest answer at once.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/runtime/clock.h"
#include "monitoring/daemon/detector.h"
#include "monitoring/metrics/augury/running_out.h"
#include "monitoring/metrics/trace/trace.h"

namespace kintsugi::monitoring {

/// A resource of one process that runs out.
struct Foretold {
  std::string server;
  int64_t t_ns = 0;  ///< time of the last row that it was found in
  augury::RunsOut what;
};

/// The resources of processes that will run out within a day, as the last half hour of a trace has it (with a row a
/// second); the soonest first. Pure.
std::vector<Foretold> resources_that_run_out(const metric_trace::Trace& trace);
/// The room on disks, and that of all chunkservers together (server "cluster"), that will run out within a week, as the
/// last six hours have it. What runs out only because the whole cluster does is not told again. Pure.
std::vector<Foretold> room_that_runs_out(const metric_trace::Trace& trace);
/// The memory that will be used up within a week, as the last six hours have it. Pure.
std::vector<Foretold> memory_that_runs_out(const metric_trace::Trace& trace);

/// The same of the latest rows in a directory; nothing when there are none. Room is that on disks and in memory.
std::vector<Foretold> look_for_resources(const std::string& directory, const std::stop_token& stop);
std::vector<Foretold> look_for_room(const std::string& directory, const std::stop_token& stop);

/// May be used from any thread. Whatever fails on its thread, down to memory that is not to be had, is told once and ends
/// nothing: what stood is forgotten, and the next look is as usual.
class Foresight {
 public:
  static constexpr Duration kEvery = std::chrono::minutes(1), kRoomEvery = std::chrono::minutes(30);
  /// stop() waits for a disk that hangs no longer than this, and leaves the thread to itself then.
  static constexpr Duration kStopLimit = std::chrono::seconds(1);

  using Look =
      std::function<std::vector<Foretold>(const std::string& directory, const std::stop_token& stop)>;
  struct Looks {
    Look resources = look_for_resources, room = look_for_room;
    Duration every = kEvery;
  };

  /// `directory`: of the trace.
  explicit Foresight(std::string directory) : Foresight(std::move(directory), Looks{}) {}
  Foresight(std::string directory, Looks looks);
  ~Foresight();  ///< stops it
  Foresight(const Foresight&) = delete;

  /// kUnavailable: there is no thread to be had; nothing is foretold then.
  Status start();
  /// Idempotent.
  void stop();
  std::vector<Foretold> standing() const;

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

/// Makes verdicts of what is foretold.
class ForesightDetector final : public Detector {
 public:
  /// `foresight` outlives it.
  explicit ForesightDetector(const Foresight& foresight) : foresight_(foresight) {}

  std::string_view name() const override { return "foresight"; }
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;

 private:
  const Foresight& foresight_;
};

}  // namespace kintsugi::monitoring
