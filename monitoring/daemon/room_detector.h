/// Disks without room for new data, as the metaserver says: those of the servers, and its own. Nobody is stuck then, and
/// yet writes fail.
#pragma once

#include <map>
#include <string>

#include "monitoring/daemon/detector.h"

namespace kintsugi::monitoring {

class RoomDetector final : public Detector {
 public:
  /// Heartbeats of servers that make room at this moment may be on their way.
  static constexpr Duration kLasts = std::chrono::seconds(2);
  /// A metaserver that has not answered for so long is another detector's matter.
  static constexpr Duration kUnanswered = std::chrono::seconds(4);

  std::string_view name() const override { return "room"; }
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;

 private:
  /// Key: Verdict::server; when the room was first found to be missing.
  std::map<std::string, TimePoint> since_;
};

}  // namespace kintsugi::monitoring
