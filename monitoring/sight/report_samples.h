/// Single executions in reports, of the regions that the monitor asked for.
#pragma once

#include <string>
#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::sight {

/// For one thread. The recorder outlives it.
class ReportSamples {
 public:
  ReportSamples(const Recorder& recorder, size_t most) : recorder_(recorder), most_(most) {}

  /// Adds the newest executions that ended after the last one that was told.
  void tell(proto::SightReport& report);
  /// The report has come to where it was sent, and the answer says which regions are asked for now.
  void delivered(const proto::SightReportAnswer& answer);

 private:
  const Recorder& recorder_;
  const size_t most_;
  TimePoint sampled_{}, sampling_{};
  std::vector<std::string> samples_of_;
};

}  // namespace kintsugi::sight
