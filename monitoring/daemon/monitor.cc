#include "monitoring/daemon/monitor.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "common/log/log.h"
#include "common/proto/verdicts.h"
#include "monitoring/daemon/absence_detector.h"
#include "monitoring/daemon/slow_servers.h"
#include "monitoring/progress/evidence/open_tasks.h"
#include "monitoring/progress/slowness/short_machines.h"
#include "tracing/agent/trace_service.h"

namespace kintsugi::monitoring {
namespace {

constexpr Duration kLongAgo = std::chrono::hours(1);
/// Of all lines of processes in an answer, beside Monitor::kMostVerdictBytes.
constexpr size_t kMostProcessBytes = 192 << 10;

std::vector<std::unique_ptr<Detector>> or_default(std::vector<std::unique_ptr<Detector>> detectors,
                                                  const MonitorOptions& options) {
  return detectors.empty() ? make_detectors(options.behaviour, options.foresight) : std::move(detectors);
}

proto::ProcessLine line_of(const model::ProcessView& view, Duration silent) {
  const proto::SightReport& last = view.last();
  proto::ProcessLine line;
  line.set_kind(last.kind());
  line.set_name(view.display());
  line.set_address(last.address());
  line.set_silent_ns(static_cast<uint64_t>(std::max<int64_t>(silent.count(), 0)));
  line.set_live(static_cast<uint32_t>(last.live_size()));
  line.set_loop_lag_ns(last.loop().lag_ns());
  line.set_process(view.process());
  if (last.has_mount()) {
    line.set_mount(last.mount().directory());
    line.set_trace_address(last.mount().trace_address());
    line.set_host(last.host());
    line.set_pid(last.pid());
  }
  return line;
}

/// Mounts come first: where they are asked to trace themselves is told nowhere else.
void add_processes(const model::Snapshot& now, proto::DiagnoseResponse& response) {
  size_t bytes = 0;
  for (const bool mounts : {true, false})
    for (const auto& view : now.processes) {
      if (view->last().has_mount() != mounts) continue;
      proto::ProcessLine line = line_of(*view, now.silent(*view));
      bytes += line.ByteSizeLong();
      if (bytes > kMostProcessBytes || response.processes_size() >= Monitor::kMostProcessLines) return;
      *response.add_processes() = std::move(line);
    }
}

}  // namespace

Monitor::Monitor(const runtime::Runtime& runtime, MonitorOptions options, rpc::Secret secret,
                 std::vector<std::unique_ptr<Detector>> detectors)
    : runtime_(runtime),
      options_(std::move(options)),
      detectors_(or_default(std::move(detectors), options_)),
      id_(runtime.random.next() | 1),
      server_(runtime, secret, options_.recorder),
      client_(runtime, secret),
      intake_(runtime, detectors_),
      watch_(runtime, client_, options_.metaserver, id_),
      history_(runtime, {.directory = options_.data_dir + "/alarms", .most_bytes = options_.history_bytes},
               kMostWaitingRecords),
      snapshots_(runtime,
                 {.directory = options_.data_dir + "/snapshots",
                  .most_bytes = options_.snapshot_bytes,
                  .segment_bytes = std::max<uint64_t>(options_.snapshot_bytes / 16, 1 << 20),
                  .durable = false},
                 kMostWaitingSnapshots),
      tasks_(runtime) {
  intake_.register_on(server_);
  intake_.send_traces_to(options_.trace_collector, options_.trace_share);
  server_.handle<&Monitor::diagnose>(rpc::Method::kDiagnose, *this);
  server_.handle<&Monitor::ping>(rpc::Method::kPing, *this);
  tracing::TraceService::register_on(server_);
}

asio::awaitable<Status> Monitor::start() {
  started_at_ = runtime_.clock.now();
  last_kept_ = last_alarm_ = started_at_ - kLongAgo;
  last_round_at_ = started_at_;
  KINTSUGI_CO_TRY((co_await history_.open([this](std::string_view record) {
                    proto::Verdict verdict;
                    if (verdict.ParseFromArray(record.data(), static_cast<int>(record.size())))
                      alarms_.restore(std::move(verdict));
                  })).with_context("data_dir"));
  KINTSUGI_CO_TRY((co_await snapshots_.open()).with_context("data_dir"));
  KINTSUGI_CO_TRY(server_.start(options_.listen));
  runtime::Endpoint address = endpoint();
  if (!options_.advertise.empty()) address.host = options_.advertise;
  log::info("monitor {} serves at {}, its console at {}", id_, address.to_string(),
            options_.http_address.empty() ? "no address" : options_.http_address);
  watch_.start(address.to_string(), options_.http_address);
  tasks_.spawn(rounds());
  co_return Status{};
}

asio::awaitable<void> Monitor::stop() {
  if (std::exchange(stopped_, true)) co_return;
  co_await watch_.stop();
  co_await tasks_.stop();
  co_await history_.stop();
  co_await snapshots_.stop();
  co_await client_.stop();
  co_await server_.stop();
}

model::Snapshot Monitor::snapshot() const {
  model::Snapshot snapshot = intake_.processes().snapshot(
      runtime_.clock.now(), runtime_.clock.wall_now().time_since_epoch().count(), watch_.lives());
  snapshot.metaserver = {.address = watch_.metaserver().to_string(),
                         .unanswered = watch_.answered_ago().value_or(uptime()),
                         .nobody_repairs = watch_.nobody_repairs(),
                         .servers_room = watch_.space().servers_room(),
                         .metadata_room = watch_.space().metadata_room()};
  return snapshot;
}

asio::awaitable<void> Monitor::rounds() {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(kRound);
    if (!slept) co_return;
    round();
  }
}

std::set<uint64_t> Monitor::heard(const model::Snapshot& snapshot) const {
  std::set<uint64_t> servers;
  for (const auto& view : snapshot.processes)
    if (view->last().server_id() != 0 && !view->last().last() && snapshot.silent(*view) < progress::kSilence)
      servers.insert(view->last().server_id());
  const std::optional<Duration> answered = watch_.answered_ago();
  if (answered && *answered < AbsenceDetector::kUnanswered) servers.insert(0);
  return servers;
}

void Monitor::round() {
  intake_.forget();
  const TimePoint now = runtime_.clock.now();
  if (now - std::exchange(last_round_at_, now) >= kStoodStill) {
    log::warning("this process did not run for some seconds: the monitor draws no conclusions for {} s",
                 to_seconds(kListenAgain));
    listens_until_ = now + kListenAgain;
  }
  if (now < listens_until_) return;
  const model::Snapshot snapshot = this->snapshot();
  trends_.look(snapshot);
  mount_trends_.look(snapshot);
  std::vector<proto::Verdict> found, excused;
  for (const auto& detector : detectors_) {
    detector->hear(found, now);
    std::ranges::move(detector->examine(snapshot), std::back_inserter(found));
    std::ranges::move(detector->excused(), std::back_inserter(excused));
  }
  progress::tell_what_shortages_explain(excused, snapshot, found);
  // A forecast may stand for days, and is no reason to keep every second.
  const auto is_present = [](const proto::Verdict& one) { return one.kind() != proto::Verdict::RUNS_OUT; };
  if (std::ranges::any_of(found, is_present)) last_alarm_ = now;
  const std::vector<proto::Verdict> records =
      alarms_.round(std::move(found), now, runtime_.clock.wall_now(), heard(snapshot));
  watch_.tell_slow(slow_servers(alarms_.standing(), snapshot.servers));
  last_round_ = runtime_.clock.now() - now;
  const Duration interval = now - last_alarm_ <= kAfterAlarm ? kRound : options_.snapshot_interval;
  if (!snapshot.processes.empty() && now - last_kept_ >= interval) {
    snapshots_.keep(model::serialise(snapshot));
    last_kept_ = now;
  }
  for (const proto::Verdict& record : records) {
    log::info("alarm {} {}: {}", record.id(), record.cleared_wall_ns() != 0 ? "cleared" : "raised",
              proto::describe(record));
    history_.keep(record.SerializeAsString());
  }
}

proto::DiagnoseResponse Monitor::answer(bool with_history) const {
  proto::DiagnoseResponse response;
  size_t bytes = 0;
  const auto fits = [&](const proto::Verdict& verdict) {
    bytes += verdict.ByteSizeLong();
    return bytes <= kMostVerdictBytes;
  };
  const std::vector<model::ServerLife> lives = watch_.lives();
  for (proto::Verdict& verdict : alarms_.standing()) {
    const auto slow = slow_server(verdict, lives);
    verdict.set_gone_around(slow && watch_.gone_around(slow->server_id()));
    if (fits(verdict)) *response.add_verdicts() = std::move(verdict);
  }
  if (with_history) {
    for (const proto::Verdict& verdict : alarms_.history())
      if (fits(verdict)) *response.add_history() = verdict;
  }
  const model::Snapshot now = snapshot();
  std::set<uint64_t> reporting;
  for (const auto& view : now.processes)
    if (now.silent(*view) < progress::kSilence && !view->last().last())
      reporting.insert(view->last().server_id());
  add_processes(now, response);
  for (const proto::ServerState& server : watch_.servers().servers()) {
    response.set_servers(response.servers() + 1);
    if (reporting.contains(server.server_id()))
      response.set_servers_reporting(response.servers_reporting() + 1);
    if (server.maintenance_seconds() > 0 && response.in_maintenance_size() < kMostProcessLines) {
      proto::MaintainedServer& maintained = *response.add_in_maintenance();
      maintained.set_server_id(server.server_id());
      maintained.set_server(server.name());
      maintained.set_seconds_left(server.maintenance_seconds());
    }
    if (server.has_held_back() && response.held_back_size() < kMostProcessLines)
      *response.add_held_back() = server.held_back();
  }
  response.set_monitor(endpoint().to_string());
  response.set_monitor_http(options_.http_address);
  return response;
}

asio::awaitable<Status> Monitor::diagnose(Context, const proto::DiagnoseRequest& request,
                                          proto::DiagnoseResponse& response) {
  response = answer(request.history());
  if (request.models()) *response.mutable_models() = models();
  co_return Status{};
}

asio::awaitable<Status> Monitor::ping(Context, const proto::Empty&, proto::Empty&) {
  co_return Status{};
}

google::protobuf::RepeatedPtrField<proto::LearntModel> Monitor::models() const {
  google::protobuf::RepeatedPtrField<proto::LearntModel> all;
  for (const auto& detector : detectors_)
    for (const behaviour::Detector::Learnt& one : detector->learnt()) {
      proto::LearntModel& model = *all.Add();
      model.set_process_kind(one.process_kind);
      model.set_region(one.region);
      model.set_observation(one.observation);
      model.set_r2(one.r2);
      model.set_usable(one.usable);
      model.set_executions(one.samples);
      model.mutable_inputs()->Assign(one.inputs.begin(), one.inputs.end());
    }
  std::ranges::stable_sort(all, std::greater<>(), &proto::LearntModel::r2);
  if (all.size() > kMostModels) all.DeleteSubrange(kMostModels, all.size() - kMostModels);
  return all;
}

}  // namespace kintsugi::monitoring
