/// The server's load as heartbeats tell it: rates since the heartbeat before.
#pragma once

#include <functional>

#include "chunkserver/service/counters.h"
#include "chunkserver/service/link_rates.h"
#include "chunkserver/store/chunk_store.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::chunkserver {

class LoadReport {
 public:
  /// `cpu_seconds` gives what this process used so far; it may be empty. References outlive it.
  LoadReport(const runtime::Clock& clock, const ServiceCounters& counters, const ChunkStore& store,
             const LinkRates& rates, std::function<double()> cpu_seconds);

  void fill(proto::HeartbeatRequest& request);

 private:
  /// Everything since the start.
  struct Totals {
    TimePoint when;
    uint64_t user_bytes = 0;
    uint64_t repair_bytes = 0;
    double cpu_seconds = 0;
    std::vector<Duration> disks_busy;
  };
  Totals totals() const;
  static double busy_share(const Totals& before, const Totals& now, double seconds);

  const runtime::Clock& clock_;
  const ServiceCounters& counters_;
  const ChunkStore& store_;
  const LinkRates& rates_;
  std::function<double()> cpu_seconds_;
  Totals before_;  ///< totals at the previous heartbeat
};

}  // namespace kintsugi::chunkserver
