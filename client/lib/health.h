/// A client's experience with servers: which ones failed or lagged lately, and how long fetches take.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <google/protobuf/repeated_field.h>

#include "common/base/ids.h"
#include "common/runtime/clock.h"

namespace kintsugi::client {

/// Servers to avoid for a while, because they failed or lagged, and those that the metaserver has everybody go around.
/// It is a hint: when nothing else is left, they are asked anyway.
class ServerHealth {
 public:
  static constexpr Duration kAvoidFor = std::chrono::seconds(5);
  /// How long a server counts as slow after the metaserver last said so.
  static constexpr Duration kSlowFor = std::chrono::seconds(30);
  static constexpr size_t kMaxServers = 4096;

  /// A server that keeps fetches waiting so many times in a row is avoided, and for twice as long when it does so
  /// again. Not for longer: a monitor finds out what a disk is like only while somebody asks it for something.
  static constexpr int kLagsInARow = 3, kMostDoublings = 1;
  /// At most one in so many of the servers that were ever asked is avoided for that: when more are slow, it is not
  /// they.
  static constexpr size_t kLaggingOneOf = 5;

  explicit ServerHealth(runtime::Clock& clock) : clock_(clock) {}

  /// The server is avoided from now on for kAvoidFor.
  void failed(ServerId server) { avoid_for(server, kAvoidFor); }
  /// A fetch from the server took longer than they usually do, or was not waited for any longer; or it took no longer.
  void lagged(ServerId server);
  void answered(ServerId server);
  bool avoid(ServerId server) const;
  /// All servers that the metaserver finds slow now, in place of those before.
  void told_slow(const google::protobuf::RepeatedField<uint64_t>& servers);
  bool slow(ServerId server) const { return slow_.contains(server) && clock_.now() < slow_until_; }
  /// A read that could do with another chunk should take that: the server fails, lags, or is slow.
  bool go_around(ServerId server) const { return avoid(server) || slow(server); }
  /// The servers to avoid, ordered by id.
  std::vector<ServerId> avoided() const;

 private:
  struct Lags {
    int in_a_row = 0;
    int doublings = 0;
  };
  void avoid_for(ServerId server, Duration duration);

  runtime::Clock& clock_;
  std::map<ServerId, TimePoint> until_;
  std::map<ServerId, Lags> lags_;  ///< key: a server that was asked
  std::set<ServerId> slow_;
  TimePoint slow_until_{};
};

/// Recent durations of fetches, by size: how long one takes as a rule.
class FetchTimes {
 public:
  static constexpr size_t kRemembered = 64;  ///< fetches that are remembered for each size class

  void record(uint64_t bytes, Duration took);
  /// The median of recent ones of this size, which one slow server among many does not move. None while there are fewer
  /// than kFewest.
  std::optional<Duration> usual(uint64_t bytes) const;

  static constexpr size_t kFewest = 8;

 private:
  struct Ring {
    std::vector<Duration> durations;
    size_t next = 0;
    Duration usual{};  ///< usual duration, updated every few fetches
  };
  static size_t size_class(uint64_t bytes);
  std::array<Ring, 3> rings_;
};

/// How many fetches may be hedged early. A hedge costs more fetches, so that a cluster which is slow as a whole would
/// become slower by them: each fetch that begins earns a part of one.
class HedgeBudget {
 public:
  static constexpr double kShare = 0.05;  ///< hedged reads allowed for each fetch
  static constexpr double kMost = 8;      ///< hedged reads that can be saved up

  void earn() { hedges_ = std::min(kMost, hedges_ + kShare); }
  /// False: there is none left.
  bool take() {
    if (hedges_ < 1) return false;
    hedges_ -= 1;
    return true;
  }

 private:
  double hedges_ = kMost;
};

/// How long servers keep writers waiting, and the silence after which one counts as stopped.
class WriteWaits {
 public:
  static constexpr Duration kShortestSilence = std::chrono::milliseconds(700);
  static constexpr Duration kShortestOfSuspect = std::chrono::milliseconds(100);
  /// A server may take so many times as long as the longest recent wait.
  static constexpr int kFactor = 4;

  /// The longest wait of a stripe that was written. It fades over the stripes that follow.
  void record(Duration longest) { longest_ = std::max(longest, longest_ - longest_ / 16); }
  Duration silence(Duration longest_of_stripe) const {
    return std::max(kShortestSilence, kFactor * std::max(longest_, longest_of_stripe));
  }
  /// The limit for a server that another operation has given up just now: twice the longest wait of late.
  Duration silence_of_suspect(Duration longest_of_stripe) const {
    return std::max(kShortestOfSuspect, 2 * std::max(longest_, longest_of_stripe));
  }

 private:
  Duration longest_{};
};

}  // namespace kintsugi::client
