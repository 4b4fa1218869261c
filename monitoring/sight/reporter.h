/// What a process tells the monitor about the work that is open in it: reads the recorder's tables and writes
/// SightReports. No clock, no network: see observer.h for who sends them.
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

/// The identity of the reporting process.
struct Reporting {
  std::string kind;            ///< metaserver, chunkserver, repair-manager, client, mount, monitor
  std::string name;            ///< name for people; empty: none
  std::string address;         ///< address of its RPC server; empty: it has none
  uint64_t server_id = 0;      ///< only of a chunkserver
  std::string host;            ///< machine; empty: the one on which this process runs
  std::string http_address{};  ///< address of its pages; empty: it has none
};

struct ReporterLimits {
  /// Size of one report. The tasks that have been open for the shortest time are left out of a full one.
  size_t report_bytes = 60 << 10;
  /// Size of the new paths and states in one report; further ones are left for later reports.
  size_t dictionary_bytes = 16 << 10;
  size_t totals_bytes = 12 << 10;  ///< size of the edges and waits in one report
  size_t oldest = 32;  ///< this many of the oldest tasks are always reported if older than `still`
  Duration still = std::chrono::seconds(1);  ///< a task that has not moved for this long is reported
  uint64_t totals_every = 10;                ///< every so many reports contain totals
  size_t samples = 64;
  int asked_calls = 64;  ///< so many calls are looked up for a report
};

/// One thread reports. The recorder outlives it.
class Reporter {
 public:
  Reporter(const Recorder& recorder, Reporting who, ReporterLimits limits = {});

  /// May be called from any thread: names and addresses become known after the start.
  void set_who(Reporting who);
  Reporting who() const;

  /// The next report. It counts as told once delivered() was called with its answer; else the next one tells the same
  /// again.
  proto::SightReport make(TimePoint now, WallTime wall, proto::SightLoop loop = {},
                          proto::SightSystem system = {});
  void delivered(const proto::SightReportAnswer& answer);
  /// The receiver of the next report has seen none before.
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
  /// Which of the calls that the last answer asked for were served.
  void tell_served(proto::SightReport& report, int64_t now) const;
  void fill(proto::SightLive& live, const LiveRecord& record, const TaskRecord& task, uint32_t slot,
            int64_t now) const;

  const Recorder& recorder_;
  const ReporterLimits limits_;
  const TimePoint began_;
  const std::string host_;
  mutable std::mutex mutex_;  ///< guards who_
  Reporting who_;

  uint64_t sequence_ = 0;
  bool all_live_ = true;  ///< the next report contains all open work: the first one, and on request
  std::vector<uint64_t> reported_begun_;  ///< index: role; begun tasks that were told
  std::vector<uint64_t> begun_pending_;   ///< index: role; begun tasks in the report that was made last
  int64_t ended_reported_ = 0, ended_pending_ = 0;
  std::vector<uint64_t> asked_calls_;  ///< spans of calls, as the last answer asked for them
  ReportDictionary dictionary_;
  ReportTotals totals_;
  ReportSamples samples_;
};

}  // namespace kintsugi::sight
