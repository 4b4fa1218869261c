#include "monitoring/daemon/absence_detector.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::monitoring {
namespace {

using proto::Verdict;

constexpr double kCertain = 0.995, kLikely = 0.95, kUnsure = 0.5;

/// The process that reported last, of those for which `is_it` holds; null: none.
template <class IsIt>
const model::ProcessView* latest(const model::Snapshot& snapshot, IsIt is_it) {
  const model::ProcessView* found = nullptr;
  for (const auto& view : snapshot.processes)
    if (is_it(*view) && (found == nullptr || view->arrived() > found->arrived())) found = view.get();
  return found;
}

bool reports(const model::Snapshot& snapshot, const model::ProcessView* view) {
  return view != nullptr && !view->last().last() && snapshot.silent(*view) <= AbsenceDetector::kSilence;
}

/// The monitor itself may be cut off.
bool most_are_silent(const model::Snapshot& snapshot) {
  const auto silent = static_cast<size_t>(std::ranges::count_if(
      snapshot.processes, [&](const auto& view) { return !reports(snapshot, view.get()); }));
  return silent * 2 > snapshot.processes.size();
}

void judge(Verdict& verdict, double probability) {
  verdict.set_probability(probability);
  verdict.set_confidence(probability >= kCertain  ? Verdict::CERTAIN
                         : probability >= kLikely ? Verdict::LIKELY
                                                  : Verdict::UNSURE);
}

void tell_reports(Verdict& verdict, const model::Snapshot& snapshot, const model::ProcessView* view) {
  if (view == nullptr) {
    verdict.add_why("it has not reported since this monitor was started");
    return;
  }
  verdict.set_process(view->process());
  verdict.add_why(view->last().last()
                      ? fmt::format("it said {:.0f} s ago that it ends", to_seconds(snapshot.silent(*view)))
                      : fmt::format("no report for {:.1f} s", to_seconds(snapshot.silent(*view))));
}

}  // namespace

void AbsenceDetector::hear(const std::vector<Verdict>& found, TimePoint) {
  processes_.clear();
  servers_.clear();
  for (const Verdict& verdict : found) {
    if (verdict.kind() != Verdict::SILENT) continue;
    processes_.insert(verdict.process());
    servers_.insert(verdict.server_id());
  }
}

std::optional<Verdict> AbsenceDetector::absent_metaserver(const model::Snapshot& snapshot) const {
  const std::optional<Duration> unanswered = snapshot.metaserver.unanswered;
  if (!unanswered || *unanswered < kUnanswered) return {};
  const model::ProcessView* view =
      latest(snapshot, [](const model::ProcessView& one) { return one.last().kind() == "metaserver"; });
  if (reports(snapshot, view) || (view != nullptr && processes_.contains(view->process()))) return {};
  Verdict verdict;
  verdict.set_kind(Verdict::SILENT);
  verdict.set_server("metaserver");
  verdict.set_process_kind("metaserver");
  verdict.set_since_ns(static_cast<uint64_t>(unanswered->count()));
  verdict.add_why(fmt::format("at {} it has not answered this monitor for {:.1f} s",
                              snapshot.metaserver.address, to_seconds(*unanswered)));
  tell_reports(verdict, snapshot, view);
  const bool cut_off = most_are_silent(snapshot);
  if (cut_off) verdict.add_why("most processes are silent: it may be the monitor that is cut off");
  // Without any process that reports, only the monitor's own calls speak.
  judge(verdict, snapshot.processes.empty() || cut_off ? kLikely : kCertain);
  return verdict;
}

std::optional<Verdict> AbsenceDetector::absent_server(const model::Snapshot& snapshot,
                                                      const model::ServerLife& life) const {
  if (life.liveness == model::Liveness::kAlive || servers_.contains(life.server_id)) return {};
  if (life.in_maintenance) return {};
  const model::ProcessView* view = latest(
      snapshot, [&](const model::ProcessView& one) { return one.last().server_id() == life.server_id; });
  if (reports(snapshot, view)) return {};
  // Whoever ended in good order may be about to be started again.
  const bool is_dead = life.liveness == model::Liveness::kDead;
  if (view != nullptr && view->last().last() && !is_dead) return {};
  Verdict verdict;
  verdict.set_kind(Verdict::SILENT);
  verdict.set_server(life.name.empty() ? life.address : life.name);
  verdict.set_server_id(life.server_id);
  verdict.set_process_kind("chunkserver");
  const auto since = since_.find(life.server_id);
  const Duration absent = view != nullptr         ? snapshot.silent(*view)
                          : since != since_.end() ? snapshot.taken - since->second
                                                  : Duration{};
  verdict.set_since_ns(static_cast<uint64_t>(std::max<int64_t>(absent.count(), 0)));
  verdict.add_why(is_dead ? "the metaserver holds it for dead" : "the metaserver suspects it");
  tell_reports(verdict, snapshot, view);
  const bool cut_off = view != nullptr && snapshot.processes.size() > 2 && most_are_silent(snapshot);
  if (cut_off) verdict.add_why("most processes are silent: it may be the monitor that is cut off");
  judge(verdict, cut_off ? kUnsure : kCertain);
  return verdict;
}

std::optional<Verdict> AbsenceDetector::absent_repair_managers(const model::Snapshot& snapshot) const {
  if (snapshot.metaserver.nobody_repairs.empty()) return {};
  Verdict verdict;
  verdict.set_kind(Verdict::SILENT);
  verdict.set_server("repair manager");
  verdict.set_process_kind("repair-manager");
  const auto since = since_.find(kRepairManagers);
  if (since != since_.end())
    verdict.set_since_ns(static_cast<uint64_t>((snapshot.taken - since->second).count()));
  verdict.add_why("the metaserver says: " + snapshot.metaserver.nobody_repairs);
  judge(verdict, kCertain);
  return verdict;
}

std::vector<Verdict> AbsenceDetector::examine(const model::Snapshot& snapshot) {
  std::map<uint64_t, TimePoint> absent;
  std::vector<Verdict> found;
  const auto take = [&](uint64_t id, std::optional<Verdict> verdict, Duration lasts) {
    if (!verdict) return;
    const auto known = since_.find(id);
    const TimePoint since = known == since_.end() ? snapshot.taken : known->second;
    absent.emplace(id, since);
    if (snapshot.taken - since >= lasts) found.push_back(std::move(*verdict));
  };
  take(kMetaserver, absent_metaserver(snapshot), kLasts);
  take(kRepairManagers, absent_repair_managers(snapshot), kSilence);
  for (const model::ServerLife& life : snapshot.servers)
    take(life.server_id, absent_server(snapshot, life), kSilence);
  since_ = std::move(absent);
  return found;
}

}  // namespace kintsugi::monitoring
