/// Disks that stop responding for half a second or longer, again and again, while their average stays like that of the
/// others: each server counts such requests itself. Stalls of several servers of one machine at the same time are
/// those of a disk that they share, or of what it hangs on, if there are more of them than would coincide by chance: no
/// server is accused of them, but the machine, if disks of other machines do not stall. Not thread-safe.
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
  /// Stalls of servers of one machine are one if they are told within this time of each other: requests that waited
  /// together end within a second, and reports come each second.
  Duration together = std::chrono::seconds(2);
  /// When so many stalls would come together by chance more often than this, they do not count as shared.
  double by_chance = 0.1;
};

struct Disk {
  Party of;
  std::string name;
  std::string machine;  ///< machine that all who run on it report alike; empty: not known
  std::string host;     ///< name of the machine for people
  uint64_t stalls = 0;  ///< total of the process
  /// Its process has hardly run since its last report but one: what it tells anew says nothing of the disk.
  bool lacks_processor = false;
  TimePoint at{};  ///< time of the report
};

class StallWatch {
 public:
  explicit StallWatch(StallSettings settings = {}) : settings_(settings) {}

  /// The disks of all processes that report, once a second.
  void look(const std::vector<Disk>& disks, TimePoint now);
  /// One PAUSES verdict with `device` for each disk, or with a region for each machine: then `server` is the machine.
  std::vector<proto::Verdict> alarms(TimePoint now) const;

 private:
  struct Alarm {
    size_t times = 0;  ///< stalls within the window
    bool stands = false;
    TimePoint since{};
  };
  struct Known {
    Disk last;
    uint64_t not_its = 0;  ///< stalls while its process hardly ran
    RecentGrowth growth;
    /// Stalls that came together with some of another server of the machine, and not by chance.
    size_t shared = 0;
    Alarm own;  ///< the other stalls of the server
  };
  using Key = std::pair<uint64_t, std::string>;  ///< process, name of the disk

  struct Machine {
    Disk disk;  ///< the one of its disks that has most stalls in common with others
    Alarm alarm;
  };
  void take(const std::vector<Disk>& disks);
  struct Moment {
    uint64_t process = 0;
    TimePoint at{};
  };
  /// Sets `shared` and the times of `own`.
  void tell_apart(TimePoint now);
  /// Does so for one of them, on whose machine these stalls were.
  void tell_apart(Known& one, uint64_t process, const std::vector<Moment>& stalls, TimePoint now) const;
  /// How often so many or more of its stalls would come together with those of others that stall whenever they like.
  double chance(const Known& one, uint64_t process, const std::vector<Moment>& stalls) const;
  void judge_machines(TimePoint now);
  /// Half of the disks of so many do not stall. Disks of other kinds of processes have other work.
  bool most_do_not(const std::string& kind, size_t least, const std::string& but_machine) const;
  void judge(Alarm& alarm, bool others_do_not, TimePoint now) const;

  StallSettings settings_;
  std::map<Key, Known> known_;
  std::map<std::string, Machine> machines_;  ///< machines whose servers had stalls together
};

}  // namespace kintsugi::gray
