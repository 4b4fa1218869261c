// How often Guardian and thresholds are wrong, by the distance from what was learnt, and how often they find planted faults; the share of executions
// inside the 90 % intervals; R² of each module. On modules of known laws with multiplicative noise, heavy tails and load.
//
//   guardian_table [SEED [EXECUTIONS]]      prints Markdown
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "common/base/draws.h"
#include "common/base/statistics.h"
#include "monitoring/behaviour/features.h"
#include "monitoring/behaviour/observation_model.h"

namespace kintsugi::behaviour {
namespace {

struct Planted {
  const char* name;
  std::vector<std::function<double(Draws&)>> inputs;      ///< as they are while it learns
  std::function<double(const std::vector<double>&)> law;  ///< nanoseconds
  double noise = 0.06, tail_chance = 0.01;
};

double log_uniform(Draws& draws, double low, double high) {
  return low * std::pow(high / low, draws.uniform());
}

std::vector<Planted> planted_modules() {
  const auto bytes = [](double low, double high) {
    return [=](Draws& d) { return std::floor(log_uniform(d, low, high)); };
  };
  const auto count = [](double low, double high) {
    return [=](Draws& d) { return std::floor(d.uniform(low, high + 1)); };
  };
  const auto load = [](Draws& d) { return std::floor(d.exponential() * 3); };
  return {
      {"disk.read (bytes, queue)",
       {bytes(4e3, 1e6), load},
       [](auto& x) { return (80e3 + x[0] * 4) * (1 + 0.1 * x[1]); },
       0.08},
      {"encode (bytes, k)",
       {bytes(64e3, 4e6), count(4, 12)},
       [](auto& x) { return 5e3 + 0.05 * x[0] * x[1]; },
       0.03},
      {"commit (entries, load)",
       {count(1, 200), load},
       [](auto& x) { return (300e3 + 4e3 * x[0]) * (1 + 0.05 * x[1]); },
       0.1,
       0.02},
      {"partial_sum (slices, fan-in)",
       {count(1, 64), count(1, 8)},
       [](auto& x) { return 50e3 * x[0] + 20e3 * x[0] * x[1]; }},
      {"sort (entries)", {count(100, 5000)}, [](auto& x) { return 100 * x[0] * std::log2(x[0]); }},
      {"invert (n)", {count(4, 60)}, [](auto& x) { return 1e3 + 40 * x[0] * x[0] + 2 * x[0] * x[0] * x[0]; }},
      {"list (entries, depth)",
       {count(1, 1000), count(1, 10)},
       [](auto& x) { return 20e3 * std::sqrt(x[0]) + 10e3 * x[1]; },
       0.08},
      {"scan (bytes, rate of users)",
       {bytes(16e3, 2e6), [](Draws& d) { return d.uniform(0, 100); }},
       [](auto& x) { return 30e3 + x[0] * 2 * (1 + x[1] * x[1] * 1e-4); },
       0.1,
       0.02},
  };
}

double executed(const Planted& module, const std::vector<double>& inputs, Draws& draws) {
  double value = module.law(inputs) * std::exp(module.noise * draws.normal());
  if (draws.uniform() < module.tail_chance) value *= 1.3 + draws.exponential();
  return value;
}

std::vector<double> drawn(const Planted& module, Draws& draws) {
  std::vector<double> inputs;
  for (const auto& input : module.inputs)
    inputs.push_back(input(draws));
  return inputs;
}

Samples executions(const Planted& module, size_t count, Draws& draws) {
  Samples samples;
  samples.inputs.resize(module.inputs.size());
  for (size_t i = 0; i < count; ++i) {
    const auto inputs = drawn(module, draws);
    for (size_t f = 0; f < inputs.size(); ++f)
      samples.inputs[f].push_back(inputs[f]);
    samples.observed.push_back(executed(module, inputs, draws));
  }
  return samples;
}

/// Every input, or those that a coin chooses, at a distance of [low, high] deviations above the mean; the first one always.
std::vector<double> far_inputs(const Planted& module, const std::vector<Range>& ranges, double low,
                               double high, Draws& draws) {
  auto inputs = drawn(module, draws);
  const size_t certain = draws.below(inputs.size());
  for (size_t f = 0; f < inputs.size(); ++f)
    if (f == certain || draws.uniform() < 0.5)
      inputs[f] = ranges[f].mean + draws.uniform(low, high) * ranges[f].deviation;
  return inputs;
}

constexpr Variant kVariants[] = {Variant::kA, Variant::kB, Variant::kFixed10, Variant::kFixed50,
                                 Variant::kFixed100};
constexpr size_t kCounters = std::size(kVariants) + 1;  // and our rule

/// How many of the last twenty executions with one bug each variant flags; the bug is found when it is five (by ours: our rule).
struct Bug {
  std::array<size_t, std::size(kVariants)> flagged{};
  RecentExecutions recent;
  void add(const ObservationModel& model, const Judgement& judgement, bool more_only) {
    for (size_t v = 0; v < std::size(kVariants); ++v)
      flagged[v] += is_anomaly(judgement, kVariants[v], more_only) ? 1 : 0;
    recent.add(model.is_far(judgement), model.is_far(judgement) || model.is_off(judgement));
  }
};

struct Count {
  std::array<size_t, kCounters> hits{};
  size_t of = 0;
  void add(const ObservationModel& model, const Judgement& judgement, bool more_only) {
    ++of;
    for (size_t v = 0; v < std::size(kVariants); ++v)
      hits[v] += is_anomaly(judgement, kVariants[v], more_only) ? 1 : 0;
    hits.back() += model.is_far(judgement) ? 1 : 0;
  }
  void add(const Bug& bug) {
    ++of;
    for (size_t v = 0; v < std::size(kVariants); ++v)
      hits[v] += bug.flagged[v] >= RecentExecutions::kFarNeeded ? 1 : 0;
    hits.back() += bug.recent.enough() ? 1 : 0;
  }
  Count& operator+=(const Count& other) {
    for (size_t v = 0; v < kCounters; ++v)
      hits[v] += other.hits[v];
    of += other.of;
    return *this;
  }
  void print(const char* what) const {
    std::printf("| %s |", what);
    for (size_t hit : hits)
      std::printf(" %.2f |", 100.0 * static_cast<double>(hit) / static_cast<double>(of));
    std::printf(" %zu |\n", of);
  }
};

/// One-sided 95 % bound of a share by Wilson.
double upper_bound(size_t hits, size_t of) {
  const double z = 1.645, n = static_cast<double>(of), p = static_cast<double>(hits) / n;
  return (p + z * z / (2 * n) + z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n);
}

void table(const char* title, const LearningSettings& settings, uint64_t seed, size_t count) {
  std::printf(
      "\n## %s\n\n| module | R2 out of fold | sections | inside 90 %% interval | B inside | B 5-10 | B 30-35 "
      "| T50 5-10 | T50 30-35 |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
      title);
  Count inside, near, far;
  std::array<Count, 4> single;
  std::array<Count, 5> found;  // the last without any bug
  Draws draws(seed);
  for (const Planted& module : planted_modules()) {
    const Samples training = executions(module, 2000, draws);
    const ObservationModel model = ObservationModel::learn(training, settings);
    size_t covered = 0;
    Count here_inside, here_near, here_far;
    for (size_t i = 0; i < count; ++i) {
      const auto inputs = drawn(module, draws);
      const double actual = executed(module, inputs, draws);
      const auto interval = model.interval(inputs, 0.9);
      covered += actual >= interval.low && actual <= interval.high ? 1 : 0;
      here_inside.add(model, model.judge(inputs, actual), settings.more_only);
      for (auto [band, low, high] : {std::tuple{&here_near, 5.0, 10.0}, {&here_far, 30.0, 35.0}}) {
        const auto moved = far_inputs(module, model.ranges(), low, high, draws);
        band->add(model, model.judge(moved, executed(module, moved, draws)), settings.more_only);
      }
    }
    const double median = median_of(training.observed);
    for (size_t number = 0; number < 20; ++number) {
      const double low = draws.uniform(0.6, 1.0), high = draws.uniform(2, 4);
      std::array<Bug, 5> bugs;
      for (size_t run = 0; run < RecentExecutions::kRemembered; ++run) {
        const auto inputs = far_inputs(module, model.ranges(), 5, 10, draws);
        // A loop that takes a share of what the module takes as a rule at such inputs; reads that make everything slower by one factor.
        const double actual = executed(module, inputs, draws), loop = std::max(median, module.law(inputs));
        const double values[] = {actual + low * loop, actual + high * loop, actual * (1 + low),
                                 actual * (1 + high), actual};
        for (size_t kind = 0; kind < bugs.size(); ++kind) {
          const Judgement judgement = model.judge(inputs, values[kind]);
          bugs[kind].add(model, judgement, settings.more_only);
          if (kind < 4) single[kind].add(model, judgement, settings.more_only);
        }
      }
      for (size_t kind = 0; kind < bugs.size(); ++kind)
        found[kind].add(bugs[kind]);
    }
    const auto percent = [](const Count& c, size_t v) {
      return 100.0 * static_cast<double>(c.hits[v]) / static_cast<double>(c.of);
    };
    const Section& section = model.estimator().section(training.row(0));
    std::printf("| %s | %.4f | %zu (%d%s%u) | %.1f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", module.name,
                model.r2(), model.estimator().sections(), static_cast<int>(section.form().target),
                section.form().log_inputs ? "l" : "p", section.form().degree,
                100.0 * static_cast<double>(covered) / static_cast<double>(count), percent(here_inside, 1),
                percent(here_near, 1), percent(here_far, 1), percent(here_near, 3), percent(here_far, 3));
    std::fflush(stdout);
    inside += here_inside;
    near += here_near;
    far += here_far;
  }
  std::printf(
      "\n| share of executions, %% | A | B | T 10 | T 50 | T 100 | ours | executions |\n| --- | --- | --- | "
      "--- | --- | --- | --- | --- |\n");
  inside.print("false positives inside");
  near.print("false positives at 5-10 sigma");
  far.print("false positives at 30-35 sigma");
  constexpr const char* kKinds[] = {"loops, low", "loops, high", "reads, low", "reads, high", "no bug"};
  for (size_t kind = 0; kind < single.size(); ++kind)
    single[kind].print(fmt::format("executions flagged: {}", kKinds[kind]).c_str());
  for (size_t kind = 0; kind < found.size(); ++kind)
    found[kind].print(fmt::format("bugs found (5 of 20): {}", kKinds[kind]).c_str());
  std::printf("\nB: upper 95 %% bounds %.2f, %.2f, %.2f %%\n", 100 * upper_bound(inside.hits[1], inside.of),
              100 * upper_bound(near.hits[1], near.of), 100 * upper_bound(far.hits[1], far.of));
}

}  // namespace
}  // namespace kintsugi::behaviour

int main(int argc, char** argv) {
  using namespace kintsugi::behaviour;
  const uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const size_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2000;
  std::printf("seed %llu, %zu executions a module and band\n", static_cast<unsigned long long>(seed), count);
  table("Our form", {}, seed, count);
  table("Text form", LearningSettings::text(), seed, count);
}
