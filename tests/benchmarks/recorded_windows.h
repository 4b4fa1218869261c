/// What chunkservers did from one of their reports of totals to the next, from snapshots that a monitor kept.
#pragma once

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "monitoring/daemon/record_log.h"
#include "monitoring/model/snapshot.h"
#include "monitoring/model/worker_model.h"

namespace kintsugi::similarity {

struct RecordedWindow {
  std::string server;
  model::WorkerModel did;
};

/// Gives the windows that ended with each snapshot, in their order, and when that was (wall time). `paths` are directories
/// in which monitors kept snapshots, at any depth. False, and said why, when a file is not one of snapshots.
inline bool for_each_recorded(
    const std::vector<std::string>& paths,
    const std::function<void(int64_t wall_ns, std::vector<RecordedWindow> ended)>& use) {
  namespace fs = std::filesystem;
  std::vector<fs::path> segments;
  for (const std::string& path : paths)
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.path().extension() == ".log" && entry.path().parent_path().filename() == "snapshots")
        segments.push_back(entry.path());
  std::ranges::sort(segments);

  struct Known {
    model::WorkerModel totals;
    uint64_t count = 0;
  };
  std::map<uint64_t, Known> known;  // by process
  const auto window_of = [&](const model::ProcessView& view, std::vector<RecordedWindow>& ended) {
    model::WorkerModel totals = model::WorkerModel::of(view);
    uint64_t count = 0;
    for (const auto& [key, edge] : totals.edges())
      count += edge.count;
    Known& before = known[view.process()];
    if (count == before.count) return;
    if (before.count > 0) ended.push_back({view.display(), totals.since(before.totals)});
    before = {std::move(totals), count};
  };
  for (const fs::path& path : segments) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (std::string_view record : monitoring::RecordLog::parse(bytes)) {
      const auto snapshot = model::parse_snapshot(record);
      if (!snapshot) {
        std::fprintf(stderr, "%s: %s\n", path.c_str(), snapshot.error().message().c_str());
        return false;
      }
      std::vector<RecordedWindow> ended;
      for (const auto& view : snapshot->processes)
        if (!view->last().last() && view->last().kind() == "chunkserver") window_of(*view, ended);
      use(snapshot->wall_ns, std::move(ended));
    }
  }
  return true;
}

}  // namespace kintsugi::similarity
