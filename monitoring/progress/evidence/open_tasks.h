/// The open tasks of all processes, put together from their live records, and found by the spans that they hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "monitoring/model/snapshot.h"
#include "monitoring/progress/evidence/sojourns.h"

namespace kintsugi::progress {

/// A process is silent when nothing has arrived for so long. It reports every second.
inline constexpr Duration kSilence = 3s;
/// Running code holds an event loop that has not come round for so long.
inline constexpr Duration kLoopStall = 2s;

struct OpenTask {
  uint32_t process = 0;                          ///< index in Snapshot::processes
  std::vector<const proto::SightLive*> records;  ///< outermost first; never empty
  Duration still{};                              ///< time since anything in the task moved
  bool stalled = false;  ///< whether the task has not moved for longer than its state usually lasts

  const proto::SightLive& root() const { return *records.front(); }
  /// The region or wait in which the task stands.
  const proto::SightLive& top() const { return *records.back(); }
  uint64_t trace() const { return root().trace(); }
};

/// What the processes are like, by index in Snapshot::processes.
struct ProcessState {
  bool silent = false;    ///< no report has come for too long
  bool spinning = false;  ///< running code blocks its event loop
  bool complete = false;  ///< whether the process's latest report listed everything that is open
};

/// A process may report anything: an age that no clock holds is a long one.
inline Duration duration_of(uint64_t ns) {
  return Duration(static_cast<int64_t>(std::min<uint64_t>(ns, uint64_t{1} << 60)));
}

/// It waits for the other end of a call or of a stream.
inline bool is_stream_wait(proto::WaitKind wait) {
  return wait == proto::WAIT_CALL || wait == proto::WAIT_RECEIVE || wait == proto::WAIT_SEND;
}

class OpenTasks {
 public:
  /// The snapshot outlives this.
  OpenTasks(const model::Snapshot& snapshot, const Sojourns& sojourns);

  const model::Snapshot& snapshot() const { return snapshot_; }
  const std::vector<OpenTask>& all() const { return tasks_; }
  const OpenTask& operator[](uint32_t index) const { return tasks_[index]; }
  const model::ProcessView& view(uint32_t task) const { return *snapshot_.processes[tasks_[task].process]; }
  const std::vector<ProcessState>& processes() const { return processes_; }
  /// Waits that ended without what they waited for: (process, record).
  const std::vector<std::pair<uint32_t, const proto::SightLive*>>& ended() const { return ended_; }

  /// Tasks that were begun on behalf of this span: their roots name it as their parent.
  const std::vector<uint32_t>& begun_by(uint64_t span) const;
  /// Tasks of its own process that were begun on behalf of it, or of any span that it has open; sorted.
  std::vector<uint32_t> children(uint32_t task) const;
  /// Tasks that have a record with this span open.
  const std::vector<uint32_t>& holding(uint64_t span) const;
  /// The process that has what is waited for (WAIT_PROCESS); -1: it is not known, or has not reported.
  int holder(const proto::SightLive& wait) const;
  /// Tasks that wait for the other end of a stream of this span. A stream is no region: nobody holds its span while he
  /// does something else.
  const std::vector<uint32_t>& at_stream(uint64_t span) const;
  const std::vector<uint32_t>& of_trace(uint64_t trace) const;
  /// The process that is called at this address; -1: none of those has reported.
  int process_at(const std::string& address) const;

  /// "chunkserver.partial_sum > partial_sum_own > disk.read", as far as the dictionary of the process knows.
  std::string region(uint32_t task) const;
  std::string region(uint32_t process, const proto::SightLive& record) const;
  /// The site that opens tasks of its kind; empty when it is unknown.
  std::string role(uint32_t task) const;
  uint64_t key(uint32_t task) const { return state_key(view(task), tasks_[task].top().state()); }

 private:
  void add_process(uint32_t index);
  bool is_stalled(const OpenTask& task, const Sojourns& sojourns) const;
  /// It waits for the answer to a call, and who is called has no task for that.
  bool is_unheard(const OpenTask& task) const;
  /// It waits for children, or for what a task or a process has, and none of them is open, or the process is silent or
  /// held by running code: nobody will wake it.
  bool is_left_alone(uint32_t task) const;

  const model::Snapshot& snapshot_;
  std::vector<ProcessState> processes_;
  std::vector<OpenTask> tasks_;
  std::vector<std::pair<uint32_t, const proto::SightLive*>> ended_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_parent_, by_span_, by_stream_, by_trace_;
  std::unordered_map<std::string, int> by_address_;
};

}  // namespace kintsugi::progress
