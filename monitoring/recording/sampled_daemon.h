/// One process that is sampled: what /proc says of it, and what its own page says.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "monitoring/metrics/trace/trace.h"
#include "monitoring/recording/sample_page.h"
#include "monitoring/sampling/process_sampler.h"

namespace kintsugi::recording {

/// What is to be sampled.
struct Target {
  std::string name;      ///< name for people; a process that takes the place of another has the same
  uint64_t process = 0;  ///< random number of the process, drawn at each start
  std::string build_id;
  uint32_t pid = 0;       ///< process id in the process's own pid namespace
  bool is_local = false;  ///< whether that namespace is this process's, too, so that /proc has it
  std::optional<runtime::Endpoint> page;  ///< address of the process's pages; none: none can be reached

  bool operator==(const Target&) const = default;
};

/// Its values have columns in rows of a trace, from the time on at which describe() was last called. On one thread.
class SampledDaemon {
 public:
  /// Limits are read again after so many samples.
  static constexpr size_t kLimitEvery = 100;
  /// A page that did not answer is left alone for so long.
  static constexpr Duration kPageAgain = std::chrono::seconds(2);

  SampledDaemon(const runtime::Runtime& runtime, Target target);

  const Target& target() const { return target_; }
  /// The same daemon as another process, or at another address.
  void change(Target target);

  /// Reads /proc; the answer is for the next fill().
  void sample_process();
  /// Reads the page until the deadline at the latest; the answer is for the next fill(). Never fails.
  asio::awaitable<void> sample_page(TimePoint deadline);

  /// There are metrics or regions that have no column.
  bool has_more() const { return has_more_; }
  /// Adds itself as a source with all that is known of it by now, as far as the limits of a trace allow.
  void describe(metric_trace::Header& header);
  /// Puts what was sampled last into its columns: each sample is used once. What is missing is left as it is.
  void fill(metric_trace::Row& row);

 private:
  struct Page {
    Page(const runtime::Runtime& runtime, runtime::Endpoint at, uint32_t pid)
        : reader(runtime, std::move(at), pid) {}
    SamplePage reader;
    PageNames placed;                            ///< names for which `columns` was made
    std::vector<std::optional<size_t>> columns;  ///< index: metric of the page; none: it has no column
    bool counted = false;                        ///< a row has said how many executions ended before
  };
  /// What the process may use at most of its resources; kMissing: not known.
  struct Limits {
    double descriptors = metric_trace::kMissing, memory = metric_trace::kMissing;
    double of(std::string_view metric) const;
  };
  /// Somebody may raise or lower them while the process runs (prlimit).
  void look_at_limits();
  void place_metrics();
  void note_regions();
  void fill_regions(std::vector<metric_trace::RegionActivity>& activity);

  runtime::Runtime runtime_;
  Target target_;
  std::optional<sampling::ProcessSampler> process_;
  std::vector<double> process_row_;
  Limits limits_;
  size_t samples_until_limit_ = kLimitEvery;
  bool process_answered_ = false, page_answered_ = false;
  std::unique_ptr<Page> page_;
  TimePoint page_again_{};
  bool has_more_ = true;

  // The layout of rows.
  std::optional<uint32_t> source_;        ///< index of the daemon as a source; none: not described yet
  size_t first_ = 0;                      ///< column of the daemon's first metric
  size_t process_columns_ = 0;            ///< number of columns from /proc, which come first
  std::map<std::string, size_t> column_;  ///< key: name of a metric of the page
  struct RegionState {
    std::optional<uint32_t> place;  ///< none: it has no place yet
    std::optional<double>
        ended;  ///< count of the process's executions at the last sample; none: none was known
  };
  std::map<std::string, RegionState> region_;  ///< key: name of a region
};

}  // namespace kintsugi::recording
