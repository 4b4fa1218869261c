/// How fast things go lately, from the counters that processes report: for people who look at the console. Nothing is
/// decided by it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "monitoring/model/snapshot.h"

namespace kintsugi::monitoring {

/// A disk of a process, or the connections of a process to a peer, over the last minute.
struct DeviceTrend {
  double requests_per_second = 0;
  double latency_seconds = 0;  ///< mean latency of a request; 0: there was no request
  double bytes_in_per_second = 0, bytes_out_per_second = 0;
};

/// Bounded: the latest kMostSeries devices, and regions of the first kMostModelled processes. Not thread-safe.
class Trends {
 public:
  static constexpr Duration kStep = std::chrono::seconds(5);  ///< interval of samples
  static constexpr size_t kSamples = 13;                      ///< samples of one device: about a minute
  static constexpr size_t kMostSeries = 8192;
  static constexpr size_t kMostModelled = 64;

  /// To be called once a second; it samples when kStep has passed.
  void look(const model::Snapshot& snapshot);

  /// Null when nothing is known.
  const DeviceTrend* device(uint64_t process, bool peer, const std::string& name) const;

  /// Growth of a process's transitions since half a minute to a minute ago, by (from, to) << 32.
  struct Growth {
    uint64_t count = 0;
    int64_t sum = 0;  ///< sum of times, in the unit of SightEdge
    std::vector<uint64_t> buckets;
  };
  Growth growth(const model::ProcessView& view, const proto::SightEdge& edge) const;
  /// Seconds over which growth() counts for this process.
  double growth_seconds(uint64_t process, TimePoint now) const;

 private:
  using Key = std::tuple<uint64_t, bool, std::string>;
  struct Sample {
    TimePoint at;
    proto::SightDevice counters;
  };
  struct Series {
    std::deque<Sample> samples;
    DeviceTrend trend;
  };
  struct Base {
    TimePoint at{};  ///< 0: start of the process
    std::unordered_map<uint64_t, Growth> edges;
  };
  struct Bases {
    Base older, newer;
  };
  void look_at_devices(const model::Snapshot& snapshot);
  void look_at_edges(const model::Snapshot& snapshot);

  TimePoint last_{}, last_base_{};
  std::map<Key, Series> devices_;
  std::map<uint64_t, Bases> bases_;  ///< key: process id
};

}  // namespace kintsugi::monitoring
