#include "monitoring/metrics/blacksheep/unexplained.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "common/base/statistics.h"

namespace kintsugi::blacksheep {

namespace {

/// How far a process is off beside its peers. Where they are off on the same side it counts as far as it is off more than twice
/// as much, for what moves all moves some of them more than others; where they are on the other side it counts by itself.
double beside(double own, double peers) {
  const double side = own < 0 ? -1 : 1;
  return side * std::max(0.0, side * own - 2 * std::max(0.0, side * peers));
}

/// Of each process: windows by aspects.
std::vector<Eigen::MatrixXd> beside_peers(const Explanation& explanation, std::span<const Work> all) {
  std::vector<Eigen::MatrixXd> own;
  for (const Work& work : all)
    own.push_back(explanation.off(work));
  std::vector<Eigen::MatrixXd> out = own;
  std::vector<double> others;
  for (size_t process = 0; process < all.size(); ++process)
    for (Eigen::Index window = 0; window < out[process].rows(); ++window)
      for (Eigen::Index aspect = 0; aspect < out[process].cols(); ++aspect) {
        others.clear();
        for (size_t other = 0; other < all.size(); ++other)
          if (other != process && std::isfinite(own[other](window, aspect)))
            others.push_back(own[other](window, aspect));
        double& off = out[process](window, aspect);
        off = others.size() < kPeersNeeded ? std::numeric_limits<double>::quiet_NaN()
                                           : beside(off, median_of(others));
      }
  return out;
}

Work part_of(const Work& work, size_t from, size_t to) {
  const auto first = static_cast<Eigen::Index>(from), rows = static_cast<Eigen::Index>(to - from);
  return {.source = work.source,
          .begins_ns = {work.begins_ns.begin() + static_cast<std::ptrdiff_t>(from),
                        work.begins_ns.begin() + static_cast<std::ptrdiff_t>(to)},
          .ended = work.ended.middleRows(first, rows),
          .open = work.open.middleRows(first, rows),
          .others = {work.others.begin() + static_cast<std::ptrdiff_t>(from),
                     work.others.begin() + static_cast<std::ptrdiff_t>(to)},
          .done = work.done.middleRows(first, rows)};
}

constexpr size_t side_of(double off) {
  return off > 0 ? 0 : 1;
}

Tells tells_of(const Aspect& aspect, double off) {
  if (aspect.of == Aspect::Of::kLog) return Tells::kOpen;
  return off > 0 ? Tells::kMoreWork : Tells::kLessWork;
}

/// What is stronger comes first.
auto order_of(const Unexplained& found) {
  const bool waits = found.tells == Tells::kOpen;
  return std::tuple(waits, waits ? -found.open_seconds : -found.excess);
}

}  // namespace

Answer<Usual> Usual::learn(std::span<const Work> healthy, const std::vector<std::string>& states,
                           const std::vector<std::string>& metrics) {
  if (healthy.size() <= kPeersNeeded) return NotEnough{Lack::kPeers, healthy.size(), kPeersNeeded + 1};
  auto explanation = Explanation::learn(healthy, states, metrics);
  if (!explanation) return explanation.error();
  Usual out(std::move(*explanation));
  const size_t windows = healthy.front().windows();
  for (size_t part = 0; part < kParts; ++part) {
    const size_t from = windows * part / kParts, to = windows * (part + 1) / kParts;
    const auto by_the_rest = Explanation::learn(healthy, states, metrics, from, to);
    if (!by_the_rest) return by_the_rest.error();
    std::vector<Work> judged;
    for (const Work& work : healthy)
      judged.push_back(part_of(work, from, to));
    out.heed(*by_the_rest, judged);
  }
  return out;
}

void Usual::heed(const Explanation& explanation, std::span<const Work> part) {
  for (const Eigen::MatrixXd& off : beside_peers(explanation, part))
    for (Eigen::Index aspect = 0; aspect < off.cols(); ++aspect) {
      const Aspect& known = explanation.aspects()[static_cast<size_t>(aspect)];
      Farthest& farthest = farthest_.try_emplace({known.of, known.name}, Farthest{1, 1}).first->second;
      for (const double each : off.col(aspect))
        if (std::isfinite(each)) farthest[side_of(each)] = std::max(farthest[side_of(each)], std::abs(each));
    }
}

double Usual::open_seconds(const Work& work, size_t aspect) const {
  double out = 0;
  for (size_t window = 0; window < work.windows(); ++window)
    if (const double more =
            explanation_.actual(work, window, aspect) - explanation_.explained(work, window, aspect);
        std::isfinite(more))
      out += more * std::chrono::duration<double>(kStep).count();
  return out;
}

std::vector<Unexplained> Usual::of_process(size_t process, const Work& work,
                                           const Eigen::MatrixXd& off) const {
  std::vector<Unexplained> out;
  for (size_t i = 0; i < explanation_.aspects().size(); ++i) {
    const Aspect& aspect = explanation_.aspects()[i];
    const auto usual = farthest_.find({aspect.of, aspect.name});
    if (usual == farthest_.end()) continue;
    Unexplained found{.process = process, .name = aspect.name, .excess = kMargin};
    std::ptrdiff_t at = -1;
    for (Eigen::Index window = 0; window < off.rows(); ++window) {
      const double each = off(window, static_cast<Eigen::Index>(i));
      // Fewer executions open than usual are no fault.
      if (!std::isfinite(each) || (aspect.of == Aspect::Of::kLog && each < 0)) continue;
      const double excess = std::abs(each) / usual->second[side_of(each)];
      if (excess <= found.excess) continue;
      found.excess = excess;
      found.tells = tells_of(aspect, each);
      at = window;
    }
    if (at < 0) continue;
    const auto window = static_cast<size_t>(at);
    found.begin_ns = work.begins_ns[window];
    found.end_ns = found.begin_ns + std::chrono::nanoseconds(kWindow).count();
    found.actual = explanation_.actual(work, window, i);
    found.explained = explanation_.explained(work, window, i);
    if (found.tells == Tells::kOpen) found.open_seconds = open_seconds(work, i);
    out.push_back(std::move(found));
  }
  return out;
}

std::vector<Unexplained> Usual::judge(std::span<const Work> now) const {
  std::vector<Unexplained> out;
  const std::vector<Eigen::MatrixXd> off = beside_peers(explanation_, now);
  for (size_t process = 0; process < now.size(); ++process) {
    const std::vector<Unexplained> found = of_process(process, now[process], off[process]);
    if (const auto strongest = std::ranges::min_element(found, {}, order_of); strongest != found.end())
      out.push_back(*strongest);
  }
  std::ranges::stable_sort(out, {}, order_of);
  if (!out.empty()) out.front().accused = true;
  return out;
}

}  // namespace kintsugi::blacksheep
