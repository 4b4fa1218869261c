/// What is known of runs that were well: how far their flows, and processes, are from one another by chance. Only what is
/// farther than that is worth an accusation (one-class ranking, Mirgorodskiy 2006, section 5.2.5).
///
/// A request of a millisecond that finds its processor taken for another one looks as odd, by its shares of time, as one that is
/// held up for seconds. In seconds it does not, and what a machine does to requests by chance it does to those of all
/// kinds: so seconds are compared with what chance did to any request of the runs that were well, and with what it does to those
/// that began elsewhere in the run that is asked about, whose machine may be busier. What two processes have is no fault of one.
#pragma once

#include <map>

#include "tracing/anomaly/suspect_score.h"
#include "tracing/anomaly/waiting.h"

namespace kintsugi::cause {

/// By what is ranked.
struct Lens {
  anomaly::ProfileKind kind = anomaly::ProfileKind::kTime;
  anomaly::Part part = anomaly::Part::kAll;
  auto operator<=>(const Lens&) const = default;
};

/// How requests are looked at with runs that were well, in turn: who ran for long, who was held up, who did what none of those
/// did (coverage stands for that).
inline constexpr Lens kRequestLenses[] = {{anomaly::ProfileKind::kElapsed, anomaly::Part::kRunning},
                                          {anomaly::ProfileKind::kElapsed, anomaly::Part::kOwn},
                                          {anomaly::ProfileKind::kCoverage}};

/// Chance does half as much as would be accused.
inline constexpr double kTimesChance = 2;

class KnownNormal {
 public:
  /// `least_seconds`: less is lost by chance, whatever runs that were well say. `kinds`: totals of flows, or processes, that are comparable with one another; they and `paths` outlive this.
  /// REQUIRES: all paths that will be asked for are in `paths`.
  KnownNormal(std::vector<std::vector<anomaly::PathTotals>> kinds, const anomaly::CallPaths& paths,
              const anomaly::WaitNames& names, double least_seconds = 0);

  std::span<const anomaly::Waiting> waiting() const { return waiting_; }
  /// There are enough of one kind to tell how far apart chance puts them.
  bool tells_chance() const;
  /// The farthest that one of them is from the nearest other one of its kind, computed when it is first asked for; through the
  /// lens of coverage, how many paths one of them may have that no other one has.
  double chance(Lens lens);
  /// Through a lens of requests, of one kind, the greatest first. Errors: those of anomaly::rank.
  Result<std::vector<anomaly::SuspectScore>> scores(Lens lens, std::span<const anomaly::PathTotals> trials,
                                                    std::span<const anomaly::PathTotals> normal) const;
  /// Looks at requests of one kind of the run that is asked about, and at those of it that were well. `processes`: where they
  /// began. Errors: those of anomaly::rank.
  Status look_at(std::span<const anomaly::PathTotals> trials, std::span<const uint32_t> processes,
                 std::span<const anomaly::PathTotals> normal);
  /// The highest score of requests that were looked at and began elsewhere.
  double elsewhere(Lens lens, uint32_t process) const;
  /// How many paths a flow has, with their prefixes, that none of them has.
  size_t new_paths(const anomaly::PathTotals& totals) const;

 private:
  void count_paths();

  const std::vector<std::vector<anomaly::PathTotals>> kinds_;
  const anomaly::CallPaths& paths_;
  const std::vector<anomaly::Waiting> waiting_;
  const double least_seconds_;
  std::vector<uint32_t> seen_;  ///< by path: how many of them have it
  double alone_ =
      0;  ///< paths that 99 % of them have at most, and no other one: what is done first is done once
  std::map<Lens, double> chances_;
  std::map<Lens, std::map<uint32_t, double>> highest_;  ///< by the process where a request began
};

/// `waiting`: as of a KnownNormal, or empty if all of the time counts.
std::vector<anomaly::Profile> profiles_of(std::span<const anomaly::PathTotals> all,
                                          const anomaly::CallPaths& paths, Lens lens,
                                          std::span<const anomaly::Waiting> waiting = {});

}  // namespace kintsugi::cause
