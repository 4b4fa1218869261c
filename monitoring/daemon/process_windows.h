/// This judges what each server did from one of its reports of totals to the next, window by window: by our method,
/// and for analysis of snapshots also by AutomaDeD's differences. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "monitoring/daemon/state_names.h"
#include "monitoring/model/snapshot.h"
#include "monitoring/model/worker_model.h"
#include "monitoring/similarity/difference.h"
#include "monitoring/similarity/odd_windows.h"

namespace kintsugi::monitoring {

struct JudgedWindow {
  uint64_t process = 0, server_id = 0;
  std::string server, kind;
  TimePoint began{};
  int64_t began_wall_ns = 0, ended_wall_ns = 0;
  similarity::OddWindow ours;
  /// The difference to its own past windows that were not odd, in the text's form and in the one of log times, and
  /// what contributes most.
  double text = 0, semi = 0;
  std::vector<similarity::Term> text_top, semi_top;
};

class ProcessWindows {
 public:
  static constexpr size_t kReferences = 8;

  enum class Methods { kOurs, kAll };
  explicit ProcessWindows(Methods methods = Methods::kAll);
  /// The windows that have ended with this snapshot. `snapshot.taken` grows from call to call.
  std::vector<JudgedWindow> add(const model::Snapshot& snapshot);
  const StateNames& names() const { return names_; }

 private:
  struct Process {
    model::WorkerModel totals;
    uint64_t count = 0;  ///< number of transitions in `totals`
    TimePoint began{};
    int64_t began_wall_ns = 0;
    uint64_t delayed_ns = 0;
    std::deque<model::WorkerModel> past;
  };
  void compare(const model::WorkerModel& window, const Process& process, JudgedWindow& judged) const;

  const Methods methods_;
  StateNames names_;
  similarity::OddWindows odd_;
  std::map<uint64_t, Process> processes_;
};

/// Returns one line of JSON.
std::string to_json(const JudgedWindow& window, const StateNames& names);

}  // namespace kintsugi::monitoring
