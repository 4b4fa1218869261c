/// The events that repair managers are told, in order.
#pragma once

#include <deque>
#include <functional>

#include "common/proto/coordination.pb.h"

namespace kintsugi::metaserver {

/// Events are numbered from `first` on, which is greater than all numbers of earlier lives of this metaserver. A reader
/// that fell too far behind, or read from an earlier life, gets the order to start over.
class RepairLog {
 public:
  static constexpr size_t kMaxEvents = 65'536;    ///< some MiB of memory
  static constexpr size_t kMaxExamined = 10'000;  ///< events examined for one answer
  static constexpr uint32_t kMaxAnswer = 1000;    ///< events in one answer

  explicit RepairLog(uint64_t first) : first_(first) {}

  void append(proto::RepairEvent event);
  /// Events after number `after` for which `wanted` holds, at most `limit` (0: kMaxAnswer).
  void read(uint64_t after, uint32_t limit, const std::function<bool(const proto::RepairEvent&)>& wanted,
            proto::FetchRepairWorkResponse& answer) const;

 private:
  std::deque<proto::RepairEvent> events_;
  uint64_t first_;  ///< number of events_.front()
};

}  // namespace kintsugi::metaserver
