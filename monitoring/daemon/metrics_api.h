/// /api/v1/metrics: what is recorded, and metrics over time, as JSON.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/http_server.h"
#include "monitoring/metrics/trace/digest.h"
#include "monitoring/recording/recording.h"

namespace kintsugi::monitoring {

/// What was asked: "server=chunkserver-1&names=rss,fds&since=3600&step=10&sum=yes". Names are separated by commas; those within
/// braces belong to a name.
struct MetricsQuery {
  static constexpr size_t kMostNames = 20;
  static constexpr double kLongest = 400 * 86400.0;
  static constexpr double kMostPoints = 2000;  ///< points of a series at most: steps become longer instead
  static constexpr double kUsualPoints = 300;

  std::string server;              ///< empty: all
  std::vector<std::string> names;  ///< empty: which servers and metrics there are
  double since_s = 3600;           ///< how far back the answer goes
  double step_s = 0;               ///< 0: as long as there are kUsualPoints
  bool sums = false;               ///< one series for each metric, of all servers together

  /// kInvalidArgument: names the parameter.
  static Result<MetricsQuery> parse(std::string_view query);
  /// The seconds between two points, at least those between two rows.
  double step(double period_s) const;
};

struct MetricsSource {
  std::string directory;
  double period_s = 1;
  bool records = true;
  recording::RecordingState state;
};

/// Reads the trace of the directory; that may take seconds. Never fails: what is wrong is in the field "problem". Once
/// `stop` says so it ends soon, with that as the problem.
std::string metrics_document(const MetricsQuery& query, const MetricsSource& source, int64_t now_ns,
                             const std::stop_token& stop = {});

}  // namespace kintsugi::monitoring
