/// The names in reports: paths of regions and states of tasks are told once, and numbers afterwards.
#pragma once

#include <map>
#include <unordered_set>

#include "common/proto/sight.pb.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::sight {

/// Open regions of which a report speaks, by path.
struct ReportedPlaces {
  std::map<uint64_t, LiveRecord> records;
  std::map<uint64_t, uint64_t> parents;  ///< paths of the regions that they lie on, as far as they are known
};

/// For one thread. The recorder outlives it.
class ReportDictionary {
 public:
  /// `bytes`: of new names in one report; the others come with later ones.
  ReportDictionary(const Recorder& recorder, size_t bytes) : recorder_(recorder), most_bytes_(bytes) {}

  /// Adds names that have not been told, those of `places` first.
  void tell(proto::SightReport& report, const ReportedPlaces& places);
  /// The report, with all its names, has come to where it was sent.
  void delivered();
  /// The receiver of the next report knows no names.
  void forget();

 private:
  void tell_paths(proto::SightReport& report, const ReportedPlaces& places);
  void tell_path(proto::SightReport& report, const PathTotals& path);
  void tell_states(proto::SightReport& report);

  const Recorder& recorder_;
  const size_t most_bytes_;
  size_t bytes_ = 0;  ///< size of the names in the report being made
  std::unordered_set<uint64_t> reported_paths_, pending_paths_;
  uint32_t reported_states_ = 1, pending_states_ = 1;
};

}  // namespace kintsugi::sight
