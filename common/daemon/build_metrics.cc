#include "common/daemon/build_metrics.h"

#include "common/base/version.h"

namespace kintsugi::daemon {
namespace {

#ifdef KINTSUGI_FAULT_POINTS
constexpr const char* kFaultPoints = "true";
#else
constexpr const char* kFaultPoints = "false";
#endif
constexpr std::string_view kCommit = KINTSUGI_COMMIT;

/// "clang 19.1.7"
std::string compiler() {
#ifdef __clang__
  const std::string version = __clang_version__;  // its vendor stands behind the number
  return "clang " + version.substr(0, version.find(' '));
#else
  return "gcc " __VERSION__;
#endif
}

}  // namespace

void add_build_metrics(metrics::Metrics& metrics) {
  metrics.info("kintsugi_build_info",
               "What this program was built from; commit is unknown unless the build was given it.", [] {
                 return metrics::Labels{{"version", std::string(program_version())},
                                        {"commit", kCommit.empty() ? "unknown" : std::string(kCommit)},
                                        {"compiler", compiler()},
                                        {"fault_points", kFaultPoints}};
               });
}

}  // namespace kintsugi::daemon
