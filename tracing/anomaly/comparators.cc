#include "tracing/anomaly/comparators.h"

#include <algorithm>

namespace kintsugi::anomaly {

std::vector<std::vector<NameId>> request_strings(const flow::Trace& trace, const flow::Flows& flows,
                                                 CallPaths& paths) {
  const TraceNames names(trace, paths);
  std::vector<std::vector<NameId>> strings(flows.flows.size());
  for (const flow::Thread& thread : trace.threads())
    for (flow::EventId id : thread.events)
      if (trace.event(id).kind == flow::Kind::kEntry && strings[flows.of[id]].size() < kMostLetters)
        strings[flows.of[id]].push_back(names.of(trace.event(id).function));
  return strings;
}

size_t edit_distance(std::span<const NameId> a, std::span<const NameId> b) {
  a = a.first(std::min(a.size(), kMostLetters));
  b = b.first(std::min(b.size(), kMostLetters));
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::vector<size_t> single_link_clusters(std::span<const Profile> profiles, double reach) {
  constexpr size_t kFree = ~size_t{0};
  std::vector<size_t> cluster(profiles.size(), kFree);
  size_t count = 0;
  for (size_t i = 0; i < profiles.size(); ++i) {
    if (cluster[i] != kFree) continue;
    std::vector<size_t> open{i};
    cluster[i] = count;
    while (!open.empty()) {
      const size_t at = open.back();
      open.pop_back();
      for (size_t j = 0; j < profiles.size(); ++j) {
        if (cluster[j] != kFree || distance(profiles[at], profiles[j]) >= reach) continue;
        cluster[j] = count;
        open.push_back(j);
      }
    }
    ++count;
  }
  return cluster;
}

}  // namespace kintsugi::anomaly
