/// Where the cluster's monitor is.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/runtime/clock.h"

namespace kintsugi::metaserver {

/// Knows one monitor at a time: the one that was started last and still says that it lives. In memory only, because a
/// monitor says so every second: after a restart of the metaserver it is known again at once.
class MonitorLease {
 public:
  struct Monitor {
    uint64_t id = 0;  ///< random, chosen at each start of a monitor
    std::string address, http_address;
    uint32_t newest_format = 0;  ///< the newest format that its program says it knows
  };
  /// A monitor counts as running for this long after its last call.
  static constexpr Duration kLease = std::chrono::seconds(5);
  static constexpr size_t kMaxReplaced = 64;  ///< ids of replaced monitors that are remembered

  explicit MonitorLease(const runtime::Clock& clock) : clock_(clock) {}

  /// The monitor lives. One that was not seen before takes the place of any other. kConflict: a newer one lives.
  Status renew(Monitor monitor);
  void leave(uint64_t id);
  /// The monitor whose lease has not ended.
  std::optional<Monitor> find() const;

 private:
  const runtime::Clock& clock_;
  Monitor monitor_;
  std::optional<TimePoint> lease_end_;  ///< none: no monitor has registered, or the last one left
  std::deque<uint64_t> replaced_;       ///< ids of replaced monitors, newest last
};

}  // namespace kintsugi::metaserver
