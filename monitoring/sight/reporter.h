/// What a process tells the monitor about the work that is open in it: reads the recorder's tables and writes SightReports.
/// No clock, no network: see observer.h for who sends them.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/sight/open_tasks.h"
#include "monitoring/sight/recorder.h"
#include "monitoring/sight/report_dictionary.h"
#include "monitoring/sight/report_samples.h"
#include "monitoring/sight/report_totals.h"

namespace kintsugi::sight {

/// Who reports.
struct Reporting {
  std::string kind;        ///< metaserver, chunkserver, repair-manager, client, mount, monitor
  std::string name;        ///< as people know it; empty: none
  std::string address;     ///< where it is called; empty: nowhere
  uint64_t server_id = 0;  ///< of a chunkserver
  std::string host;        ///< its machine; empty: the one that this runs on
};

struct ReporterLimits {
  size_t report_bytes =
      60 << 10;  ///< of one report; then what has been open for the shortest time is left out
  size_t dictionary_bytes =
      16 << 10;                    ///< of new paths and states in one report; the others come with later ones
  size_t totals_bytes = 12 << 10;  ///< of edges and waits in one report
  size_t oldest = 32;              ///< tasks that are always told, if they are older than `still`
  Duration still = std::chrono::seconds(1);  ///< a task that has not moved for so long is told
  uint64_t totals_every = 10;                ///< reports between two that tell totals
  size_t samples = 64;
};

/// One thread reports. The recorder outlives it.
class Reporter {
 public:
  Reporter(const Recorder& recorder, uint64_t process, Reporting who, ReporterLimits limits = {});

  /// May be called from any thread: names and addresses become known after the start.
  void set_who(Reporting who);
  Reporting who() const;

  /// The next report. It counts as told once delivered() was called with its answer; else the next one tells the same again.
  proto::SightReport make(TimePoint now, WallTime wall, proto::SightLoop loop = {},
                          proto::SightSystem system = {});
  void delivered(const proto::SightReportAnswer& answer);
  /// Whoever gets the next report has seen none before.
  void forget();

 private:
  void tell_live(proto::SightReport& report, const std::vector<OpenTask>& tasks, ReportedPlaces& places,
                 int64_t now) const;
  size_t tell_task(proto::SightReport& report, const OpenTask& open, ReportedPlaces& places,
                   int64_t now) const;
  size_t tell_held(proto::SightReport& report, const OpenTask& open, ReportedPlaces& places,
                   int64_t now) const;
  void tell_roles(proto::SightReport& report, const std::vector<OpenTask>& tasks, bool all, int64_t now);
  /// Where the loop was last, when it does not come round.
  void tell_last_touched(proto::SightReport& report, ReportedPlaces& places, int64_t now) const;
  void tell_ended(proto::SightReport& report, int64_t now);
  void fill(proto::SightLive& live, const LiveRecord& record, const TaskRecord& task, uint32_t slot,
            int64_t now) const;

  const Recorder& recorder_;
  const uint64_t process_;
  const ReporterLimits limits_;
  const TimePoint began_;
  const std::string host_;
  mutable std::mutex mutex_;  ///< guards who_
  Reporting who_;

  uint64_t sequence_ = 0;
  bool all_live_ = true;              ///< asked for, and for the first report
  std::vector<uint64_t> told_begun_;  ///< by role: how many tasks, as it was told last
  int64_t ended_told_ = 0, ended_telling_ = 0;
  ReportDictionary dictionary_;
  ReportTotals totals_;
  ReportSamples samples_;
};

}  // namespace kintsugi::sight
