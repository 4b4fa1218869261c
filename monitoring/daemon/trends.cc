#include "monitoring/daemon/trends.h"

#include <algorithm>
#include <utility>

#include "monitoring/model/counters.h"

namespace kintsugi::monitoring {
namespace {

constexpr Duration kBaseStep = std::chrono::seconds(30);

DeviceTrend trend_of(const proto::SightDevice& from, const proto::SightDevice& to, double seconds) {
  const double completed = model::grown(from.completed(), to.completed());
  return {.requests_per_second = completed / seconds,
          .latency_seconds = completed > 0 ? model::grown(from.busy_ns(), to.busy_ns()) / completed / 1e9 : 0,
          .bytes_in_per_second = model::grown(from.bytes_in(), to.bytes_in()) / seconds,
          .bytes_out_per_second = model::grown(from.bytes_out(), to.bytes_out()) / seconds};
}

}  // namespace

void Trends::look(const model::Snapshot& snapshot) {
  if (last_ != TimePoint{} && snapshot.taken - last_ < kStep) return;
  last_ = snapshot.taken;
  look_at_devices(snapshot);
  if (last_base_ != TimePoint{} && snapshot.taken - last_base_ < kBaseStep) return;
  last_base_ = snapshot.taken;
  look_at_edges(snapshot);
}

void Trends::look_at_devices(const model::Snapshot& snapshot) {
  for (const auto& view : snapshot.processes) {
    for (const proto::SightDevice& device : view->last().devices()) {
      Key key{view->process(), device.peer(), device.name()};
      auto found = devices_.find(key);
      if (found == devices_.end()) {
        if (devices_.size() >= kMostSeries) continue;
        found = devices_.emplace(std::move(key), Series()).first;
      }
      Series& series = found->second;
      // The report may be the one of the last look.
      if (!series.samples.empty() && series.samples.back().at == view->arrived()) continue;
      series.samples.push_back({view->arrived(), device});
      if (series.samples.size() > kSamples) series.samples.pop_front();
      const Sample& first = series.samples.front();
      const double seconds = to_seconds(view->arrived() - first.at);
      if (seconds > 0) series.trend = trend_of(first.counters, device, seconds);
    }
  }
  std::erase_if(devices_, [&](const auto& entry) {
    return snapshot.taken - entry.second.samples.back().at > kSamples * kStep;
  });
}

void Trends::look_at_edges(const model::Snapshot& snapshot) {
  std::map<uint64_t, Bases> kept;
  for (const auto& view : snapshot.processes) {
    if (kept.size() >= kMostModelled) break;
    const auto known = bases_.find(view->process());
    Bases bases = known == bases_.end() ? Bases{} : std::move(known->second);
    bases.older = std::move(bases.newer);
    bases.newer = {.at = snapshot.taken, .edges = {}};
    for (const auto& [key, edge] : view->edges())
      bases.newer.edges[key] = {edge.count(), edge.sum(), {edge.buckets().begin(), edge.buckets().end()}};
    kept.emplace(view->process(), std::move(bases));
  }
  bases_ = std::move(kept);
}

const DeviceTrend* Trends::device(uint64_t process, bool peer, const std::string& name) const {
  const auto found = devices_.find(Key{process, peer, name});
  return found == devices_.end() ? nullptr : &found->second.trend;
}

Trends::Growth Trends::growth(const model::ProcessView& view, const proto::SightEdge& edge) const {
  Growth now{edge.count(), edge.sum(), {edge.buckets().begin(), edge.buckets().end()}};
  const auto bases = bases_.find(view.process());
  if (bases == bases_.end()) return now;
  const auto base = bases->second.older.edges.find(model::edge_key(edge));
  if (base == bases->second.older.edges.end() || base->second.count > now.count) return now;
  now.count -= base->second.count;
  now.sum -= base->second.sum;
  for (size_t i = 0; i < std::min(now.buckets.size(), base->second.buckets.size()); ++i)
    now.buckets[i] -= std::min(now.buckets[i], base->second.buckets[i]);
  return now;
}

double Trends::growth_seconds(uint64_t process, TimePoint now) const {
  const auto bases = bases_.find(process);
  if (bases == bases_.end() || bases->second.older.at == TimePoint{}) return 0;
  return to_seconds(now - bases->second.older.at);
}

}  // namespace kintsugi::monitoring
