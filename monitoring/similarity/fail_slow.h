/// Disks and links that have become slower than their peers: compared with what they were themselves, and with what the others of their kind do at the
/// same time. Not thread-safe; time is a parameter.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::similarity {

struct FailSlowSettings {
  Duration window = std::chrono::seconds(5);  ///< counters are compared over at least so long
  uint64_t least_requests = 5;                ///< in a window; with fewer nothing is concluded
  size_t least_peers = 3;                     ///< others of the kind that were busy in the window
  double raise_factor = 2;                    ///< slower than before, relative to the peers
  double clear_factor = 1.5;
  double deviations = 4;                     ///< and so many robust deviations of the peers' changes
  size_t raise_windows = 7, of_windows = 9;  ///< slow in so many of the last: hiccups come and go
  double much = 2;                           ///< a window that is slower by so many times more counts twice
  size_t clear_windows = 4;                  ///< well in so many successive ones
  /// An alarm of which nothing was heard for so long, because others go around the device, is taken back: it may be well by now.
  Duration doubt_after = std::chrono::minutes(3);
  /// Each time that a device is found slow again, taking the alarm back takes twice as long, so many times. A disk that is slow only
  /// under load looks well as soon as it has none.
  size_t most_doublings = 5;
  Duration calm_after = std::chrono::hours(6);  ///< without an alarm: then it counts as never found slow
  size_t learn_windows = 6;                     ///< before a device is judged
  size_t remember_windows = 120;                ///< that say how fast a device is as a rule
  size_t most_devices = 65'536;
  Duration forget_after = std::chrono::minutes(10);
};

/// A process's view of a device: a disk of its own, or the link to another process.
struct DeviceOwner {
  std::string name;  ///< as people know it
  uint64_t server_id = 0, process = 0;
  std::string process_kind;
};

class FailSlow {
 public:
  explicit FailSlow(FailSlowSettings settings = {}) : settings_(settings) {}

  /// Takes the counters of one process in, totals since its start. Counters that fall are those of a new process.
  void add(const DeviceOwner& owner, std::span<const proto::SightDevice* const> devices, TimePoint now);
  /// The same of devices whose times say nothing now, because who asks them or answers for them has no processor: windows begin anew.
  void skip(const DeviceOwner& owner, std::span<const proto::SightDevice* const> devices, TimePoint now);
  /// Judges what has a whole window by now. Call it about every second.
  void step(TimePoint now);
  /// Alarms that stand: DEVICE for a disk, LINK for a link, SLOW for a server to which most links are slow.
  std::vector<proto::Verdict> alarms(TimePoint now) const;
  size_t devices() const { return devices_.size(); }

 private:
  /// Logarithms to base 2 of a window: time a request, time a byte, requests a second.
  struct Pace {
    double request = 0, byte = 0, rate = 0;
  };
  struct Counters {
    uint64_t completed = 0, bytes = 0, busy_ns = 0;
    TimePoint at{};
  };
  struct Device {
    DeviceOwner owner;
    std::string name;
    bool peer = false;
    std::optional<Counters> begin;  ///< of the window that is open
    Counters last;
    std::deque<Pace> normal;  ///< in windows without an alarm, less what had changed for all by then
    Pace usual;               ///< the medians of those
    std::deque<size_t> slow;  ///< the last windows: 0, or 1, or 2 when it was much slower
    size_t well = 0;          ///< successive windows
    std::optional<TimePoint> since;
    TimePoint first_slow{}, judged{};
    size_t doublings = 0;              ///< of the patience with an alarm
    std::optional<TimePoint> cleared;  ///< the last alarm
    double factor = 1, service_ns = 0, peers_ns = 0, requests = 0;
  };
  using Key = std::tuple<uint64_t, bool, std::string>;  // server or process, peer, name
  using Kind = std::pair<std::string, bool>;            // process kind, peer
  struct Windowed {
    Device* device;
    Pace pace;
  };
  void take(const DeviceOwner& owner, std::span<const proto::SightDevice* const> devices, TimePoint now,
            bool skipped);
  void judge(std::vector<Windowed>& kind, TimePoint now);
  void learn(Device& device, const Pace& pace);
  void raise(Device& device, TimePoint now);
  void clear(Device& device, TimePoint now);
  proto::Verdict verdict(const Device& device, TimePoint now) const;

  FailSlowSettings settings_;
  std::map<Key, Device> devices_;
  std::optional<TimePoint> judged_at_;
};

}  // namespace kintsugi::similarity
