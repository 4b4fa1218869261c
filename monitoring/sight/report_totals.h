/// The totals in reports: what was asked of devices and peers, transitions between states, and waits.
#pragma once

#include <unordered_map>

#include "common/proto/sight.pb.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::sight {

/// For one thread. The recorder outlives it.
class ReportTotals {
 public:
  /// `bytes`: of transitions in one report. A request that has been open for `still` is told with what it was sent to.
  ReportTotals(const Recorder& recorder, size_t bytes, Duration still)
      : recorder_(recorder), most_bytes_(bytes), still_(still) {}

  /// `all`: beside devices, peers, transitions and waits.
  void tell(proto::SightReport& report, int64_t now, bool all);
  /// The receiver of the next report knows no totals.
  void forget() { reported_edges_.clear(); }

 private:
  void tell_targets(proto::SightReport& report, int64_t now, bool all) const;
  void tell_edges(proto::SightReport& report);
  void tell_waits(proto::SightReport& report) const;

  const Recorder& recorder_;
  const size_t most_bytes_;
  const Duration still_;
  struct ReportedEdge {
    uint64_t count = 0;
    int64_t sum_q8 = 0;
  };
  /// Key: both states; the totals that were last reported.
  std::unordered_map<uint32_t, ReportedEdge> reported_edges_;
};

}  // namespace kintsugi::sight
