/// How approximate answers compare with exact ones, input by input.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "tests/benchmarks/opprox/runs.h"
#include "tests/benchmarks/opprox/training.h"

namespace kintsugi::what_if {

struct Verdict {
  double error = 0;    ///< in percent
  double speedup = 1;  ///< of the processor's time, with all that the answer took
};

class Judged {
 public:
  /// `runs` outlives it.
  Judged(Runs& runs, std::vector<Input> inputs) : runs_(runs), inputs_(std::move(inputs)) {
    for (const Input& input : inputs_)
      runs.run(input, {});
  }
  const std::vector<Input>& inputs() const { return inputs_; }

  /// `choosing`: seconds that it took to find the setting.
  Verdict judge(const Input& input, const WhatIfKnobs& knobs, double choosing = 0) const {
    const RunResult exact = runs_.run(input, {});
    const bool coarse =
        std::ranges::any_of(knobs.phases, [](const Levels& levels) { return levels != Levels{}; });
    const RunResult answer = coarse ? runs_.run(input, knobs) : exact;
    return {error_of(answer.outputs, exact.outputs), exact.cpu / (answer.cpu + choosing)};
  }

  /// As `kintsugi repair what-if --budget` answers. Half, 90 % and all of the times are compared.
  Verdict judge_present(const Input& input, double budget) const {
    const RunResult exact = runs_.run(input, {});
    Loss loss = loss_of(input);
    loss.budget = budget / 100;
    const Cluster cluster = cluster_of(input);
    const double began = cpu_seconds();
    const Forecast forecast = forecast_loss(cluster, loss).value();
    const double cpu = cpu_seconds() - began;
    if (forecast.method == Method::kExact) return {0, 1};
    const double begins = forecast.begins_seconds;
    Verdict verdict{.speedup = exact.cpu / cpu};
    for (const auto& [time, output] :
         {std::pair(forecast.half_seconds, size_t{1}), std::pair(forecast.most_seconds, size_t{3}),
          std::pair(forecast.all_seconds, Outputs::kAll)})
      verdict.error = std::max(
          verdict.error, 100 * std::abs((time.value_or(0) - begins) / exact.outputs.values[output] - 1));
    return verdict;
  }

  Verdict judge_bound(const Input& input, double factor) const {
    const RunResult exact = runs_.run(input, {});
    const double began = cpu_seconds();
    const double seconds = factor * bound_of(input);
    const double cpu = cpu_seconds() - began;
    return {100 * std::abs(seconds / exact.outputs.values[Outputs::kAll] - 1), exact.cpu / cpu};
  }

  /// Simulates one repair for 8, then for 6, 4, 3 and 2, until two answers differ by at most `agreed` percent; if none
  /// do, the answer is exact, and all the others were for nothing.
  Verdict judge_agreement(const Input& input, double agreed) const {
    const RunResult exact = runs_.run(input, {});
    double cpu = 0;
    Outputs before;
    for (uint8_t level = kLevels - 1; level > 0; --level) {
      const RunResult coarse = runs_.run(input, {std::vector<Levels>(1, Levels{0, 0, level})});
      cpu += coarse.cpu;
      if (level < kLevels - 1 && error_of(before, coarse.outputs) <= agreed)
        return {error_of(coarse.outputs, exact.outputs), exact.cpu / cpu};
      before = coarse.outputs;
    }
    return {0, exact.cpu / (cpu + exact.cpu)};
  }

 private:
  Runs& runs_;
  const std::vector<Input> inputs_;
};

/// Interval of 95 % of a share by Wilson, in percent.
inline std::pair<double, double> wilson(size_t hits, size_t count) {
  const double n = static_cast<double>(count), p = static_cast<double>(hits) / n, z = 1.96;
  const double middle = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {100 * std::max(0.0, middle - half), 100 * std::min(1.0, middle + half)};
}

/// Verdicts on the inputs of a test, in words.
class Summary {
 public:
  Summary(std::string what, double budget) : what_(std::move(what)), budget_(budget) {}

  void add(const Input& input, const Verdict& verdict, const std::string& how) {
    constexpr std::array<const char*, 3> kKinds{"alike", "unlike", "greedy"};
    for (const char* name : {"all", input.beyond.empty() ? "inside" : "beyond", kKinds[class_of(input)]}) {
      Group& group = groups_[name];
      ++group.all;
      group.within += verdict.error <= budget_;
      group.logs += std::log(verdict.speedup);
      group.worst = std::max(group.worst, verdict.error);
    }
    if (verdict.error > budget_)
      misses_ += fmt::format("    {} ({}, {} servers, {} lost, {} % slow{}): {:.1f} % {}\n", input.name,
                             input.policy, input.servers, input.lost, input.slow_percent,
                             input.beyond.empty() ? "" : ", beyond: " + input.beyond, verdict.error, how);
  }

  void print() const {
    fmt::print("{}:\n", what_);
    for (const auto& [name, group] : groups_) {
      const auto [low, high] = wilson(group.within, group.all);
      fmt::print("  {:7} within {} of {} ({:.0f}-{:.0f} %), speedup {:.2f}, worst error {:.1f} %\n", name,
                 group.within, group.all, low, high, std::exp(group.logs / static_cast<double>(group.all)),
                 group.worst);
    }
    fmt::print("{}", misses_);
    std::fflush(stdout);
  }

 private:
  struct Group {
    size_t all = 0, within = 0;
    double logs = 0, worst = 0;
  };
  std::string what_;
  double budget_;
  std::map<std::string, Group> groups_;
  std::string misses_;
};

}  // namespace kintsugi::what_if
