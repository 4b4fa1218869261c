/// The pages of the cluster's daemons, for commands that look for what is wrong.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/lib/blocking_client.h"
#include "common/base/status.h"
#include "common/runtime/network.h"

namespace kintsugi::cli {

/// A daemon that is asked about itself is waited for so long.
inline constexpr Duration kAnswerLimit = std::chrono::seconds(3);

/// A daemon, and what its pages said.
struct DaemonPages {
  std::string daemon;    ///< "chunkserver"
  std::string instance;  ///< what people call it
  std::string address;   ///< address of its pages
  Status reached{};      ///< why its metrics could not be read
  /// By path, "/metrics"; those that it does not have are missing.
  std::map<std::string, std::string, std::less<>> pages{};
  double clock_ahead = 0;  ///< seconds of its clock beyond this host's
};

/// Daemons with pages, by what the metaserver says at `metaserver` (its page /sd).
Result<std::vector<DaemonPages>> find_daemons(runtime::ProductionRuntime& runtime,
                                              const runtime::Endpoint& metaserver);
/// Reads the pages; a daemon that does not answer is waited for once.
void read_pages(runtime::ProductionRuntime& runtime, DaemonPages& daemon);

/// One value of a page of metrics.
struct Sample {
  std::string name;
  std::map<std::string, std::string, std::less<>> labels;
  double value = 0;
};

/// The values of the metrics with these names. What is no line of a page is left out.
std::vector<Sample> samples(std::string_view page, const std::vector<std::string_view>& names);

}  // namespace kintsugi::cli
