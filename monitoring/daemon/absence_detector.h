/// Parties of the cluster that are known, and of which nothing is heard: the metaserver, the chunkservers that it
/// knows, and a repair manager, which every cluster needs. Nobody has to wait for them, and they need not have
/// reported to this monitor before: it may have been started later than they died.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "monitoring/daemon/detector.h"

namespace kintsugi::monitoring {

class AbsenceDetector final : public Detector {
 public:
  /// A process that has not reported for so long counts as silent. It reports every second.
  static constexpr Duration kSilence = std::chrono::seconds(3);
  /// The metaserver is asked every second, and has a second for its answer.
  static constexpr Duration kUnanswered = std::chrono::seconds(4);
  /// The metaserver has to be found absent for so long, a server or all repair managers for kSilence.
  static constexpr Duration kLasts = std::chrono::seconds(1);

  std::string_view name() const override { return "absence"; }
  void hear(const std::vector<proto::Verdict>& found, TimePoint now) override;
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;

 private:
  std::optional<proto::Verdict> absent_metaserver(const model::Snapshot& snapshot) const;
  std::optional<proto::Verdict> absent_server(const model::Snapshot& snapshot,
                                              const model::ServerLife& life) const;

  std::optional<proto::Verdict> absent_repair_managers(const model::Snapshot& snapshot) const;

  // Keys of `since_` that are no server's id.
  static constexpr uint64_t kMetaserver = 0;
  static constexpr uint64_t kRepairManagers = ~uint64_t{0};

  std::map<uint64_t, TimePoint> since_;     ///< key: server id; when the party was first found absent
  std::set<uint64_t> processes_, servers_;  ///< parties that other detectors call silent in this round
};

}  // namespace kintsugi::monitoring
