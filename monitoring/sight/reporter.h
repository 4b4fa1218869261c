/// What a process tells the monitor about the work that is open in it: reads the recorder's tables and writes SightReports.
/// No clock, no network: see observer.h for who sends them.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/sight/recorder.h"

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
  void tell_live(proto::SightReport& report, int64_t now);
  /// Where the loop was last, when it does not come round.
  void tell_last_touched(proto::SightReport& report, int64_t now);
  void tell_ended(proto::SightReport& report, int64_t now);
  void tell_dictionary(proto::SightReport& report);
  void tell_totals(proto::SightReport& report, int64_t now);
  void tell_samples(proto::SightReport& report);
  void fill(proto::SightLive& live, const runtime::LiveRecord& record, const runtime::TaskRecord& task,
            uint32_t slot, int64_t now) const;

  const Recorder& recorder_;
  const uint64_t process_;
  const ReporterLimits limits_;
  const TimePoint began_;
  std::string host_;
  mutable std::mutex mutex_;  ///< guards who_
  Reporting who_;

  uint64_t sequence_ = 0;
  bool all_live_ = true;  ///< asked for, and for the first report
  std::unordered_set<uint64_t> told_paths_, telling_paths_;
  uint32_t told_states_ = 1, telling_states_ = 1;
  struct ToldEdge {
    uint64_t count = 0;
    int64_t sum_q8 = 0;
  };
  std::unordered_map<uint32_t, ToldEdge> told_edges_;  ///< by both states: what was told last
  std::vector<uint64_t> told_begun_;                   ///< by role: how many tasks, as it was told last
  std::map<uint64_t, runtime::LiveRecord> places_;     ///< of open regions, by path
  std::map<uint64_t, uint64_t> parents_;               ///< of open regions, by path
  int64_t ended_told_ = 0, ended_telling_ = 0;
  TimePoint sampled_{}, sampling_{};
  std::vector<std::string> samples_of_;
};

/// Counts and the one line of what stands still longest, in at most 256 bytes.
proto::SightSummary summarise(const Recorder& recorder, Duration loop_lag,
                              Duration still = std::chrono::seconds(5));

/// "src/file.cc", "Class::function" of a place in the code, without what surrounds the names.
std::string short_file(const char* file);
std::string short_function(const char* function);

}  // namespace kintsugi::sight
