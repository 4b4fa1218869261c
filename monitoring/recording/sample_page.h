/// The page /debug/sample of one process, read again and again: its counters, gauges and regions, for little.
///
/// ```
/// /debug/sample/names     # pid 4711                 by the process's own pid namespace
///                         c kintsugi_a_total{x="1"}  a counter
///                         g kintsugi_b               a gauge
/// /debug/sample           17 0.5                     values in that order
///                         chunkserver.write=2        open regions and how many executions are in each (may be missing)
///                         chunkserver.write=17       how many executions of each region have ended (may be missing)
/// ```
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/http/kept_connection.h"
#include "common/runtime/runtime.h"
#include "monitoring/metrics/trace/trace.h"

namespace kintsugi::recording {

struct PageNames {
  struct Metric {
    std::string name;
    metric_trace::Kind kind = metric_trace::Kind::kGauge;
    bool operator==(const Metric&) const = default;
  };
  uint32_t pid = 0;  ///< 0: the page does not say
  std::vector<Metric> metrics;

  bool operator==(const PageNames&) const = default;
};
struct PageValues {
  std::vector<double> values;
  using Counts = std::vector<std::pair<std::string, double>>;  ///< names of regions and numbers of executions
  Counts open;
  Counts ended;  ///< since the process began
};

/// kCorrupt: what is there is no such page.
Result<PageNames> parse_names(std::string_view text);
Result<PageValues> parse_values(std::string_view text);

/// Keeps its connection. One reader at a time.
class SamplePage {
 public:
  /// A page with more metrics is refused, and further regions are left out.
  static constexpr size_t kMostMetrics = 5000, kMostRegions = 500;

  /// `pid`: of the process whose page this is to be; another one at the address is refused.
  SamplePage(const runtime::Runtime& runtime, runtime::Endpoint at, uint32_t pid)
      : runtime_(runtime), connection_(runtime, std::move(at)), pid_(pid) {}

  /// Reads the names when they are not known, and the values. kConflict: the page of another process. Others: those of
  /// KeptConnection::get.
  asio::awaitable<Status> read(TimePoint deadline);

  /// Empty until read() was ok once.
  const PageNames& names() const { return names_; }
  /// The values of the last read() that was ok: as many as there are names.
  const PageValues& values() const { return values_; }

 private:
  asio::awaitable<Status> ask(TimePoint deadline);

  runtime::Runtime runtime_;
  http::KeptConnection connection_;
  const uint32_t pid_;
  PageNames names_;
  PageValues values_;
};

}  // namespace kintsugi::recording
