/// What the analyses of metrics find in two recordings, for people and for programs. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "monitoring/metrics/orion/orion.h"
#include "monitoring/metrics/trace/trace.h"

namespace kintsugi::judging {

struct Report {
  bool odd = false;                ///< something is unlike the healthy time and accused of it, or runs out
  std::vector<std::string> lines;  ///< the findings as text for people
  std::string json;                ///< the same findings, as an array with an object for each
};

/// What a method reads. It keeps references: REQUIRES that they outlive it.
struct Recordings {
  const metric_trace::Trace& healthy;
  const metric_trace::Trace& now;
  std::string healthy_logs, logs;  ///< directories of activity logs, for methods that read them
};

/// `method`: one of methods(). kInvalidArgument: another one, or it lacks logs; kNotFound, kIoError: of the logs.
Result<Report> judge(std::string_view method, const Recordings& recordings);
inline Result<Report> judge(std::string_view method, const metric_trace::Trace& healthy,
                            const metric_trace::Trace& now) {
  return judge(method, Recordings{.healthy = healthy, .now = now, .healthy_logs = {}, .logs = {}});
}
/// The same of what ORION found already.
Report report_of(const orion::Localisation& found);
/// The method asks nothing of a healthy time.
bool needs_no_healthy_time(std::string_view method);
/// The method reads activity logs.
bool reads_logs(std::string_view method);
/// The first is the usual one.
std::vector<std::string_view> methods();

/// The rows of the last `seconds` as a trace of their own; `trace` keeps those before.
metric_trace::Trace split(metric_trace::Trace& trace, double seconds);

}  // namespace kintsugi::judging
