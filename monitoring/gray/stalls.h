/// Disks that stand still for half a second or longer again and again, while their average stays like that of the others:
/// each server counts such requests itself. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "monitoring/gray/party.h"
#include "monitoring/gray/recent_growth.h"

namespace kintsugi::gray {

struct StallSettings {
  size_t times = 4;     ///< stalls within RecentGrowth::kWindow that make an alarm
  size_t of_peers = 0;  ///< ... while half of the other disks stall so often at most: else all are busy
  size_t least_peers = 4;
};

struct Disk {
  Party of;
  std::string name;
  uint64_t stalls = 0;  ///< total of the process
  TimePoint at{};       ///< when this was reported
};

class StallWatch {
 public:
  explicit StallWatch(StallSettings settings = {}) : settings_(settings) {}

  /// The disks of all processes that report, once a second.
  void look(const std::vector<Disk>& disks, TimePoint now);
  /// One PAUSES verdict with `device` a disk.
  std::vector<proto::Verdict> alarms(TimePoint now) const;

 private:
  struct Known {
    Disk last;
    RecentGrowth growth;
    bool stalls = false;
    TimePoint since{};
  };
  StallSettings settings_;
  std::map<std::pair<uint64_t, std::string>, Known> known_;  ///< key: process, name of the disk
};

}  // namespace kintsugi::gray
