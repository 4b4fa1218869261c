#include "monitoring/daemon/console_api.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/base/statistics.h"
#include "common/proto/names.h"
#include "common/proto/verdict_advice.h"
#include "common/proto/verdicts.h"
#include "monitoring/daemon/absence_detector.h"
#include "monitoring/daemon/data_health.h"
#include "monitoring/daemon/region_table.h"
#include "monitoring/daemon/repair_documents.h"

namespace kintsugi::monitoring {
namespace {

using Document = nlohmann::ordered_json;

std::string hex(uint64_t id) {
  return fmt::format("{:016x}", id);
}

std::string text(const Document& document) {
  return document.dump(-1, ' ', false, Document::error_handler_t::replace) + "\n";
}

double seconds(uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

/// The disks of a server as `kintsugi server list --json` names them, less what only that shows.
Document disks_of(const proto::ServerState& server) {
  Document disks = Document::array();
  for (const proto::DiskState& disk : server.disk_states()) {
    disks.push_back({{"path", disk.path()},
                     {"health", proto::health_name(disk.health())},
                     {"reason", disk.reason()},
                     {"total_bytes", disk.total_bytes()},
                     {"free_bytes", disk.free_bytes()},
                     {"chunks", disk.chunks()},
                     {"full", disk.full()}});
  }
  return disks;
}

/// A verdict as `kintsugi diagnose --json` has it, and what the first line of `kintsugi diagnose` says of it.
Document document(const proto::Verdict& verdict) {
  Document document = Document::parse(proto::to_json(verdict), nullptr, false);
  document["advice"] = proto::advise(verdict);
  return document;
}

Document stripes_of(const proto::DiskFreeResponse& space) {
  const proto::StripeHealth& health = space.health();
  return {{"all", space.stripes()},
          {"degraded", health.degraded()},
          {"without_spare", health.without_spare()},
          {"unreadable", health.unreadable()},
          {"missing_chunks", health.missing_chunks()},
          {"servers_not_reported", health.not_reported_size()}};
}

Document limit_of(bool is_set, uint64_t limit) {
  return is_set ? Document(limit) : Document();
}

/// What a mount does for its applications; null: the process is no mount, or nothing is known yet.
Document did(const Monitor& monitor, const model::ProcessView& view) {
  const MountTrend* trend = monitor.mount_trends().of(view.process());
  if (trend == nullptr || !view.last().has_mount()) return {};
  return {{"directory", view.last().mount().directory()},
          {"operations_per_second", trend->operations_per_second},
          {"errors_per_second", trend->errors_per_second},
          {"latency_s", trend->latency_seconds},
          {"read_rate", trend->read_bytes_per_second},
          {"write_rate", trend->written_bytes_per_second},
          {"dirty_bytes", view.last().mount().dirty_bytes()}};
}

double silence(const model::Snapshot& snapshot, const model::ProcessView& view) {
  return std::max(0.0, to_seconds(snapshot.silent(view)));
}

}  // namespace

std::string ConsoleApi::overview() const {
  const proto::DiagnoseResponse answer = monitor_.answer(false);
  const auto& servers = monitor_.watch().servers().servers();
  const auto count = [&](proto::ServerState::Liveness liveness) {
    return std::ranges::count_if(servers, [&](const auto& server) { return server.liveness() == liveness; });
  };
  const ReportIntake::Counters& reports = monitor_.intake().counters();
  const std::optional<Duration> answered = monitor_.watch().answered_ago();
  const proto::DiskFreeResponse& space = monitor_.watch().space();
  const DataHealth data = data_health(monitor_.watch(), monitor_.snapshot().wall_ns);
  return text(
      {{"monitor",
        {{"address", answer.monitor()},
         {"uptime_s", to_seconds(monitor_.uptime())},
         {"last_round_s", to_seconds(monitor_.last_round())},
         {"kept_bytes", monitor_.kept_bytes()},
         {"replaced", monitor_.watch().replaced()}}},
       {"metaserver",
        {{"address", monitor_.watch().metaserver().to_string()},
         {"answers", answered && *answered <= AbsenceDetector::kUnanswered},
         {"answered_s_ago", answered ? Document(to_seconds(*answered)) : Document()}}},
       {"servers",
        {{"all", servers.size()},
         {"alive", count(proto::ServerState::ALIVE)},
         {"suspect", count(proto::ServerState::SUSPECT)},
         {"dead", count(proto::ServerState::DEAD)},
         {"reporting", answer.servers_reporting()}}},
       {"data", {{"level", name_of(data.level)}, {"sentence", data.sentence}, {"action", data.action}}},
       {"stripes", stripes_of(space)},
       {"space",
        {{"total_bytes", space.total_bytes()},
         {"free_bytes", space.free_bytes()},
         {"stored_bytes", space.stored_bytes()},
         {"storable_bytes", space.storable_bytes()},
         {"policy", space.policy()},
         {"files", space.files()}}},
       {"processes", monitor_.intake().processes().size()},
       {"alarms", answer.verdicts_size()},
       {"masked_alarms", std::ranges::count_if(answer.verdicts(), [](const auto& v) { return v.masked(); })},
       {"holding_alarms", std::ranges::count_if(answer.verdicts(), proto::holds_up)},
       {"ending_alarms",
        std::ranges::count(answer.verdicts(), proto::Verdict::RUNS_OUT, &proto::Verdict::kind)},
       {"repairs",
        {{"running", monitor_.watch().repairs().running_size()},
         {"queued", monitor_.watch().repairs().queued()},
         {"delayed", monitor_.watch().repairs().delayed()},
         {"unrepairable", monitor_.watch().repairs().unrepairable()}}},
       {"reports",
        {{"accepted", reports.accepted},
         {"bytes", reports.bytes},
         {"refused", reports.refused},
         {"repeated", reports.repeated},
         {"too_many", reports.too_many}}}});
}

std::string ConsoleApi::servers() const {
  const model::Snapshot snapshot = monitor_.snapshot();
  std::map<uint64_t, const model::ProcessView*> reporting;
  for (const auto& view : snapshot.processes)
    if (view->last().server_id() != 0) reporting[view->last().server_id()] = view.get();
  std::map<uint64_t, std::vector<uint64_t>> alarms;
  for (const proto::Verdict& verdict : monitor_.alarms().standing())
    if (verdict.server_id() != 0) alarms[verdict.server_id()].push_back(verdict.id());
  std::vector<proto::ServerState> ordered(monitor_.watch().servers().servers().begin(),
                                          monitor_.watch().servers().servers().end());
  std::ranges::sort(ordered, {}, &proto::ServerState::number);
  Document rows = Document::array();
  for (const proto::ServerState& server : ordered) {
    if (rows.size() >= kMostRows) break;
    Document row = {{"server_id", std::to_string(server.server_id())},
                    {"number", server.number()},
                    {"name", server.name()},
                    {"address", server.address()},
                    {"http", server.http_address()},
                    {"rack", server.rack()},
                    {"liveness", proto::liveness_name(server.liveness())},
                    {"draining", server.draining()},
                    {"maintenance_s", server.maintenance_seconds()},
                    {"slow_factor", server.slow().factor()},
                    {"held_back", server.has_held_back() ? proto::describe(server.held_back()) : ""},
                    {"heartbeat_s_ago", server.seconds_since_heartbeat()},
                    {"total_bytes", server.total_bytes()},
                    {"free_bytes", server.free_bytes()},
                    {"chunks", server.chunks()},
                    {"disks", server.disks()},
                    {"failed_disks", server.failed_disks()},
                    {"disk_states", disks_of(server)},
                    {"busy", server.busy()},
                    {"repairs", server.repairs()},
                    {"user_rate", server.user_bytes_per_second()},
                    {"repair_rate", server.repair_bytes_per_second()},
                    {"alarms", alarms[server.server_id()]}};
    const auto view = reporting.find(server.server_id());
    if (view == reporting.end()) {
      row["silent_s"] = nullptr;
    } else {
      const proto::SightReport& report = view->second->last();
      row["silent_s"] = silence(snapshot, *view->second);
      row["open"] = report.live_size();
      row["loop_lag_s"] = seconds(report.loop().lag_ns());
      row["stalled_s"] = seconds(report.loop().stalled_ns());
    }
    rows.push_back(std::move(row));
  }
  return text({{"parts", parts(snapshot)}, {"servers", std::move(rows)}});
}

/// The metaserver and this monitor: without the first nothing works, and without the second nobody says so.
Document ConsoleApi::parts(const model::Snapshot& snapshot) const {
  const ClusterWatch& watch = monitor_.watch();
  const std::optional<Duration> answered = watch.answered_ago();
  Document metaserver = {{"kind", "metaserver"},
                         {"name", "metaserver"},
                         {"address", watch.metaserver().to_string()},
                         {"answers", answered && *answered <= AbsenceDetector::kUnanswered},
                         {"answered_s_ago", answered ? Document(to_seconds(*answered)) : Document()},
                         {"silent_s", nullptr},
                         {"alarms", Document::array()}};
  for (const auto& view : snapshot.processes)
    if (view->last().kind() == "metaserver") metaserver["silent_s"] = silence(snapshot, *view);
  for (const proto::Verdict& verdict : monitor_.alarms().standing())
    if (verdict.process_kind() == "metaserver") metaserver["alarms"].push_back(verdict.id());
  Document monitor = {{"kind", "monitor"},
                      {"name", "monitor"},
                      {"address", monitor_.endpoint().to_string()},
                      {"uptime_s", to_seconds(monitor_.uptime())},
                      {"replaced", watch.replaced()}};
  return Document::array({std::move(metaserver), std::move(monitor)});
}

std::string ConsoleApi::processes() const {
  const model::Snapshot snapshot = monitor_.snapshot();
  Document rows = Document::array();
  for (const auto& view : snapshot.processes) {
    if (rows.size() >= kMostRows) break;
    const proto::SightReport& report = view->last();
    uint64_t oldest = 0, begun = 0, failed = 0;
    for (const proto::SightRole& role : report.roles()) {
      oldest = std::max(oldest, role.oldest_ns());
      begun += role.begun();
      failed += role.failed();
    }
    rows.push_back({{"process", hex(view->process())},
                    {"kind", report.kind()},
                    {"name", view->display()},
                    {"host", report.host()},
                    {"address", report.address()},
                    {"silent_s", silence(snapshot, *view)},
                    {"ended", report.last()},
                    {"uptime_s", seconds(report.uptime_ns())},
                    {"open", report.live_size()},
                    {"oldest_s", seconds(oldest)},
                    {"tasks_begun", begun},
                    {"tasks_failed", failed},
                    {"loop_lag_s", seconds(report.loop().lag_ns())},
                    {"stalled_s", seconds(report.loop().stalled_ns())},
                    {"dropped", report.dropped()},
                    {"truncated", report.truncated()},
                    {"mount", did(monitor_, *view)},
                    {"refused", view->refused()}});
  }
  return text({{"processes", std::move(rows)}});
}

std::string ConsoleApi::alarms() const {
  Document standing = Document::array(), history = Document::array();
  for (const proto::Verdict& verdict : monitor_.alarms().standing())
    standing.push_back(document(verdict));
  for (const proto::Verdict& verdict : monitor_.alarms().history()) {
    if (history.size() >= kMostHistory) break;
    history.push_back(document(verdict));
  }
  return text({{"now_unix_s", static_cast<double>(monitor_.snapshot().wall_ns) / 1e9},
               {"standing", std::move(standing)},
               {"history", std::move(history)}});
}

std::string ConsoleApi::repairs() const {
  const proto::RepairStatusResponse& status = monitor_.watch().repairs();
  const RepairDocuments documents(monitor_);
  const std::optional<Duration> left = repairs_left(monitor_.watch(), monitor_.snapshot().wall_ns);
  Document running = Document::array();
  for (const proto::RepairRecord& record : status.running()) {
    if (running.size() >= kMostRows) break;
    running.push_back(documents.of(record));
  }
  return text({{"queued", status.queued()},
               {"delayed", status.delayed()},
               {"done", status.done()},
               {"failed", status.failed()},
               {"unrepairable", status.unrepairable()},
               {"bytes_repaired", status.bytes_repaired()},
               {"delay_s", status.repair_delay_seconds()},
               {"limit_rate", status.limit_bytes_per_second()},
               {"left_s", left ? Document(to_seconds(*left)) : Document()},
               {"running", std::move(running)}});
}

std::string ConsoleApi::names() {
  monitor_.ask_of_names();
  const NamesWatch& names = monitor_.watch().names();
  Document quotas = Document::array(), snapshots = Document::array();
  for (const proto::Quota& quota : names.quotas.quotas()) {
    if (quotas.size() >= kMostRows) break;
    quotas.push_back({{"path", quota.path()},
                      {"bytes", quota.bytes()},
                      {"most_bytes", limit_of(quota.has_max_bytes(), quota.max_bytes())},
                      {"files", quota.files()},
                      {"most_files", limit_of(quota.has_max_files(), quota.max_files())},
                      {"counting", quota.counting()}});
  }
  for (const proto::Snapshot& snapshot : names.snapshots.snapshots()) {
    if (snapshots.size() >= kMostRows) break;
    snapshots.push_back({{"path", snapshot.path()},
                         {"name", snapshot.name()},
                         {"created_unix_s", static_cast<double>(snapshot.created_ns()) / 1e9},
                         {"kept_bytes", snapshot.kept_bytes()},
                         {"deleting", snapshot.deleting()}});
  }
  return text({{"known", names.known}, {"quotas", std::move(quotas)}, {"snapshots", std::move(snapshots)}});
}

std::string ConsoleApi::devices() const {
  const model::Snapshot snapshot = monitor_.snapshot();
  struct Row {
    const model::ProcessView* view;
    const proto::SightDevice* device;
    DeviceTrend trend;
  };
  std::vector<Row> rows;
  // Key: kind of device; latencies of the devices of that kind.
  std::map<std::pair<std::string, bool>, std::vector<double>> latencies;
  for (const auto& view : snapshot.processes) {
    for (const proto::SightDevice& device : view->last().devices()) {
      const DeviceTrend* trend = monitor_.trends().device(view->process(), device.peer(), device.name());
      rows.push_back({view.get(), &device, trend == nullptr ? DeviceTrend{} : *trend});
      if (rows.back().trend.latency_seconds > 0)
        latencies[{view->last().kind(), device.peer()}].push_back(rows.back().trend.latency_seconds);
    }
  }
  std::map<std::pair<std::string, bool>, double> usual;
  for (auto& [kind, values] : latencies)
    usual[kind] = median_of(values);
  const auto factor = [&](const Row& row) {
    const double typical = usual[{row.view->last().kind(), row.device->peer()}];
    return typical > 0 ? row.trend.latency_seconds / typical : 0;
  };
  std::ranges::stable_sort(rows, std::greater{}, factor);
  Document list = Document::array();
  for (const Row& row : rows) {
    if (list.size() >= kMostRows) break;
    list.push_back(
        {{"process", hex(row.view->process())},
         {"name", row.view->display()},
         {"kind", row.device->peer() ? "link" : "disk"},
         {"device", row.device->name()},
         {"latency_s", row.trend.latency_seconds},
         {"factor", factor(row)},
         {"requests_per_s", row.trend.requests_per_second},
         {"rate_in", row.trend.bytes_in_per_second},
         {"rate_out", row.trend.bytes_out_per_second},
         {"oldest_pending_s", seconds(row.device->oldest_pending_ns())},
         {"pending", row.device->submitted() - std::min(row.device->submitted(), row.device->completed())}});
  }
  return text({{"devices", std::move(list)}});
}

std::string ConsoleApi::regions() {
  const TimePoint now = monitor_.snapshot().taken;
  if (!regions_.empty() && now - regions_at_ < kRegionsFresh) return regions_;
  regions_ = text({{"regions", RegionTable(monitor_).make()}});
  regions_at_ = now;
  return regions_;
}

std::string ConsoleApi::models() const {
  Document list = Document::array();
  for (const proto::LearntModel& model : monitor_.models())
    list.push_back({{"kind", model.process_kind()},
                    {"region", model.region()},
                    {"observation", model.observation()},
                    {"r2", model.r2()},
                    {"usable", model.usable()},
                    {"executions", model.executions()},
                    {"inputs", std::vector<std::string>(model.inputs().begin(), model.inputs().end())}});
  return text({{"models", std::move(list)}});
}

}  // namespace kintsugi::monitoring
