/// This turns what workers did into the model that similarity compares.
#pragma once

#include "monitoring/model/worker_model.h"
#include "monitoring/similarity/model.h"

namespace kintsugi::monitoring {

/// The model of log2 times in nanoseconds.
inline similarity::Model log_times_of(const model::WorkerModel& window) {
  std::vector<similarity::Edge> edges;
  for (const auto& [key, edge] : window.edges()) {
    if (edge.count == 0) continue;
    const auto count = static_cast<double>(edge.count);
    const double deviation = edge.deviation();
    edges.push_back({.transition = {key.first, key.second},
                     .count = count,
                     .mean = edge.mean(),
                     .squares = deviation * deviation * count});
  }
  return similarity::Model(std::move(edges));
}

}  // namespace kintsugi::monitoring
