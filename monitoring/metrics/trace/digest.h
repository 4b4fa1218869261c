/// Metrics of a long time as few points, for people and plots. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "monitoring/metrics/trace/trace.h"

namespace kintsugi::metric_trace {

/// What is known of a metric in one step of time.
struct Bin {
  double least = 0, most = 0, sum = 0;
  uint64_t rows = 0;  ///< number of rows of which the others were made; never 0

  double mean() const { return sum / static_cast<double>(rows); }
};

struct DigestRequest {
  std::string source;  ///< empty: every source that has such a metric
  /// Names as Header::metrics or open_metric() have them.
  std::vector<std::string> metrics;
  int64_t since_ns = 0, until_ns = 0;  ///< wall time; rows from `since_ns` to before `until_ns` count
  int64_t step_ns = 0;                 ///< longer than 0
  bool sums = false;                   ///< one series for each metric: in each row the sum over its sources
};

/// One metric of one source, or its sum over all sources; `source` is empty then.
struct DigestedSeries {
  std::string source, metric;
  Kind kind = Kind::kGauge;
  double limit = kMissing;
  /// Key: number of the step since `since_ns`; steps without a value are not there.
  std::map<int64_t, Bin> bins;
};

/// The name under which the executions of a region that are open can be asked for, as if they were a gauge.
std::string open_metric(std::string_view region);

/// Fed with the parts of a trace in their order. A counter's values are its increase a second, which is not known across
/// a restart, a decrease, a clock that steps back, and a gap above kLongestGap rows.
class Digest {
 public:
  /// Further series of one request are left out.
  static constexpr size_t kMostSeries = 100;

  /// REQUIRES: request.step_ns > 0.
  explicit Digest(DigestRequest request) : request_(std::move(request)) {}

  void add(const Trace& part);

  const std::vector<DigestedSeries>& series() const { return series_; }
  /// When sources of the request were other processes than before, by source.
  const std::vector<std::pair<std::string, int64_t>>& restarts() const { return restarts_; }

 private:
  struct Column {
    size_t series = 0;  ///< index into series_
    size_t last = 0;    ///< index into last_
    uint32_t source = 0;
    size_t at = 0;  ///< index into Row::values, or the region's into Header::regions
    /// For a region the index of a value that is missing when the regions are. None: it is no region.
    std::optional<size_t> witness;
  };
  struct Last {
    double value = kMissing;
    int64_t t_ns = 0;
  };

  std::vector<Column> columns_of(const Header& header);
  bool wants(std::string_view source, std::string_view metric) const;
  void add_column(std::vector<Column>& columns, const Header& header, const Metric& metric, Column column);
  void add_row(const Header& header, const std::vector<Column>& columns, const Row& row);
  /// What `value` says of the time of its row: itself, or the rate of a counter. None: nothing.
  std::optional<double> told(const Column& column, double value, int64_t t_ns, int64_t longest_gap_ns);
  void add_value(DigestedSeries& series, double value, int64_t t_ns);

  const DigestRequest request_;
  std::vector<DigestedSeries> series_;
  std::vector<Last> last_;  ///< the latest value of each counter of each source
  /// Keys: source (empty in sums) and metric; values: indexes into series_ and last_.
  std::map<std::pair<std::string, std::string>, size_t> known_, known_last_;
  std::vector<std::pair<std::string, int64_t>> restarts_;
};

}  // namespace kintsugi::metric_trace
