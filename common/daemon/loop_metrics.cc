#include "common/daemon/loop_metrics.h"

#include <algorithm>
#include <limits>
#include <map>

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include "common/log/log.h"
#include "common/rpc/rate_limit.h"

namespace kintsugi::daemon {
namespace {

using runtime::LoopTurns;

/// Regions with long turns that are told apart; there are some hundreds of sites.
constexpr size_t kMostNames = 100;
constexpr Duration kLinesEvery = 1min;

class LoopCollectable final : public prometheus::Collectable {
 public:
  explicit LoopCollectable(runtime::ProductionRuntime& production)
      : turns_(production.measure_turns()), clock_(production.runtime().clock) {
    turns_.on_long = [this](std::string_view ran, Duration took) { note(ran, took); };
  }
  ~LoopCollectable() override {
    turns_.on_long = [](std::string_view, Duration) {};
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    prometheus::MetricFamily all{"kintsugi_loop_turn_seconds",
                                 "Processor time of the event loop between two looks for new events.",
                                 prometheus::MetricType::Histogram,
                                 {{}}};
    const LoopTurns::Totals& totals = turns_.totals();
    prometheus::ClientMetric::Histogram& histogram = all.metric[0].histogram;
    for (size_t bucket = 0; bucket < totals.turns.size(); ++bucket) {
      histogram.sample_count += totals.turns[bucket];
      const double bound = bucket < LoopTurns::kBounds.size() ? to_seconds(LoopTurns::kBounds[bucket])
                                                              : std::numeric_limits<double>::infinity();
      histogram.bucket.push_back({histogram.sample_count, bound});
    }
    histogram.sample_sum = to_seconds(totals.ran);
    prometheus::MetricFamily longest{
        "kintsugi_loop_longest_turn_seconds",
        "The longest turn above 20 ms, by the region of code that took most of it.",
        prometheus::MetricType::Gauge,
        {}};
    prometheus::MetricFamily count{"kintsugi_loop_long_turns_total",
                                   "Turns above 20 ms, by the region of code that took most of each.",
                                   prometheus::MetricType::Counter,
                                   {}};
    for (const auto& [name, turns] : long_) {
      longest.metric.emplace_back().label = {{"ran", name}};
      longest.metric.back().gauge.value = to_seconds(turns.longest);
      count.metric.emplace_back().label = {{"ran", name}};
      count.metric.back().counter.value = static_cast<double>(turns.count);
    }
    return {std::move(all), std::move(longest), std::move(count)};
  }

 private:
  struct Turns {
    uint64_t count = 0;
    Duration longest{};
  };

  void note(std::string_view ran, Duration took) {
    std::string name(ran.empty() ? "unnamed" : ran);
    if (long_.size() >= kMostNames && !long_.contains(name)) name = "others";
    Turns& turns = long_[name];
    ++turns.count;
    turns.longest = std::max(turns.longest, took);
    if (took <= kTurnWorthALine) return;
    const auto left_out = lines_.allow(clock_.now());
    if (!left_out) return;
    log::warning(
        "the event loop ran {} for {:.0f} ms in one go, while all other requests waited: if this comes "
        "again, report it as a "
        "bug ({} more turns of the kind were not logged; kintsugi_loop_long_turns_total counts all)",
        name, to_seconds(took) * 1e3, *left_out);
  }

  LoopTurns& turns_;
  const runtime::Clock& clock_;
  /// Long turns. Key: name of the region that took most of the turn.
  std::map<std::string, Turns> long_;
  rpc::RateLimit lines_{1, kLinesEvery};
};

}  // namespace

void add_loop_metrics(runtime::ProductionRuntime& production, metrics::Metrics& metrics) {
  metrics.add(std::make_shared<LoopCollectable>(production));
}

}  // namespace kintsugi::daemon
