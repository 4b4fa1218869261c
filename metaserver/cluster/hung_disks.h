/// Disks of one server that hang, and for which of them the wait is over.
///
/// A disk that hangs is to its chunks what silence is to a server's: they are not lost, but whoever waits for ever
/// waits in vain. Once the patience is over, the chunks that lie there count as lost until the disk answers again.
#pragma once

#include <cstdint>
#include <map>

#include "common/proto/meta.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::metaserver {

class HungDisks {
 public:
  /// Takes what a heartbeat says of the server's disks. Returns true when it has changed which of them are given up:
  /// the server's next block report is to be read anew.
  bool told(const proto::HeartbeatRequest& heartbeat, TimePoint now, Duration patience);
  /// Chunks that are reported to be on this disk count as lost.
  bool given_up(uint32_t disk) const;

  /// A disk that hangs again sooner after it answered was never well.
  static constexpr Duration kWellAfter = std::chrono::minutes(1);

 private:
  struct Disk {
    TimePoint since;
    TimePoint last;  ///< when a heartbeat last reported the disk as hung
    bool given_up = false;
  };
  std::map<uint32_t, Disk> hung_;  ///< key: DiskState.disk
};

}  // namespace kintsugi::metaserver
