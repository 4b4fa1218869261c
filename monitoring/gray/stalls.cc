#include "monitoring/gray/stalls.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::gray {

void StallWatch::look(const std::vector<Disk>& disks, TimePoint now) {
  std::map<std::pair<uint64_t, std::string>, Known> known;
  std::map<std::string, std::vector<size_t>> times;  // by kind of process: a metaserver's disk has other work
  for (const Disk& disk : disks) {
    const std::pair key{disk.of.process, disk.name};
    const auto before = known_.find(key);
    Known& one = known[key] = before == known_.end() ? Known{} : std::move(before->second);
    one.last = disk;
    one.growth.add(disk.at, disk.stalls);
    times[disk.of.kind].push_back(one.growth.times());
  }
  known_ = std::move(known);
  for (auto& [kind, all] : times)
    std::ranges::sort(all);
  for (auto& [key, one] : known_) {
    const std::vector<size_t>& all = times[one.last.of.kind];
    // One of them may be the disk itself, which is among the most.
    const bool others_do_not =
        all.size() > settings_.least_peers && all[(all.size() - 1) / 2] <= settings_.of_peers;
    const size_t stalled = one.growth.times();
    const bool stalls = stalled >= (one.stalls ? 1 : settings_.times) && others_do_not;
    if (stalls && !one.stalls) one.since = now;
    one.stalls = stalls;
  }
}

std::vector<proto::Verdict> StallWatch::alarms(TimePoint now) const {
  std::vector<proto::Verdict> found;
  for (const auto& [key, one] : known_) {
    if (!one.stalls) continue;
    proto::Verdict verdict = pauses(one.last.of, now - one.since, proto::Verdict::LIKELY);
    verdict.set_device(one.last.name);
    verdict.add_why(
        fmt::format("in the last minute {} stalls: requests to it took half a second or longer, "
                    "while most other disks had none",
                    one.growth.times()));
    found.push_back(std::move(verdict));
  }
  return found;
}

}  // namespace kintsugi::gray
