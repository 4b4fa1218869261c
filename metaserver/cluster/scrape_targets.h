/// The daemons that Prometheus is to read: what its http_sd_configs fetches at the metaserver's page /sd.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/runtime/clock.h"
#include "common/runtime/network.h"

namespace kintsugi::metaserver {

/// A daemon as it said of itself when it registered.
struct KnownDaemon {
  std::string daemon;        ///< "chunkserver", "repair-manager"
  std::string instance;      ///< what people call it; no two have one
  std::string address;       ///< where its RPCs are
  std::string http_address;  ///< where its pages are; empty: it has none
  std::string rack{};        ///< empty: it has none
  /// The metaserver forgets it as soon as it is silent.
  bool forgotten_when_silent = false;
};

/// A daemon that died has to stay a target, or nobody is told that it does not answer. Servers stay with the metaserver
/// until they are removed. Others are remembered here, from the last page that had them, until kRemembered is over. In
/// memory only: after a restart of the metaserver those that run are known again at once.
class ScrapeTargets {
 public:
  static constexpr Duration kRemembered = std::chrono::hours(24);
  static constexpr size_t kMostRemembered = 100;

  /// `over_tls`: pages at other than loopback addresses are. `clock` outlives it.
  ScrapeTargets(const runtime::Clock& clock, bool over_tls) : clock_(clock), over_tls_(over_tls) {}

  /// The targets as http_sd has them. `known`: all daemons that are known now.
  std::string page(const std::vector<KnownDaemon>& known);

 private:
  struct Remembered {
    KnownDaemon daemon;
    TimePoint last_known;
  };

  void remember(const KnownDaemon& daemon);

  const runtime::Clock& clock_;
  const bool over_tls_;
  std::map<std::string, Remembered> silent_;  ///< daemons that are forgotten when silent, by instance
};

/// Pages that are served on all interfaces are reached where the daemon itself is.
std::string reached(const std::string& http_address, const std::string& address);

}  // namespace kintsugi::metaserver
