#include "monitoring/similarity/odd_windows.h"

#include <algorithm>
#include <cmath>

#include "common/base/statistics.h"

namespace kintsugi::similarity {
namespace {

/// Spreads that are not worth telling apart: of excess and of lacking a processor in seconds of a window, of memory in
/// bytes and as a share of it.
constexpr double kLeastExcess = 0.1, kLeastDelay = 0.3, kLeastMemory = 16 << 20, kLeastMemoryShare = 0.05;
/// A process that was not heard of for so long is no peer any more.
constexpr auto kPeersWithin = std::chrono::seconds(20);
/// Where it lacks a processor and takes its time, that is what the lack of a processor does.
constexpr double kLacksProcessor = OddWindows::kOdd;

double seconds_of(size_t octave) {
  return 1.5 * std::ldexp(1.0, static_cast<int>(octave)) / 1e9;
}

}  // namespace

size_t OddWindows::usual_octave(const std::string& kind, const Transition& transition) const {
  const auto of_kind = usual_.find(kind);
  if (of_kind == usual_.end()) return kUnknownOctave;
  const auto known = of_kind->second.find(transition);
  if (known == of_kind->second.end()) return kUnknownOctave;
  const Usual& usual = known->second;
  const double may_be_longer = usual.count < kFew ? 0 : (1 - kUsual) * usual.count;
  double longer = 0;
  size_t octave = Stays::kOctaves;
  while (octave-- > 1) {
    longer += usual.by_octave[octave];
    if (longer > may_be_longer) break;
  }
  return usual.count < kFew ? std::max(octave, kUnknownOctave) : octave;
}

/// Returns the median of the other processes of its kind: a change that all of them show is no fault of one.
double OddWindows::of_peers(const ProcessWindow& window, double Values::* value) const {
  std::vector<double> values;
  for (const auto& [process, known] : known_)
    if (process != window.process && known.kind == window.kind && known.ended + kPeersWithin >= window.ended)
      values.push_back(known.last.*value);
  return median_of(values);
}

double OddWindows::score(const ProcessWindow& window, const Known& known, double now, double Values::* value,
                         double least, double least_share) const {
  std::vector<double> past;
  for (const Values& each : known.past)
    past.push_back(each.*value);
  const double usual = std::max(median_of(past), least_share > 0 ? 0 : of_peers(window, value));
  const double spread = std::max({robust_deviation_of(past), least, least_share * usual});
  return past.empty() ? 0 : std::max(0.0, (now - usual) / spread);
}

void OddWindows::remember(const ProcessWindow& window) {
  auto& of_kind = usual_[window.kind];
  for (const Stays& stays : window.stays) {
    if (use_(stays.transition.from) == StateUse::kWaits) continue;
    if (!of_kind.contains(stays.transition) && of_kind.size() >= kMostTransitions) continue;
    Usual& usual = of_kind[stays.transition];
    for (size_t i = 0; i < Stays::kOctaves; ++i) {
      usual.by_octave[i] += static_cast<double>(stays.by_octave[i]);
      usual.count += static_cast<double>(stays.by_octave[i]);
    }
    if (usual.count < kMostStays) continue;
    usual.count /= 2;
    for (double& count : usual.by_octave)
      count /= 2;
  }
}

OddWindow OddWindows::add(const ProcessWindow& window) {
  OddWindow out;
  Values now{.memory = window.memory_bytes, .delayed = window.delayed_s};
  for (const Stays& stays : window.stays) {
    const StateUse use = use_(stays.transition.from);
    if (use == StateUse::kWaits) continue;
    double excess = 0;
    for (size_t i = usual_octave(window.kind, stays.transition) + 2; i < Stays::kOctaves; ++i)
      excess += static_cast<double>(stays.by_octave[i]) * seconds_of(i);
    if (excess == 0) continue;
    now.excess += excess;
    out.top.push_back({.transition = stays.transition, .excess_s = excess});
  }
  // While code holds the loop, what the disk has completed is seen late: of equal stays the work itself stands first.
  const auto weight = [&](const OddTransition& one) {
    return one.excess_s * (use_(one.transition.from) == StateUse::kWorks ? 2 : 1);
  };
  std::stable_sort(out.top.begin(), out.top.end(),
                   [&](const auto& a, const auto& b) { return weight(a) > weight(b); });
  if (out.top.size() > kShown) out.top.resize(kShown);
  out.excess_s = now.excess;

  if (!known_.contains(window.process) && known_.size() >= kMostProcesses)
    known_.erase(std::ranges::min_element(known_, {}, [](const auto& each) { return each.second.ended; }));
  Known& known = known_[window.process];
  known.kind = window.kind;
  const double time = score(window, known, now.excess, &Values::excess, kLeastExcess, 0);
  const double memory = score(window, known, now.memory, &Values::memory, kLeastMemory, kLeastMemoryShare);
  const double processor = score(window, known, now.delayed, &Values::delayed, kLeastDelay, 0);
  out.time_score = time;
  out.score = std::max({time, memory, processor});
  const bool takes_memory =
      memory >= kOdd && memory >= processor && (memory >= time || processor >= kLacksProcessor);
  out.because = takes_memory                   ? OddBecause::kMemory
                : processor >= kLacksProcessor ? OddBecause::kProcessor
                                               : OddBecause::kTime;
  known.last = now;
  known.ended = window.ended;
  if (out.score > kOdd) return out;
  known.past.push_back(now);
  if (known.past.size() > kReferences) known.past.pop_front();
  remember(window);
  return out;
}

}  // namespace kintsugi::similarity
