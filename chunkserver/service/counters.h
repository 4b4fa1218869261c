/// Counters of a chunkserver's calls, and of the bytes that they move.
#pragma once

#include "chunkserver/service/traffic.h"
#include "common/base/status.h"

namespace kintsugi::chunkserver {

struct ServiceCounters {
  uint64_t bytes_read = 0;                                        ///< chunk bytes sent to readers
  uint64_t bytes_written = 0;                                     ///< chunk bytes received from writers
  uint64_t user_bytes = 0;                                        ///< both of these, without background reads
  uint64_t probe_bytes = 0;                                       ///< bytes sent and received by link probes
  uint64_t reads = 0, writes = 0, partial_sums = 0, repairs = 0;  ///< calls that began
  uint64_t verifications = 0;                                     ///< calls that began, too
  uint64_t chunks_verified = 0, bytes_verified = 0;  ///< chunks and bytes that verifications have read
  uint64_t failures = 0;                             ///< calls that ended with an error
  uint32_t repairs_running = 0;                      ///< partial sums and repairs that run now
  uint32_t verifications_running = 0;                ///< calls that run now
  uint32_t users_served = 0;  ///< reads, degraded ones too, and writes of users that run now
  RecentRate user_rate;       ///< what users_rate() judges

  /// The rate of user_bytes, in bytes a second; 0 when it is only the memory of users that have gone.
  double users_rate(TimePoint now) const {
    constexpr double kNoUsers = 10'000;
    const double rate = user_rate.per_second(now);
    return rate < kNoUsers ? 0 : rate;
  }
  void add_user_bytes(uint64_t bytes, TimePoint now) {
    user_bytes += bytes;
    user_rate.add(bytes, now);
  }
};

/// Counts one call: that it began, that it runs, and that it failed.
class CountedCall {
 public:
  /// Either count may be null. The counters outlive the call.
  CountedCall(ServiceCounters& counters, uint64_t* begun, uint32_t* running)
      : counters_(counters), running_(running) {
    if (begun != nullptr) ++*begun;
    if (running_ != nullptr) ++*running_;
  }
  ~CountedCall() {
    if (running_ != nullptr) --*running_;
  }
  CountedCall(const CountedCall&) = delete;

  /// Hands the outcome through.
  Status finish(Status outcome) {
    if (!outcome.ok()) ++counters_.failures;
    return outcome;
  }

 private:
  ServiceCounters& counters_;
  uint32_t* const running_;
};

}  // namespace kintsugi::chunkserver
