/// A trace holds what a sampler recorded: the metrics of some processes, row by row, and what they did in which regions of code.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::metric_trace {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// A trace holds at most so much; a larger one is refused.
inline constexpr size_t kMostSources = 1024;
inline constexpr size_t kMostMetrics = 20'000;
inline constexpr size_t kMostRegions = 20'000;
inline constexpr size_t kLongestName = 1024;

/// Name of the metric whose value is the memory of a process, in bytes.
inline constexpr const char* kMemoryColumn = "rss";

enum class Kind : uint8_t {
  kCounter,  ///< only grows while its process lives: analyses look at its rate
  kGauge,
};

/// A process that was sampled.
struct Source {
  std::string name;      ///< for instance "chunkserver-3"
  std::string build_id;  ///< build id of the program, when the trace began
  /// Random number that the process which ran when the trace began drew at its start; 0: not known.
  uint64_t process = 0;

  bool operator==(const Source&) const = default;
};

struct Metric {
  std::string name;
  Kind kind = Kind::kGauge;
  uint32_t source = 0;      ///< index into Header::sources
  double limit = kMissing;  ///< value at which the resource is used up; kMissing: none is known
};

struct Region {
  std::string name;  ///< name with dots between its parts, for instance "chunkserver.commit"
  uint32_t source = 0;

  bool operator==(const Region&) const = default;
};

struct Header {
  std::vector<Source> sources;
  std::vector<Metric> metrics;
  std::vector<Region> regions;
  std::chrono::nanoseconds period{std::chrono::seconds(1)};  ///< time between two rows
  std::string host;
  std::string workload;  ///< whatever the recorder wants to tell the reader of the load
};

struct RegionActivity {
  uint32_t region = 0;  ///< index into Header::regions
  float open = 0;       ///< executions that were in the region when the row was taken
  float ended =
      0;  ///< executions that ended since the last row that knows; 0 where older samplers did not say

  bool operator==(const RegionActivity&) const = default;
};

/// A source is another process than in the row before.
struct Restart {
  uint32_t source = 0;
  std::string build_id;
  uint64_t process = 0;  ///< as in Source

  bool operator==(const Restart&) const = default;
};

struct Row {
  int64_t t_ns = 0;            ///< wall time
  std::vector<double> values;  ///< one for each metric, in their order; kMissing where there was no answer
  std::vector<RegionActivity> activity;  ///< regions that are not listed: none was open, and none ended
  std::vector<Restart> restarts;
};

struct Trace {
  Header header;
  /// In the order in which they were taken; the clock may have stepped back between two.
  std::vector<Row> rows;
};

/// kInvalidArgument: above a limit, an index out of range, no metric, or a period that is not positive.
Status check(const Header& header);
Status check(const Header& header, const Row& row);

/// The index of the source of that name. kNotFound names those that there are.
Result<uint32_t> find_source(const Header& header, std::string_view name);

/// The parts, one after the other, as one trace. Metrics, regions and sources are matched by name; what a part does not
/// have is missing in its rows, and a source that has another build in a later part has restarted there.
/// REQUIRES: not empty; all headers pass check() and have the same period (the first one's counts).
Trace joined(std::vector<Trace> parts);

}  // namespace kintsugi::metric_trace
