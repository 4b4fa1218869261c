#include "monitoring/similarity/memory_watch.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/statistics.h"

namespace kintsugi::similarity {
namespace {

/// More than any process has: what says so is garbage.
constexpr uint64_t kMostBytes = uint64_t{1} << 50;

double mebibytes(double bytes) {
  return bytes / (1 << 20);
}

}  // namespace

void MemoryWatch::judge(Known& known, TimePoint now) {
  const bool has_peers = known.peers >= settings_.least_peers;
  const double needed = std::max(static_cast<double>(settings_.least_growth),
                                 settings_.least_share * static_cast<double>(known.base)) *
                        (has_peers ? 1 : 2);
  const int64_t own = known.growth - std::max<int64_t>(0, known.peers_growth);
  const bool is_odd = known.usual.size() >= settings_.least_remembered && static_cast<double>(own) >= needed;
  if (known.last.bytes > known.largest + settings_.least_growth / 16) {
    known.largest = known.last.bytes;
    known.grew = now;
  }
  if (is_odd && now - known.grew >= settings_.settles) {
    known.usual.assign(settings_.least_remembered, known.last.bytes);
    known.base = known.last.bytes;
    known.odd = 0;
    known.since.reset();
    return;
  }
  known.odd = is_odd ? known.odd + 1 : 0;
  if (!known.since && known.odd >= settings_.raise_steps) known.since = now;
  if (is_odd) return;
  known.since.reset();
  known.largest = known.last.bytes;
  known.usual.push_back(known.last.bytes);
  if (known.usual.size() > settings_.remembered) known.usual.pop_front();
  std::vector<double> values(known.usual.begin(), known.usual.end());
  known.base = static_cast<uint64_t>(median_of(values));
}

void MemoryWatch::look(const std::vector<MemoryUse>& processes, TimePoint now) {
  if (looked_ && now - *looked_ < settings_.step) return;
  looked_ = now;
  std::map<uint64_t, Known> kept;
  std::map<std::string, std::vector<std::pair<uint64_t, double>>> growths;  // key: kind of process
  for (const MemoryUse& use : processes) {
    if (use.bytes == 0 || use.bytes > kMostBytes || kept.size() >= settings_.most_processes) continue;
    const auto before = known_.find(use.process);
    Known& known = kept[use.process];
    if (before != known_.end()) known = std::move(before->second);
    known.last = use;
    known.growth =
        known.usual.empty() ? 0 : static_cast<int64_t>(use.bytes) - static_cast<int64_t>(known.base);
    if (known.usual.size() >= settings_.least_remembered)
      growths[use.kind].emplace_back(use.process, static_cast<double>(known.growth));
  }
  known_ = std::move(kept);
  for (auto& [process, known] : known_) {
    std::vector<double> others;
    for (const auto& [other, growth] : growths[known.last.kind])
      if (other != process) others.push_back(growth);
    known.peers = others.size();
    known.peers_growth = others.empty() ? 0 : static_cast<int64_t>(median_of(others));
    judge(known, now);
  }
}

std::vector<proto::Verdict> MemoryWatch::alarms(TimePoint now) const {
  std::vector<proto::Verdict> found;
  for (const auto& [process, known] : known_) {
    if (!known.since) continue;
    proto::Verdict verdict;
    verdict.set_kind(proto::Verdict::RESOURCE);
    verdict.set_server(known.last.name);
    verdict.set_server_id(known.last.server_id);
    verdict.set_process(process);
    verdict.set_process_kind(known.last.kind);
    verdict.set_region("memory");
    verdict.set_factor(static_cast<double>(known.last.bytes) /
                       std::max(1.0, static_cast<double>(known.base)));
    verdict.set_since_ns(static_cast<uint64_t>(std::max<int64_t>(0, (now - *known.since).count())));
    const bool has_peers = known.peers >= settings_.least_peers;
    verdict.set_confidence(has_peers ? proto::Verdict::LIKELY : proto::Verdict::UNSURE);
    verdict.set_probability(has_peers ? 0.95 : 0.5);
    verdict.add_why(fmt::format("it has {:.0f} MiB of memory, and had {:.0f} MiB as a rule",
                                mebibytes(static_cast<double>(known.last.bytes)),
                                mebibytes(static_cast<double>(known.base))));
    if (has_peers)
      verdict.add_why(fmt::format("{} others of its kind have {:.0f} MiB more than they had, in the middle",
                                  known.peers, mebibytes(static_cast<double>(known.peers_growth))));
    found.push_back(std::move(verdict));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.factor() > b.factor(); });
  return found;
}

}  // namespace kintsugi::similarity
