/// Which resources of the recorded processes will run out, found every minute on a thread of its own: it reads what the
/// sampler has written, and whoever asks gets the latest answer at once.
#pragma once

#include <memory>
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
/// The room on the disks of chunkservers that will run out within a week, as the last six hours have it. Pure.
std::vector<Foretold> room_that_runs_out(const metric_trace::Trace& trace);

/// May be used from any thread.
class Foresight {
 public:
  static constexpr Duration kEvery = std::chrono::minutes(1), kRoomEvery = std::chrono::minutes(30);

  /// `directory`: of the trace.
  explicit Foresight(std::string directory);
  ~Foresight();  ///< stops it
  Foresight(const Foresight&) = delete;

  /// kUnavailable: there is no thread to be had; nothing is foretold then.
  Status start();
  void stop();
  std::vector<Foretold> standing() const;

 private:
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared);

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
