#include "tracing/anomaly/last_timestamp.h"

#include <algorithm>

#include "common/base/statistics.h"

namespace kintsugi::anomaly {

std::vector<LastRecord> last_records(const flow::Trace& trace) {
  // Threads of one process write to one trace: its gaps are those between any two of its records.
  std::vector<std::vector<int64_t>> times(trace.processes().size());
  for (const flow::Event& event : trace.events())
    times[event.process].push_back(event.time_ns);
  // Recordings that were ended one after the other are compared as if they had been ended at once.
  int64_t last_end_ns = 0;
  for (const flow::Process& process : trace.processes())
    last_end_ns = std::max(last_end_ns, process.end_ns);
  std::vector<LastRecord> records;
  for (uint32_t process = 0; process < times.size(); ++process) {
    std::vector<int64_t>& of = times[process];
    if (of.empty()) continue;
    std::sort(of.begin(), of.end());
    int64_t longest_ns = 0;
    for (size_t i = 1; i < of.size(); ++i)
      longest_ns = std::max(longest_ns, of[i] - of[i - 1]);
    const int64_t end_ns = trace.processes()[process].end_ns;
    records.push_back({.process = process,
                       .last_ns = of.back() + (end_ns == 0 ? 0 : last_end_ns - end_ns),
                       .longest_gap_ns = longest_ns});
  }
  return records;
}

EarliestLast earliest_last(std::span<const LastRecord> records, int64_t clock_precision_ns) {
  if (records.size() < 3) return {};
  const auto earliest =
      std::min_element(records.begin(), records.end(),
                       [](const LastRecord& a, const LastRecord& b) { return a.last_ns < b.last_ns; });
  // Times since the earliest keep their precision as floating-point numbers.
  std::vector<double> later;
  for (auto record = records.begin(); record != records.end(); ++record)
    if (record != earliest) later.push_back(static_cast<double>(record->last_ns - earliest->last_ns));
  const double before = mean_of(later);
  const int64_t longest_ns = std::ranges::max(records, {}, &LastRecord::longest_gap_ns).longest_gap_ns;
  const double threshold = std::max({3 * deviation_of(later), 10 * static_cast<double>(clock_precision_ns),
                                     static_cast<double>(longest_ns)});
  return {.silence = before > threshold ? Silence::kFailStop : Silence::kNotFailStop,
          .earliest = earliest->process,
          .before_ns = static_cast<int64_t>(before),
          .threshold_ns = static_cast<int64_t>(threshold)};
}

}  // namespace kintsugi::anomaly
