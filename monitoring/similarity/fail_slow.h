/// Disks and links that have become slower than their peers: compared with what they were themselves, and with what
/// the others of their kind do at the same time. Not thread-safe; time is a parameter.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::similarity {

struct FailSlowSettings {
  Duration window = std::chrono::seconds(5);  ///< counters are compared over at least this time
  uint64_t least_requests = 5;                ///< requests in a window; with fewer nothing is concluded
  size_t least_peers = 3;                     ///< other devices of the kind that must be busy in the window
  double raise_factor = 2;                    ///< slow: this factor slower than before, relative to the peers
  double clear_factor = 1.5;
  double deviations = 4;  ///< slow: also this many robust deviations of the peers' changes
  /// An alarm needs raise_windows slow ones among the last of_windows: hiccups pass.
  size_t raise_windows = 7, of_windows = 9;
  double much = 2;           ///< a window slower by this further factor counts twice
  size_t clear_windows = 4;  ///< successive windows without slowness that end an alarm
  /// An alarm of which nothing was heard for so long, because others go around the device, is taken back: it may be
  /// well by now.
  Duration doubt_after = std::chrono::minutes(3);
  /// Each time that a device is found slow again, taking the alarm back takes twice as long, so many times. A disk
  /// that is slow only under load looks well as soon as it has none.
  size_t most_doublings = 5;
  /// After this time without an alarm the device counts as never found slow.
  Duration calm_after = std::chrono::hours(6);
  size_t learn_windows = 6;       ///< windows needed before a device is judged
  size_t remember_windows = 120;  ///< windows that define the usual speed of a device
  size_t most_devices = 65'536;
  Duration forget_after = std::chrono::minutes(10);
};

/// A process's view of a device: a disk of its own, or the link to another process.
struct DeviceOwner {
  std::string name;  ///< name for people
  uint64_t server_id = 0, process = 0;
  std::string process_kind;
};

class FailSlow {
 public:
  explicit FailSlow(FailSlowSettings settings = {}) : settings_(settings) {}

  /// Takes the counters of one process in, totals since its start. Counters that fall are those of a new process.
  void add(const DeviceOwner& owner, std::span<const proto::SightDevice* const> devices, TimePoint now);
  /// The same of devices whose times say nothing now, because who asks them or answers for them has no processor:
  /// windows begin anew.
  void skip(const DeviceOwner& owner, std::span<const proto::SightDevice* const> devices, TimePoint now);
  /// Judges what has a whole window by now. Call it about every second.
  void step(TimePoint now);
  /// Alarms that stand: DEVICE for a disk, LINK for a link, SLOW for a server to which most links are slow (with its
  /// address as the peer, and no server), or all of whose own links are, while others' links to the same peer are well.
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
    std::optional<Counters> begin;  ///< counters at the start of the current window
    Counters last;
    /// Windows without an alarm, each minus what had changed for all devices by then.
    std::deque<Pace> normal;
    Pace usual;               ///< medians of `normal`
    std::deque<size_t> slow;  ///< the latest windows; 0: not slow, 1: slow, 2: much slower
    size_t well = 0;          ///< successive windows without slowness
    std::optional<TimePoint> since;
    TimePoint first_slow{}, judged{};
    size_t doublings = 0;              ///< how often the time until an alarm is withdrawn has been doubled
    std::optional<TimePoint> cleared;  ///< end of the last alarm
    double factor = 1, service_ns = 0, peers_ns = 0, requests = 0;
  };
  using Key = std::tuple<uint64_t, bool, std::string>;  // server or process, is a peer, name
  using Kind = std::pair<std::string, bool>;            // kind of process, is a peer
  struct Windowed {
    Device* device;
    Pace pace;
  };
  struct Links {
    size_t slow = 0, known = 0;  ///< links that are slow, and links known for long enough to be judged
  };
  struct LinksByEnd {
    std::map<std::string, Links> into;  ///< key: address of who is called
    std::map<uint64_t, Links> out_of;   ///< key: process of the caller
  };
  void take(const DeviceOwner& owner, std::span<const proto::SightDevice* const> devices, TimePoint now,
            bool skipped);
  void judge(std::vector<Windowed>& kind, TimePoint now);
  void learn(Device& device, const Pace& pace);
  void raise(Device& device, TimePoint now);
  void clear(Device& device, TimePoint now);
  proto::Verdict verdict(const Device& device, TimePoint now) const;
  LinksByEnd links_by_end() const;
  /// The verdict on the server at the address. `known`: links into it that are known for long enough to be judged.
  proto::Verdict verdict_of_server(const std::string& address, const std::vector<const Device*>& links,
                                   size_t known, TimePoint now) const;

  FailSlowSettings settings_;
  std::map<Key, Device> devices_;
  std::optional<TimePoint> judged_at_;
};

}  // namespace kintsugi::similarity
