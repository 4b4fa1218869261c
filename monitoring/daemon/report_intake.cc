#include "monitoring/daemon/report_intake.h"

#include <algorithm>

namespace kintsugi::monitoring {

void ReportIntake::register_on(rpc::Server& server) {
  server.handle<&ReportIntake::report>(rpc::Method::kSightReport, *this);
}

void ReportIntake::send_traces_to(std::string collector, double share) {
  trace_collector_ = std::move(collector);
  trace_share_ = share;
}

bool ReportIntake::Bucket::take(double amount, double rate, double most, TimePoint now) {
  left = std::min(most, left + rate * to_seconds(now - filled));
  filled = now;
  if (left < amount) return false;
  left -= amount;
  return true;
}

Status ReportIntake::check_quota(uint64_t process, size_t bytes) {
  const TimePoint now = runtime_.clock.now();
  auto found = quotas_.find(process);
  if (found == quotas_.end()) {
    if (quotas_.size() >= model::Processes::kMaxProcesses) {
      const auto oldest = std::ranges::min_element(
          quotas_, {}, [](const auto& entry) { return entry.second.reports.filled; });
      quotas_.erase(oldest);
    }
    found = quotas_.emplace(process, Quota{{kBurstBytes, now}, {kBurstReports, now}}).first;
  }
  const auto size = static_cast<double>(bytes);
  if (!found->second.reports.take(1, kReportsPerSecond, kBurstReports, now) ||
      !found->second.bytes.take(size, kBytesPerSecond, kBurstBytes, now))
    return {Code::kLimitExceeded, "this process reports too much"};
  if (!all_.take(size, kAllBytesPerSecond, kAllBurstBytes, now))
    return {Code::kLimitExceeded, "all processes together report too much"};
  return {};
}

asio::awaitable<Status> ReportIntake::report(Context, const proto::SightReport& request,
                                             proto::SightReportAnswer& response) {
  const size_t bytes = request.ByteSizeLong();
  const uint64_t process = request.process();
  if (const Status allowed = check_quota(process, bytes); !allowed.ok()) {
    ++counters_.too_many;
    co_return allowed;
  }
  const TimePoint now = runtime_.clock.now();
  const Status accepted = processes_.accept(request, now);
  if (!accepted.ok()) {
    ++(accepted.code() == Code::kAlreadyExists ? counters_.repeated : counters_.refused);
    co_return accepted;
  }
  ++counters_.accepted;
  counters_.bytes += bytes;
  response.set_interval_ms(kIntervalMs);
  response.set_trace_collector(trace_collector_);
  response.set_trace_share(trace_share_);
  const model::ProcessView* view = processes_.find(process);
  KINTSUGI_ASSERT(view != nullptr);
  response.set_dictionary(view->lacks_dictionary());
  for (const auto& detector : detectors_) {
    detector->report_came(*view, request, now);
    if (detector->wants_everything(process)) response.set_all_live(true);
    for (const uint64_t call : detector->wants_to_know_of(process))
      response.add_calls(call);
    for (std::string& site : detector->wants_samples_of(process))
      response.add_samples_of(std::move(site));
  }
  co_return Status{};
}

void ReportIntake::forget() {
  const TimePoint now = runtime_.clock.now();
  processes_.forget(now, kForgetEnded, kForgetSilent);
  std::erase_if(quotas_,
                [&](const auto& entry) { return now - entry.second.reports.filled > kForgetSilent; });
}

}  // namespace kintsugi::monitoring
