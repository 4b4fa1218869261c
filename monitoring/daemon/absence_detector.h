/// Parties of the cluster that are known, and of which nothing is heard: the metaserver, and the chunkservers that it knows. Nobody has to
/// wait for them, and they need not have reported to this monitor before: it may have been started later than they died.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "monitoring/daemon/detector.h"

namespace kintsugi::monitoring {

class AbsenceDetector final : public Detector {
 public:
  /// A process that has not reported for so long counts as silent. It reports every second.
  static constexpr Duration kSilence = std::chrono::seconds(3);
  /// The metaserver is asked every second, and has a second for its answer.
  static constexpr Duration kUnanswered = std::chrono::seconds(4);
  /// The metaserver has to be found absent for so long, a server for kSilence.
  static constexpr Duration kLasts = std::chrono::seconds(1);

  std::string_view name() const override { return "absence"; }
  void hear(const std::vector<proto::Verdict>& found, TimePoint now) override;
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;

 private:
  std::optional<proto::Verdict> absent_metaserver(const model::Snapshot& snapshot) const;
  std::optional<proto::Verdict> absent_server(const model::Snapshot& snapshot,
                                              const model::ServerLife& life) const;

  static constexpr uint64_t kMetaserver = 0;  ///< in `since_`: no server has this id

  std::map<uint64_t, TimePoint> since_;     ///< when a party was found absent first, by server id
  std::set<uint64_t> processes_, servers_;  ///< that other detectors call silent in this round
};

}  // namespace kintsugi::monitoring
