#include "tracing/cause/known_normal.h"

#include <algorithm>
#include <functional>

#include "common/base/statistics.h"

namespace kintsugi::cause {

using anomaly::CallPaths;
using anomaly::PathId;
using anomaly::PathTotals;
using anomaly::Profile;
using anomaly::ProfileKind;

namespace {

/// The calls of a flow as paths with their prefixes, each once.
std::vector<PathId> closed(const PathTotals& totals, const CallPaths& paths,
                           std::span<const anomaly::Waiting> waiting) {
  std::vector<PathId> found;
  for (const anomaly::Component& one :
       anomaly::profile_of(anomaly::calls_of(totals, waiting), paths, ProfileKind::kCoverage))
    found.push_back(one.path);
  return found;
}

}  // namespace

std::vector<Profile> profiles_of(std::span<const PathTotals> all, const CallPaths& paths, Lens lens,
                                 std::span<const anomaly::Waiting> waiting) {
  const bool by_calls = lens.kind == ProfileKind::kCoverage && !waiting.empty();
  std::vector<Profile> profiles;
  for (const PathTotals& totals : all)
    profiles.push_back(anomaly::profile_of(
        by_calls ? anomaly::calls_of(totals, waiting) : anomaly::part_of(totals, waiting, lens.part), paths,
        lens.kind));
  return profiles;
}

KnownNormal::KnownNormal(std::vector<std::vector<PathTotals>> kinds, const CallPaths& paths,
                         const anomaly::WaitNames& names, double least_seconds)
    : kinds_(std::move(kinds)),
      paths_(paths),
      waiting_(anomaly::waiting_of(paths, names)),
      least_seconds_(least_seconds),
      seen_(paths.size()) {
  count_paths();
}

bool KnownNormal::tells_chance() const {
  return std::ranges::any_of(kinds_, [](const std::vector<PathTotals>& comparable) {
    return comparable.size() >= anomaly::OutlierSettings().least_trials;
  });
}

void KnownNormal::count_paths() {
  for (const std::vector<PathTotals>& kind : kinds_)
    for (const PathTotals& totals : kind)
      for (const PathId path : closed(totals, paths_, waiting_))
        ++seen_[path];
  std::vector<double> alone;
  for (const std::vector<PathTotals>& kind : kinds_)
    for (const PathTotals& totals : kind)
      alone.push_back(static_cast<double>(std::ranges::count_if(
          closed(totals, paths_, waiting_), [&](PathId path) { return seen_[path] == 1; })));
  if (!alone.empty()) alone_ = quantile_of(alone, 0.99);
}

size_t KnownNormal::new_paths(const PathTotals& totals) const {
  return static_cast<size_t>(
      std::ranges::count_if(closed(totals, paths_, waiting_), [&](PathId path) { return seen_[path] == 0; }));
}

double KnownNormal::chance(Lens lens) {
  if (lens.kind == ProfileKind::kCoverage) return alone_;
  const auto [place, is_new] = chances_.try_emplace(lens, 0);
  if (!is_new) return place->second;
  for (const std::vector<PathTotals>& comparable : kinds_)
    place->second =
        std::max(place->second, anomaly::largest_gap(profiles_of(comparable, paths_, lens, waiting_)));
  if (lens.kind == ProfileKind::kElapsed)
    place->second = std::max(place->second, least_seconds_ / kTimesChance);
  return place->second;
}

Result<std::vector<anomaly::SuspectScore>> KnownNormal::scores(Lens lens, std::span<const PathTotals> trials,
                                                               std::span<const PathTotals> normal) const {
  if (lens.kind != ProfileKind::kCoverage)
    return anomaly::suspect_scores(profiles_of(trials, paths_, lens, waiting_),
                                   profiles_of(normal, paths_, lens, waiting_));
  std::vector<anomaly::SuspectScore> found;
  for (size_t trial = 0; trial < trials.size(); ++trial)
    found.push_back({.trial = trial, .score = static_cast<double>(new_paths(trials[trial]))});
  std::ranges::stable_sort(found, std::ranges::greater(), &anomaly::SuspectScore::score);
  return found;
}

Status KnownNormal::look_at(std::span<const PathTotals> trials, std::span<const uint32_t> processes,
                            std::span<const PathTotals> normal) {
  // Those of a kind that there was none of do all that they do for the first time.
  if (normal.empty()) return {};
  for (const Lens lens : kRequestLenses) {
    KINTSUGI_ASSIGN(const std::vector<anomaly::SuspectScore> all, scores(lens, trials, normal));
    for (const anomaly::SuspectScore& one : all) {
      double& highest = highest_[lens][processes[one.trial]];
      highest = std::max(highest, one.score);
    }
  }
  return {};
}

double KnownNormal::elsewhere(Lens lens, uint32_t process) const {
  double highest = 0;
  if (const auto found = highest_.find(lens); found != highest_.end())
    for (const auto& [where, score] : found->second)
      if (where != process) highest = std::max(highest, score);
  return highest;
}

}  // namespace kintsugi::cause
