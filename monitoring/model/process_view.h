/// What the reports of one process say, put together: the newest live records and counters, and the dictionary that
/// earlier reports brought. A report is evidence about its sender only.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::model {

/// Limits on what one process may make the receiver hold. A report that breaks one of those on a report is refused as
/// a whole; what does not fit into the dictionary is dropped and counted.
struct ViewLimits {
  static constexpr size_t kReportBytes = 1 << 20;
  static constexpr int kLive = 16'384;
  static constexpr int kRoles = 1'024;
  static constexpr int kDevices = 4'096;
  static constexpr int kChecks = 64;
  static constexpr int kLinks = 256;
  static constexpr int kServed = 256;
  static constexpr int kOperations = 32;
  static constexpr int kTextBytes = 512;  ///< limit for each name in a report
  static constexpr size_t kPaths = 16'384;
  static constexpr size_t kStates = 16'384;
  static constexpr size_t kEdges = 16'384;
  static constexpr size_t kWaits = 4'096;
};

/// Returns the key of an edge in ProcessView::edges().
inline uint64_t edge_key(const proto::SightEdge& edge) {
  return static_cast<uint64_t>(edge.from()) << 32 | edge.to();
}

/// Not thread-safe.
class ProcessView {
 public:
  /// Takes a report in. `arrived` is on the receiver's clock and never goes back.
  /// kInvalidArgument: garbage, counted in refused(), and nothing else changed; kConflict: of another process, that
  /// is, of one that has been started again in this one's place: the caller begins a new view for it. kAlreadyExists:
  /// a replay, or overtaken by a newer one; nothing changed.
  Status accept(proto::SightReport report, TimePoint arrived);

  bool empty() const { return sequence_ == 0; }
  uint64_t process() const { return last_.process(); }  ///< 0: no report has come yet
  /// The newest report without paths, states, edges and waits, which are held below. Ids in it may be unknown to the
  /// dictionary.
  const proto::SightReport& last() const { return last_; }
  TimePoint first_arrived() const { return first_arrived_; }
  TimePoint arrived() const { return arrived_; }
  /// When the process was started, as it says; in the future of arrived() never.
  TimePoint started() const;
  uint64_t refused() const { return refused_; }
  uint64_t reports() const { return reports_; }
  /// "server 4", or the kind and the host of what has no name.
  std::string display() const;

  /// Null when the id is unknown: reports may be lost, and the dictionary is sent once.
  const proto::SightPath* path(uint64_t path) const;
  const proto::SightState* state(uint32_t state) const;
  /// The names from the outermost region to that of the path, "chunkserver.write_chunk > chunkserver.commit", as far
  /// as the dictionary has them.
  std::string region(uint64_t path) const;
  /// Empty when unknown.
  const std::string& role_name(uint32_t role) const;
  /// Names of all roles that were ever told, by number: a single report tells some of them only.
  const std::unordered_map<uint32_t, std::string>& roles() const { return roles_; }
  /// Tasks that have begun since the process's start, of all roles as each was told last.
  uint64_t tasks_begun() const;
  /// True once a report used an id that the dictionary lacks: the answer should ask for the dictionary again.
  bool lacks_dictionary() const { return lacks_dictionary_; }

  const std::unordered_map<uint64_t, proto::SightPath>& paths() const { return paths_; }
  const std::unordered_map<uint32_t, proto::SightState>& states() const { return states_; }
  /// Totals since the process's start, by (from, to) << 32.
  const std::unordered_map<uint64_t, proto::SightEdge>& edges() const { return edges_; }
  const std::vector<proto::SightWaitTotal>& waits() const { return waits_; }

  /// Everything as one report whose acceptance by an empty view gives an equal one.
  proto::SightReport to_report() const;

 private:
  friend class Processes;
  void merge_dictionary(const proto::SightReport& report);
  void merge_totals(const proto::SightReport& report);
  bool knows_all_ids(const proto::SightReport& report) const;

  proto::SightReport last_;
  uint64_t sequence_ = 0, refused_ = 0, reports_ = 0;
  TimePoint first_arrived_{}, arrived_{};
  bool lacks_dictionary_ = false;
  std::unordered_map<uint64_t, proto::SightPath> paths_;
  std::unordered_map<uint32_t, proto::SightState> states_;
  std::unordered_map<uint32_t, std::string> roles_;
  std::unordered_map<uint32_t, uint64_t> begun_;  ///< key: role number
  std::unordered_map<uint64_t, proto::SightEdge> edges_;
  std::vector<proto::SightWaitTotal> waits_;
};

/// kInvalidArgument, with the reason, when a report breaks a limit or cannot be true.
Status check_report(const proto::SightReport& report);

}  // namespace kintsugi::model
