#include "monitoring/sight/summary.h"

#include <algorithm>
#include <string>

#include "monitoring/sight/open_tasks.h"
#include "monitoring/sight/source_place.h"

namespace kintsugi::sight {

namespace {

constexpr size_t kSummaryLine = 200;  ///< longest line in bytes

/// Where the task stands: its regions, the place in the code, and what it waits for.
std::string place_of(const OpenTask& task, const TargetTable& targets) {
  std::string line;
  for (auto record = task.records.rbegin(); record != task.records.rend(); ++record)
    if (record->site != nullptr) line += (line.empty() ? "" : " > ") + std::string(record->site->name);
  const LiveRecord& innermost = task.records.front();
  const std::string file = short_file(innermost.where.file_name());
  line += "; " + file.substr(file.rfind('/') + 1) + ":" + std::to_string(innermost.where.line());
  if (innermost.wait != WaitKind::kNone)
    line += "; waits (" + proto::WaitKind_Name(static_cast<proto::WaitKind>(innermost.wait)) + ") " +
            targets.name_of(innermost.target);
  return line.substr(0, kSummaryLine);
}

}  // namespace

proto::SightSummary summarise(const Recorder& recorder, Duration loop_lag, Duration still) {
  proto::SightSummary summary;
  summary.set_loop_lag_ns(static_cast<uint64_t>(std::max<int64_t>(0, loop_lag.count())));
  const int64_t now = recorder.now().time_since_epoch().count();
  const OpenTask* longest = nullptr;
  const std::vector<OpenTask> tasks = open_tasks(recorder.live());
  for (const OpenTask& open : tasks) {
    summary.set_live(summary.live() + 1);
    const auto wait = open.records.front().wait;
    // Who waits for an answer is not what the others wait for.
    const bool waits_on_purpose = wait == WaitKind::kIdle || wait == WaitKind::kTimer;
    if (waits_on_purpose || now - open.moved_ns < still.count()) continue;
    summary.set_stalled(summary.stalled() + 1);
    if (longest == nullptr || open.moved_ns < longest->moved_ns) longest = &open;
  }
  if (longest == nullptr) return summary;
  summary.set_oldest_ns(static_cast<uint64_t>(std::max<int64_t>(0, now - longest->moved_ns)));
  summary.set_oldest(place_of(*longest, recorder.live().targets()));
  return summary;
}

}  // namespace kintsugi::sight
