// How often Guardian and thresholds are wrong, by the distance from what was learnt, and how often they find planted faults, by intensity and beside
// the alarms of the same rule on series without any; the share of executions inside the 90 % intervals; R² of each module. On modules of known
// laws with multiplicative noise, heavy tails and load.
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
#include "tests/texts/guardian_rules.h"

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
constexpr size_t kB = 1, kT50 = 3, kOurs = std::size(kVariants), kRules = kOurs + 1;

/// Twenty executions one after the other, as they are or with one bug. A variant alarms when it flags five of them, ours by its own rule.
struct Series {
  std::array<size_t, std::size(kVariants)> flagged{};
  RecentExecutions recent;
  std::vector<double> errors, beyond;  ///< as they are, and what of them is more than is to be expected there
  void add(const ObservationModel& model, const Judgement& judgement, bool more_only) {
    errors.push_back(judgement.error);
    beyond.push_back(judgement.error - judgement.expected);
    for (size_t v = 0; v < std::size(kVariants); ++v)
      flagged[v] += is_anomaly(judgement, kVariants[v], more_only) ? 1 : 0;
    recent.add(model.is_far(judgement), model.is_far(judgement) || model.is_off(judgement));
  }
  bool alarms(size_t rule) const {
    return rule < std::size(kVariants) ? flagged[rule] >= RecentExecutions::kFarNeeded : recent.enough();
  }
};

/// Moves the line above which an execution is flagged up and down, and tells what each line finds and how often it is wrong. A series alarms when five of its values are above the line.
struct Ranking {
  std::vector<double> healthy, buggy;
  static double score(std::vector<double> values) {
    std::sort(values.begin(), values.end(), std::greater());
    return values[RecentExecutions::kFarNeeded - 1];
  }
  static double above(const std::vector<double>& scores, double line) {
    return 100.0 *
           static_cast<double>(
               std::count_if(scores.begin(), scores.end(), [&](double s) { return s > line; })) /
           static_cast<double>(scores.size());
  }
  Ranking& operator+=(const Ranking& other) {
    healthy.insert(healthy.end(), other.healthy.begin(), other.healthy.end());
    buggy.insert(buggy.end(), other.buggy.begin(), other.buggy.end());
    return *this;
  }
  void print(const char* what) const {
    std::printf("| %s |", what);
    for (double found : {0.90, 0.95, 0.99})
      std::printf(" %.2f |", above(healthy, quantile_of(buggy, 1 - found)));
    for (double wrong : {0.001, 0.01})
      std::printf(" %.2f |", above(buggy, quantile_of(healthy, 1 - wrong)));
    std::printf("\n");
  }
};

struct Count {
  std::array<size_t, kRules> hits{};
  size_t of = 0;
  void add(const ObservationModel& model, const Judgement& judgement, bool more_only) {
    ++of;
    for (size_t v = 0; v < std::size(kVariants); ++v)
      hits[v] += is_anomaly(judgement, kVariants[v], more_only) ? 1 : 0;
    hits[kOurs] += model.is_far(judgement) ? 1 : 0;
  }
  void add(const Series& series) {
    ++of;
    for (size_t rule = 0; rule < kRules; ++rule)
      hits[rule] += series.alarms(rule) ? 1 : 0;
  }
  /// Counts where the bug makes the difference: the same executions are silent without it.
  void add(const Series& with_bug, const Series& without) {
    ++of;
    for (size_t rule = 0; rule < kRules; ++rule)
      hits[rule] += with_bug.alarms(rule) && !without.alarms(rule) ? 1 : 0;
  }
  Count& operator+=(const Count& other) {
    for (size_t rule = 0; rule < kRules; ++rule)
      hits[rule] += other.hits[rule];
    of += other.of;
    return *this;
  }
  double percent(size_t rule) const {
    return 100.0 * static_cast<double>(hits[rule]) / static_cast<double>(of);
  }
  void print(const std::string& what) const {
    std::printf("| %s |", what.c_str());
    for (size_t rule = 0; rule < kRules; ++rule)
      std::printf(" %.2f |", percent(rule));
    std::printf(" %zu |\n", of);
  }
};

void head(const char* of) {
  std::printf(
      "\n| %s, %% | A | B | T 10 | T 50 | T 100 | ours | of |\n| --- | --- | --- | --- | --- | --- | --- | "
      "--- |\n",
      of);
}

struct Intensity {
  const char* name;
  double low, high;
};
/// What a bug adds, in times of what the module takes as a rule. The text knows "low" and "high" and gives no numbers.
constexpr Intensity kIntensities[] = {{"0.2 to 0.4", 0.2, 0.4},
                                      {"0.4 to 0.6", 0.4, 0.6},
                                      {"0.6 to 1", 0.6, 1},
                                      {"1 to 2", 1, 2},
                                      {"2 to 4", 2, 4}};
constexpr size_t kLow = 2;       ///< of them
constexpr size_t kSeries = 100;  ///< of a module and band

/// Series of executions without and with bugs of many intensities.
struct ManySeries {
  Count inside, near, far;  ///< without any bug
  std::array<Count, std::size(kIntensities)> loops, reads, told_apart;
  Ranking by_error,
      by_beyond;  ///< of series at 5-10 and 30-35 sigma without a bug, and of loops of 0.6 to 1 times the usual at 5-10 sigma
  void add(const Planted& module, const ObservationModel& model, double median, bool more_only,
           Draws& draws) {
    const auto moved = [&](double low, double high) {
      return far_inputs(module, model.ranges(), low, high, draws);
    };
    for (size_t number = 0; number < kSeries; ++number) {
      Series at_inside, at_near, at_far;
      std::array<Series, std::size(kIntensities)> looping, reading;
      std::array<double, std::size(kIntensities)> times;
      for (size_t k = 0; k < times.size(); ++k)
        times[k] = draws.uniform(kIntensities[k].low, kIntensities[k].high);
      for (size_t run = 0; run < RecentExecutions::kRemembered; ++run) {
        const auto usual = drawn(module, draws), beyond = moved(30, 35), inputs = moved(5, 10);
        at_inside.add(model, model.judge(usual, executed(module, usual, draws)), more_only);
        at_far.add(model, model.judge(beyond, executed(module, beyond, draws)), more_only);
        const double actual = executed(module, inputs, draws), loop = std::max(median, module.law(inputs));
        at_near.add(model, model.judge(inputs, actual), more_only);
        for (size_t k = 0; k < times.size(); ++k) {
          looping[k].add(model, model.judge(inputs, actual + times[k] * loop), more_only);
          reading[k].add(model, model.judge(inputs, actual * (1 + times[k])), more_only);
        }
      }
      for (const Series* healthy : {&at_near, &at_far}) {
        by_error.healthy.push_back(Ranking::score(healthy->errors));
        by_beyond.healthy.push_back(Ranking::score(healthy->beyond));
      }
      by_error.buggy.push_back(Ranking::score(looping[kLow].errors));
      by_beyond.buggy.push_back(Ranking::score(looping[kLow].beyond));
      inside.add(at_inside);
      near.add(at_near);
      far.add(at_far);
      for (size_t k = 0; k < times.size(); ++k) {
        loops[k].add(looping[k]);
        reads[k].add(reading[k]);
        told_apart[k].add(looping[k], at_near);
        told_apart[k].add(reading[k], at_near);
      }
    }
  }
  ManySeries& operator+=(const ManySeries& other) {
    inside += other.inside;
    near += other.near;
    far += other.far;
    by_error += other.by_error;
    by_beyond += other.by_beyond;
    for (size_t k = 0; k < loops.size(); ++k) {
      loops[k] += other.loops[k];
      reads[k] += other.reads[k];
      told_apart[k] += other.told_apart[k];
    }
    return *this;
  }
  void print() const {
    head("series of twenty that raise an alarm");
    inside.print("no bug, inside");
    near.print("no bug, 5-10 sigma");
    far.print("no bug, 30-35 sigma");
    for (size_t k = 0; k < loops.size(); ++k) {
      loops[k].print(fmt::format("loops, {} times the usual, 5-10 sigma", kIntensities[k].name));
      reads[k].print(fmt::format("reads, {} times the usual, 5-10 sigma", kIntensities[k].name));
    }
    head("bugs told apart: with it an alarm, without it none");
    for (size_t k = 0; k < told_apart.size(); ++k)
      told_apart[k].print(fmt::format("{} times the usual", kIntensities[k].name));
    std::printf(
        "\n| line that is moved; loops of 0.6 to 1 times the usual | wrong alarms, %% of series at 5-10 and "
        "30-35 "
        "sigma, when 90 %% are found | 95 | 99 | found, %%, at 0.1 %% wrong alarms | at 1 %% |\n| --- | --- "
        "| --- "
        "| --- | --- | --- |\n");
    by_error.print("fixed threshold");
    by_beyond.print("beyond what is to be expected");
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
  ManySeries all_series;
  std::string by_module;
  Draws draws(seed), draws_of_series(mix_bits(seed));
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
      std::array<Series, 5> bugs;
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
    ManySeries series;
    series.add(module, model, median, settings.more_only, draws_of_series);
    all_series += series;
    by_module += fmt::format("| {} |", module.name);
    for (size_t rule : {kT50, kB, kOurs})
      by_module += fmt::format(" {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} |", series.near.percent(rule),
                               series.far.percent(rule), series.loops[kLow].percent(rule),
                               series.reads[kLow].percent(rule), series.told_apart[kLow].percent(rule));
    by_module += "\n";
    const Section& section = model.estimator().section(training.row(0));
    std::printf("| %s | %.4f | %zu (%d%s%u) | %.1f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", module.name,
                model.r2(), model.estimator().sections(), static_cast<int>(section.form().target),
                section.form().log_inputs ? "l" : "p", section.form().degree,
                100.0 * static_cast<double>(covered) / static_cast<double>(count), here_inside.percent(kB),
                here_near.percent(kB), here_far.percent(kB), here_near.percent(kT50), here_far.percent(kT50));
    std::fflush(stdout);
    inside += here_inside;
    near += here_near;
    far += here_far;
  }
  head("share of executions");
  inside.print("false positives inside");
  near.print("false positives at 5-10 sigma");
  far.print("false positives at 30-35 sigma");
  constexpr const char* kKinds[] = {"loops, low", "loops, high", "reads, low", "reads, high", "no bug"};
  for (size_t kind = 0; kind < single.size(); ++kind)
    single[kind].print(fmt::format("executions flagged: {}", kKinds[kind]));
  for (size_t kind = 0; kind < found.size(); ++kind)
    found[kind].print(fmt::format("bugs found (5 of 20): {}", kKinds[kind]));
  all_series.print();
  std::printf(
      "\nSeries by module, %%: alarms without a bug at 5-10 and at 30-35 sigma, bugs of 0.6 to 1 times the "
      "usual "
      "found (loops, reads) and told apart\n\n| module | T 50: 5-10 | 30-35 | loops | reads | apart | B: "
      "5-10 | "
      "30-35 | loops | reads | apart | ours: 5-10 | 30-35 | loops | reads | apart |\n| --- | --- | --- | --- "
      "| "
      "--- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n%s",
      by_module.c_str());
  std::printf("\nB: upper 95 %% bounds %.2f, %.2f, %.2f %%\n", 100 * upper_bound(inside.hits[kB], inside.of),
              100 * upper_bound(near.hits[kB], near.of), 100 * upper_bound(far.hits[kB], far.of));
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
