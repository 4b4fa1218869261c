/// This turns what workers did in a window into the models that similarity compares.
#pragma once

#include <algorithm>
#include <cmath>

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

/// The model of seconds, as the text has it. A window tells octaves and not samples: those of an octave are spread evenly
/// over it, so that an edge whose samples lie in one octave has a spread, too.
inline similarity::Model seconds_of(const model::WorkerModel& window) {
  std::vector<similarity::Edge> edges;
  for (const auto& [key, edge] : window.edges()) {
    if (edge.count == 0) continue;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < edge.octaves.size(); ++i) {
      const auto count = static_cast<double>(edge.octaves[i]);
      const double width = std::ldexp(1.0, static_cast<int>(i)) / 1e9, middle = 1.5 * width;
      sum += count * middle;
      squares += count * (middle * middle + width * width / 12);
    }
    const auto count = static_cast<double>(edge.count);
    const double mean = sum / count;
    edges.push_back({.transition = {key.first, key.second},
                     .count = count,
                     .mean = mean,
                     .squares = std::max(0.0, squares - mean * mean * count)});
  }
  return similarity::Model(std::move(edges));
}

}  // namespace kintsugi::monitoring
