/// Detectors that compare servers with their peers and with themselves: disks and links that fail slowly, memory that
/// grows, messages that are damaged, and workers that take their time.
#pragma once

#include <map>
#include <string>

#include "monitoring/daemon/detector.h"
#include "monitoring/daemon/state_names.h"
#include "monitoring/model/worker_model.h"
#include "monitoring/progress/evidence/processor_shares.h"
#include "monitoring/similarity/complaints.h"
#include "monitoring/similarity/fail_slow.h"
#include "monitoring/similarity/memory_watch.h"
#include "monitoring/similarity/watch.h"

namespace kintsugi::monitoring {

/// Disks and links that became slower than others of their kind.
class FailSlowDetector final : public Detector {
 public:
  std::string_view name() const override { return "fail-slow"; }
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;

 private:
  similarity::FailSlow fail_slow_;
  progress::ProcessorShares shares_;
};

/// Servers that take more and more memory.
class MemoryDetector final : public Detector {
 public:
  std::string_view name() const override { return "memory"; }
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;

 private:
  similarity::MemoryWatch watch_;
};

/// Processes whose messages others find damaged, missing, or twice.
class ComplaintDetector final : public Detector {
 public:
  std::string_view name() const override { return "complaints"; }
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;

 private:
  similarity::ComplaintWatch watch_;
};

/// Servers whose workers do otherwise than their peers and than before, window by window.
class WorkerDetector final : public Detector {
 public:
  /// Processes report transitions every ten seconds.
  static constexpr Duration kWindow = std::chrono::seconds(30);
  static constexpr double kEnough = 300;         ///< transitions; a worker with fewer gets a longer window
  static constexpr size_t kLongest = 4;          ///< windows that are joined, at most
  static constexpr size_t kMostProcesses = 256;  ///< further processes are not compared
  static constexpr size_t kMostRoles = 64;       ///< roles of one process

  WorkerDetector();
  std::string_view name() const override { return "workers"; }
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;
  std::vector<proto::Verdict> excused() const override { return watch_.excused(); }

 private:
  /// A longer window, as far as it has come.
  struct Joined {
    size_t windows = 0;
    bool lacked_processor = false;  ///< in one of the windows that were joined
  };
  /// The totals of a process at the end of a window.
  struct Totals {
    std::map<std::string, model::WorkerModel> by_role;
    std::map<std::string, Joined> joined;  ///< key: role
    uint64_t begun = 0;                    ///< tasks of all roles that began
  };
  void add_window(const model::Snapshot& snapshot);

  std::map<uint64_t, Totals> totals_;  ///< key: process id
  StateNames names_;
  TimePoint window_began_{};
  progress::ProcessorShares shares_;
  similarity::Watch watch_;
};

}  // namespace kintsugi::monitoring
