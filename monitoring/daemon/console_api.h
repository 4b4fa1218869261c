/// What the console shows, as JSON documents: the same that a program gets below /api/v1/.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "monitoring/daemon/monitor.h"

namespace kintsugi::monitoring {

/// Each function makes a whole document. Ids of servers are strings of decimal digits, as in the
/// command line tool, those of processes of 16 hexadecimal ones. Times are in seconds, rates in bytes per second.
class ConsoleApi {
 public:
  static constexpr size_t kMostRows = 1000;    ///< rows of one list
  static constexpr size_t kMostHistory = 200;  ///< the most recent alarms
  /// A list of regions is recomputed when it is older than this.
  static constexpr Duration kRegionsFresh = std::chrono::seconds(5);

  /// `monitor` outlives it.
  explicit ConsoleApi(Monitor& monitor) : monitor_(monitor) {}

  /// Whether all data is whole, in a sentence; room, reporting processes, open alarms, whether the metaserver answers.
  std::string overview() const;
  std::string servers() const;    ///< all chunkservers that the metaserver knows, with their health
  std::string processes() const;  ///< all processes that report
  std::string alarms() const;     ///< open and cleared alarms
  std::string repairs() const;    ///< running repairs, with the edges of their trees and the rates on them
  /// Quotas and snapshots. The metaserver is asked for them while somebody asks here: "known" is false until it has
  /// answered.
  std::string names();
  std::string devices() const;  ///< disks and peers, compared with others of their kind
  std::string regions();        ///< regions of code, and how long they take
  /// What was learnt of the times of regions by their inputs (setting `behaviour`), and how much of them it explains.
  std::string models() const;

 private:
  nlohmann::ordered_json parts(const model::Snapshot& snapshot) const;

  Monitor& monitor_;
  std::string regions_;  ///< latest document of regions()
  TimePoint regions_at_{};
};

}  // namespace kintsugi::monitoring
