#include "monitoring/sight/report_totals.h"

#include <algorithm>
#include <cmath>

#include "common/rpc/method.h"
#include "monitoring/sight/report_entries.h"

namespace kintsugi::sight {

namespace {

/// Waits get one part in so many of what transitions get.
constexpr size_t kShareOfWaits = 4;

/// When the oldest wait for each target began.
std::unordered_map<uint64_t, int64_t> oldest_waits(const RecordTable& records) {
  std::unordered_map<uint64_t, int64_t> oldest;
  LiveRecord record;
  for (uint32_t slot = 1; slot < records.slots(); ++slot) {
    if (!records.read(slot, record) || record.target == 0 || record.kind != RegionKind::kWait) continue;
    const auto [place, is_new] = oldest.emplace(record.target, record.entered_ns);
    if (!is_new) place->second = std::min(place->second, record.entered_ns);
  }
  return oldest;
}

uint32_t key_of(const EdgeTotals& edge) {
  return uint32_t{edge.from} << 16 | edge.to;
}

void fill(proto::SightEdge& told, const EdgeTotals& edge) {
  told.set_from(edge.from);
  told.set_to(edge.to);
  told.set_count(edge.count);
  told.set_sum(edge.sum_q8);
  told.set_sum_sq(edge.sum_sq_q16);
  size_t buckets = std::size(edge.histogram);
  while (buckets > 0 && edge.histogram[buckets - 1] == 0)
    --buckets;
  for (size_t i = 0; i < buckets; ++i)
    told.add_buckets(edge.histogram[i]);
}

}  // namespace

void ReportTotals::tell(proto::SightReport& report, int64_t now, bool all) {
  tell_targets(report, now, all);
  if (!all) return;
  tell_edges(report);
  tell_waits(report);
}

void ReportTotals::tell_targets(proto::SightReport& report, int64_t now, bool all) const {
  // Devices by every report, for who judges them needs their rates; peers with the totals.
  const auto oldest = oldest_waits(recorder_.live().records());
  for (const TargetTotals& target : recorder_.live().targets().read()) {
    if (target.submitted + target.complaints + target.bytes_in + target.bytes_out == 0) continue;
    const auto pending = oldest.find(target.id);
    const bool waits = pending != oldest.end() && now - pending->second >= still_.count();
    if (!all && !target.device && !waits && target.complaints == 0) continue;
    proto::SightDevice& told = *report.add_devices();
    told.set_name(target.name);
    told.set_peer(!target.device);
    told.set_submitted(target.submitted);
    told.set_completed(target.completed);
    if (!target.device) told.set_answers(target.completed - std::min(target.completed, target.unanswered));
    if (pending != oldest.end()) told.set_oldest_pending_ns(since(now, pending->second));
    told.set_calls_open(target.submitted - target.completed);
    told.set_busy_ns(target.busy_ns);
    told.set_bytes_in(target.bytes_in);
    told.set_bytes_out(target.bytes_out);
    told.set_complaints(target.complaints);
    if (target.device) told.set_stalls(target.stalls);
    if (target.complaints > 0)
      told.set_complained_of(std::string(rpc::method_name(static_cast<rpc::Method>(target.complained_of))));
  }
}

void ReportTotals::tell_edges(proto::SightReport& report) {
  // Transitions that grew are told in the order of the time that they took: one long stay does not have to wait for
  // what happens often.
  struct Grown {
    EdgeTotals edge;
    double ns = 0;
  };
  std::vector<Grown> grown;
  for (const EdgeTotals& edge : recorder_.live().edges().read()) {
    const auto known = reported_edges_.find(key_of(edge));
    const ReportedEdge told = known == reported_edges_.end() ? ReportedEdge{} : known->second;
    if (edge.count == told.count) continue;
    const auto count = static_cast<double>(edge.count - told.count);
    const double usual = static_cast<double>(edge.sum_q8 - told.sum_q8) / 256 / count;  // log2 of nanoseconds
    grown.push_back({.edge = edge, .ns = count * std::exp2(usual)});
  }
  std::sort(grown.begin(), grown.end(), [](const Grown& a, const Grown& b) {
    return a.ns != b.ns ? a.ns > b.ns : key_of(a.edge) < key_of(b.edge);
  });
  size_t bytes = 0;
  for (const auto& [edge, ns] : grown) {
    if (bytes > most_bytes_) break;
    proto::SightEdge& told = *report.add_edges();
    fill(told, edge);
    bytes += told.ByteSizeLong() + kEntryBytes;
    // As if it were delivered: a report that is lost is made up for when the edge grows again.
    reported_edges_[key_of(edge)] = {.count = edge.count, .sum_q8 = edge.sum_q8};
  }
}

void ReportTotals::tell_waits(proto::SightReport& report) const {
  auto waits = recorder_.live().waits().read();
  std::sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.ns > b.ns; });
  size_t bytes = 0;
  for (const WaitTotals& wait : waits) {
    if (bytes > most_bytes_ / kShareOfWaits) break;
    proto::SightWaitTotal& told = *report.add_waits();
    told.set_state(wait.state);
    if (wait.target != 0) told.set_target(recorder_.live().targets().name_of(wait.target));
    told.set_count(wait.count);
    told.set_ns(wait.ns);
    bytes += told.ByteSizeLong() + kEntryBytes;
  }
}

}  // namespace kintsugi::sight
