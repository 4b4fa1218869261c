/// Where the cluster's monitor is.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/runtime/clock.h"

namespace kintsugi::metaserver {

/// Knows one monitor at a time: the one that was started last and still says that it lives. In memory only, because a monitor
/// says so every second: after a restart of the metaserver it is known again at once.
class MonitorLease {
 public:
  struct Monitor {
    uint64_t id = 0;  ///< random at each start
    std::string address, http_address;
  };
  static constexpr Duration kLease =
      std::chrono::seconds(5);                ///< for so long a word of the monitor is believed
  static constexpr size_t kMaxReplaced = 64;  ///< replaced monitors that are remembered

  explicit MonitorLease(const runtime::Clock& clock) : clock_(clock) {}

  /// The monitor lives. One that was not seen before takes the place of any other. kConflict: a newer one lives.
  Status renew(Monitor monitor);
  void leave(uint64_t id);
  /// The monitor whose lease has not ended.
  std::optional<Monitor> find() const;

 private:
  const runtime::Clock& clock_;
  Monitor monitor_;
  std::optional<TimePoint> lease_end_;  ///< none: there was never a monitor, or it left
  std::deque<uint64_t> replaced_;       ///< ids of former monitors, the latest last
};

}  // namespace kintsugi::metaserver
