/// Takes reports in, from everybody who has the cluster's secret, and never more than the monitor can hold.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/proto/sight.pb.h"
#include "common/rpc/server.h"
#include "common/runtime/runtime.h"
#include "monitoring/daemon/detector.h"
#include "monitoring/model/snapshot.h"

namespace kintsugi::monitoring {

class ReportIntake {
 public:
  /// What a process may send: so much at once, and so much a second from then on.
  static constexpr double kBurstBytes = 4.0 * (1 << 20), kBytesPerSecond = 64.0 * 1024;
  static constexpr double kBurstReports = 20, kReportsPerSecond = 4;
  /// All of them together.
  static constexpr double kAllBurstBytes = 256.0 * (1 << 20), kAllBytesPerSecond = 16.0 * (1 << 20);
  static constexpr Duration kForgetEnded = std::chrono::seconds(60), kForgetSilent = std::chrono::minutes(10);
  static constexpr uint32_t kIntervalMs = 1000;  ///< interval of reports that processes are asked for

  struct Counters {
    uint64_t accepted = 0, bytes = 0;
    uint64_t refused = 0;   ///< reports that were not valid
    uint64_t repeated = 0;  ///< reports that were repeated or arrived after a newer one
    uint64_t too_many = 0;  ///< reports beyond the quota
  };

  /// `detectors` outlive it: they say what else a process has to report.
  ReportIntake(const runtime::Runtime& runtime, const std::vector<std::unique_ptr<Detector>>& detectors)
      : runtime_(runtime), detectors_(detectors), all_{kAllBurstBytes, runtime.clock.now()} {}
  void register_on(rpc::Server& server);
  /// From now on every process is told to send a share of its traces there; an empty `collector`: none.
  void send_traces_to(std::string collector, double share);

  const model::Processes& processes() const { return processes_; }
  const Counters& counters() const { return counters_; }
  /// Forgets processes that ended or are gone. To be called about once a second.
  void forget();

 private:
  /// Fills at a rate, up to a bound.
  struct Bucket {
    double left = 0;
    TimePoint filled{};
    bool take(double amount, double rate, double most, TimePoint now);
  };
  struct Quota {
    Bucket bytes, reports;
  };

  asio::awaitable<Status> report(Context context, const proto::SightReport& request,
                                 proto::SightReportAnswer& response);
  Status check_quota(uint64_t process, size_t bytes);

  runtime::Runtime runtime_;
  const std::vector<std::unique_ptr<Detector>>& detectors_;
  model::Processes processes_;
  /// Quotas of processes that reported recently; at most as many as there are views.
  std::map<uint64_t, Quota> quotas_;
  Bucket all_;
  Counters counters_;
  std::string trace_collector_;
  double trace_share_ = 0;
};

}  // namespace kintsugi::monitoring
