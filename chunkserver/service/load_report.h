/// What a heartbeat says about this server's load: rates since the one before it.
#pragma once

#include <functional>

#include "chunkserver/service/link_probe.h"
#include "chunkserver/service/link_rates.h"
#include "chunkserver/service/service_parts.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::chunkserver {

class LoadReport {
 public:
  /// `cpu_seconds`: that this process used so far; may be empty. References outlive it.
  LoadReport(ServiceParts& parts, const LinkTraffic& traffic, const LinkRates& rates,
             const LinkProber& prober, std::function<double()> cpu_seconds);

  void fill(proto::HeartbeatRequest& request);

 private:
  /// Since the start.
  struct Totals {
    TimePoint when;
    uint64_t user_bytes = 0;
    uint64_t repair_bytes = 0;
    double cpu_seconds = 0;
    std::vector<Duration> disks_busy;
  };
  Totals totals() const;
  static double busy_share(const Totals& before, const Totals& now, double seconds);

  ServiceParts& parts_;
  const LinkTraffic& traffic_;
  const LinkRates& rates_;
  const LinkProber& prober_;
  std::function<double()> cpu_seconds_;
  Totals before_;
};

}  // namespace kintsugi::chunkserver
