/// Runs of simulations that are kept in a file: what was run is not run again, so that a campaign can be interrupted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "repair_manager/what_if/knobs.h"
#include "repair_manager/what_if/loss.h"
#include "tests/benchmarks/opprox/inputs.h"

namespace kintsugi::what_if {

/// Times at which parts of the bytes are rebuilt, and what they say of danger.
struct Outputs {
  static constexpr size_t kAll = 5, kRisk = 6;
  // T25, T50, T75, T90, T99, T100, time until no stripe has at most one spare chunk (0: none had), mean time of a chunk
  // at risk.
  std::array<double, 8> values{};
};

struct RunResult {
  Outputs outputs;
  Work work;
  double cpu = 0;  ///< seconds
};

inline Outputs outputs_of(const SimulatedLoss& loss) {
  Outputs outputs;
  const double begins = loss.begins_seconds;
  const std::array<double, 5> parts{0.25, 0.5, 0.75, 0.9, 0.99};
  double done = 0, at_risk = 0;
  size_t next = 0;
  for (const auto& [at, bytes] : loss.progress) {
    done += bytes;
    at_risk += bytes * (at - begins);
    for (; next < parts.size() && done >= parts[next] * loss.bytes * (1 - 1e-12); ++next)
      outputs.values[next] = at - begins;
  }
  outputs.values[Outputs::kAll] = loss.all_seconds.value_or(0) - begins;
  for (size_t spare = 0; spare < std::min<size_t>(2, loss.by_spare.size()); ++spare)
    if (loss.by_spare[spare].stripes > 0)
      outputs.values[Outputs::kRisk] =
          std::max(outputs.values[Outputs::kRisk], loss.by_spare[spare].until_seconds - begins);
  outputs.values[7] = at_risk / std::max(1.0, loss.bytes);
  return outputs;
}

/// In percent: the largest of the errors of the time until all is rebuilt, of the time of danger, and of the mean error.
inline double error_of(const Outputs& outputs, const Outputs& exact) {
  double sum = 0, worst = 0;
  size_t number = 0;
  for (size_t i = 0; i < exact.values.size(); ++i) {
    if (exact.values[i] <= 0) continue;
    const double error = std::abs(outputs.values[i] / exact.values[i] - 1);
    sum += error;
    ++number;
    if (i == Outputs::kAll || i == Outputs::kRisk) worst = std::max(worst, error);
  }
  return 100 * std::max(worst, sum / static_cast<double>(std::max<size_t>(1, number)));
}

inline std::string text_of(const WhatIfKnobs& knobs) {
  std::string text;
  for (const Levels& levels : knobs.phases) {
    for (const uint8_t level : levels)
      text += static_cast<char>('0' + level);
    text += '.';
  }
  return text.empty() ? "exact" : text;
}

inline double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Runs {
 public:
  explicit Runs(std::string path) : path_(std::move(path)) {
    std::ifstream in(path_);
    for (std::string line; std::getline(in, line);) {
      std::istringstream fields(line);
      std::string input, knobs;
      RunResult result;
      fields >> input >> knobs >> result.cpu >> result.work.turns >> result.work.shares >> result.work.plans;
      for (double& value : result.outputs.values)
        fields >> value;
      if (fields) known_[{input, knobs}] = result;  // a line that was cut off is run again
    }
    out_.open(path_, std::ios::app);
  }

  const RunResult& run(const Input& input, const WhatIfKnobs& knobs) {
    const auto key = std::pair(input.name, text_of(knobs));
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    const Cluster cluster = cluster_of(input);
    const double began = cpu_seconds();
    const Result<SimulatedLoss> loss = simulate_servers_lost(cluster, loss_of(input), knobs);
    RunResult result{.cpu = cpu_seconds() - began};
    if (!loss) {
      fmt::print(stderr, "{}: {}\n", input.name, loss.error().to_string());
      std::exit(1);
    }
    result.outputs = outputs_of(*loss);
    result.work = loss->work;
    std::string line = fmt::format("{} {} {:.6f} {} {} {}", key.first, key.second, result.cpu,
                                   result.work.turns, result.work.shares, result.work.plans);
    for (const double value : result.outputs.values)
      line += fmt::format(" {:.9g}", value);
    out_ << line << std::endl;
    return known_[key] = result;
  }

 private:
  std::string path_;
  std::map<std::pair<std::string, std::string>, RunResult> known_;
  std::ofstream out_;
};

/// Work in units of which the processor does as many in a second whatever they are for. Fitted to the processor's time
/// of the exact runs of training.
struct WorkWeights {
  double turn = 0, share = 0, plan = 0;
  double of(const Work& work) const {
    return turn * static_cast<double>(work.turns) + share * static_cast<double>(work.shares) +
           plan * static_cast<double>(work.plans);
  }
};

}  // namespace kintsugi::what_if
