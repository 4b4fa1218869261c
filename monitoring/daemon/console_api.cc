#include "monitoring/daemon/console_api.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/proto/names.h"
#include "common/proto/verdicts.h"

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

std::string_view liveness_name(proto::ServerState::Liveness liveness) {
  switch (liveness) {
    case proto::ServerState::ALIVE: return "alive";
    case proto::ServerState::SUSPECT: return "suspect";
    default: return "dead";
  }
}

/// A verdict as `kintsugi diagnose --json` has it.
Document document(const proto::Verdict& verdict) {
  return Document::parse(proto::to_json(verdict), nullptr, false);
}

double silence(const model::Snapshot& snapshot, const model::ProcessView& view) {
  return std::max(0.0, to_seconds(snapshot.silent(view)));
}

/// The middle one; 0 when there are none.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
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
  return text(
      {{"monitor",
        {{"address", answer.monitor()},
         {"uptime_s", to_seconds(monitor_.uptime())},
         {"last_round_s", to_seconds(monitor_.last_round())},
         {"kept_bytes", monitor_.kept_bytes()},
         {"replaced", monitor_.watch().replaced()}}},
       {"metaserver",
        {{"address", monitor_.watch().metaserver().to_string()},
         {"answered_s_ago", answered ? Document(to_seconds(*answered)) : Document()}}},
       {"servers",
        {{"all", servers.size()},
         {"alive", count(proto::ServerState::ALIVE)},
         {"suspect", count(proto::ServerState::SUSPECT)},
         {"dead", count(proto::ServerState::DEAD)},
         {"reporting", answer.servers_reporting()}}},
       {"processes", monitor_.intake().processes().size()},
       {"alarms", answer.verdicts_size()},
       {"masked_alarms", std::ranges::count_if(answer.verdicts(), [](const auto& v) { return v.masked(); })},
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
    Document row = {{"id", hex(server.server_id())},
                    {"number", server.number()},
                    {"name", server.name()},
                    {"address", server.address()},
                    {"http", server.http_address()},
                    {"rack", server.rack()},
                    {"liveness", liveness_name(server.liveness())},
                    {"draining", server.draining()},
                    {"slow_factor", server.slow().factor()},
                    {"heartbeat_s_ago", server.seconds_since_heartbeat()},
                    {"total_bytes", server.total_bytes()},
                    {"free_bytes", server.free_bytes()},
                    {"chunks", server.chunks()},
                    {"disks", server.disks()},
                    {"failed_disks", server.failed_disks()},
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
  return text({{"servers", std::move(rows)}});
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
  const model::Snapshot snapshot = monitor_.snapshot();
  std::map<uint64_t, std::string> names;
  for (const proto::ServerName& name : status.names())
    names[name.server_id()] = name.name();
  std::map<uint64_t, const model::ProcessView*> processes;
  for (const auto& view : snapshot.processes)
    if (view->last().server_id() != 0) processes[view->last().server_id()] = view.get();
  /// What arrives at a server from another, in repairs and otherwise.
  const auto rate = [&](uint64_t from, uint64_t to) -> Document {
    const auto sender = processes.find(from), receiver = processes.find(to);
    if (sender == processes.end() || receiver == processes.end()) return {};
    const DeviceTrend* trend =
        monitor_.trends().device(receiver->second->process(), true, sender->second->last().address());
    return trend == nullptr ? Document() : Document(trend->bytes_in_per_second);
  };
  Document running = Document::array();
  for (const proto::RepairRecord& record : status.running()) {
    if (running.size() >= kMostRows) break;
    std::set<uint64_t> nodes{record.destination()};
    Document edges = Document::array();
    for (const proto::RepairEdge& edge : record.edges()) {
      nodes.insert(edge.from());
      edges.push_back(
          {{"from", hex(edge.from())}, {"to", hex(edge.to())}, {"rate", rate(edge.from(), edge.to())}});
    }
    Document named = Document::array();
    for (uint64_t node : nodes) {
      const auto name = names.find(node);
      named.push_back({{"id", hex(node)},
                       {"name", node == 0             ? "a client"
                                : name == names.end() ? hex(node)
                                                      : name->second},
                       {"root", node == record.destination()}});
    }
    running.push_back({{"repair_id", hex(record.repair_id())},
                       {"kind", proto::kind_name(record.kind())},
                       {"stripe_id", record.stripe_id()},
                       {"index", record.index()},
                       {"policy", record.policy()},
                       {"shape", proto::shape_name(record.shape())},
                       {"trees", record.trees()},
                       {"bytes", record.chunk_bytes()},
                       {"slice_bytes", record.slice_bytes()},
                       {"attempt", record.attempt()},
                       {"reason", record.reason()},
                       {"running_s", seconds(static_cast<uint64_t>(
                                         std::max<int64_t>(0, snapshot.wall_ns - record.started_ns())))},
                       {"estimated_s", record.estimated_seconds()},
                       {"nodes", std::move(named)},
                       {"edges", std::move(edges)}});
  }
  return text({{"queued", status.queued()},
               {"delayed", status.delayed()},
               {"done", status.done()},
               {"failed", status.failed()},
               {"unrepairable", status.unrepairable()},
               {"bytes_repaired", status.bytes_repaired()},
               {"running", std::move(running)}});
}

std::string ConsoleApi::devices() const {
  const model::Snapshot snapshot = monitor_.snapshot();
  struct Row {
    const model::ProcessView* view;
    const proto::SightDevice* device;
    DeviceTrend trend;
  };
  std::vector<Row> rows;
  std::map<std::pair<std::string, bool>, std::vector<double>> latencies;  // of a kind
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
    usual[kind] = median(std::move(values));
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

// ---- regions -------------------------------------------------------------------------------------------------------

namespace {

/// Times in a region, over processes.
struct RegionTotals {
  uint64_t count = 0;
  double sum_log2 = 0;  ///< of log2(nanoseconds)
  std::vector<uint64_t> buckets;
  double per_second = 0;
  std::map<std::string, std::pair<uint64_t, double>>
      by_process;  ///< count and sum, by the name of the process
};

double typical_seconds(uint64_t count, double sum_log2) {
  return count == 0 ? 0 : std::exp2(sum_log2 / static_cast<double>(count)) / 1e9;
}

/// The upper end of the octave in which it lies.
double percentile_seconds(const RegionTotals& region, double fraction) {
  uint64_t all = 0, below = 0;
  for (uint64_t bucket : region.buckets)
    all += bucket;
  for (size_t octave = 0; octave < region.buckets.size(); ++octave) {
    below += region.buckets[octave];
    if (all > 0 && static_cast<double>(below) >= fraction * static_cast<double>(all))
      return std::exp2(static_cast<double>(octave + 1)) / 1e9;
  }
  return 0;
}

/// Names of the states of a process: the region, and after which of its children.
std::map<uint32_t, std::string> names_of_states(const proto::SightReport& everything) {
  std::map<uint64_t, std::string> sites;  // by role path
  for (const proto::SightPath& path : everything.new_paths())
    sites.emplace(path.role_path(), path.site());
  std::map<uint32_t, std::string> roles, names;
  for (const proto::SightRole& role : everything.roles())
    roles[role.role()] = role.name();
  for (const proto::SightState& state : everything.new_states()) {
    const auto site = sites.find(state.role_path());
    std::string name = site == sites.end() ? fmt::format("state {}", state.state()) : site->second;
    const std::string& role = roles[state.role()];
    if (!role.empty() && role != name) name = role + " > " + name;
    if (state.wait() != proto::WAIT_NONE) name += fmt::format(" [{}]", proto::wait_name(state.wait()));
    names[state.state()] = std::move(name);
  }
  return names;
}

bool is_idle(const model::ProcessView& view, uint32_t state) {
  const proto::SightState* known = view.state(state);
  return known != nullptr && (known->wait() == proto::WAIT_IDLE || known->wait() == proto::WAIT_TIMER);
}

}  // namespace

std::string ConsoleApi::regions() {
  const model::Snapshot snapshot = monitor_.snapshot();
  if (!regions_.empty() && snapshot.taken - regions_at_ < kRegionsFresh) return regions_;
  std::map<std::string, RegionTotals> regions;
  size_t looked_at = 0;
  for (const auto& view : snapshot.processes) {
    if (view->edges().empty()) continue;
    if (++looked_at > Trends::kMostModelled) break;
    const std::map<uint32_t, std::string> names = names_of_states(view->to_report());
    double window = monitor_.trends().growth_seconds(view->process(), snapshot.taken);
    if (window <= 0) window = seconds(view->last().uptime_ns());
    for (const auto& [key, edge] : view->edges()) {
      const Trends::Growth growth = monitor_.trends().growth(*view, edge);
      const auto name = names.find(edge.from());
      if (growth.count == 0 || name == names.end() || is_idle(*view, edge.from())) continue;
      RegionTotals& region = regions[name->second];
      const double sum = static_cast<double>(growth.sum) / 256;
      region.count += growth.count;
      region.sum_log2 += sum;
      region.buckets.resize(std::max(region.buckets.size(), growth.buckets.size()));
      for (size_t i = 0; i < growth.buckets.size(); ++i)
        region.buckets[i] += growth.buckets[i];
      if (window > 0) region.per_second += static_cast<double>(growth.count) / window;
      auto& [count, of_process] = region.by_process[view->display()];
      count += growth.count;
      of_process += sum;
    }
  }
  std::vector<std::pair<std::string, RegionTotals>> ordered(regions.begin(), regions.end());
  const auto total = [](const auto& entry) {
    return typical_seconds(entry.second.count, entry.second.sum_log2) *
           static_cast<double>(entry.second.count);
  };
  std::ranges::stable_sort(ordered, std::greater{}, total);
  if (ordered.size() > kMostRegions) ordered.resize(kMostRegions);
  Document list = Document::array();
  for (const auto& [name, region] : ordered) {
    std::string slowest;
    double slowest_seconds = 0;
    std::vector<double> all;
    for (const auto& [process, of_process] : region.by_process) {
      const double typical = typical_seconds(of_process.first, of_process.second);
      all.push_back(typical);
      if (typical <= slowest_seconds) continue;
      slowest = process;
      slowest_seconds = typical;
    }
    const double usual = median(all);
    list.push_back({{"region", name},
                    {"count", region.count},
                    {"per_second", region.per_second},
                    {"typical_s", typical_seconds(region.count, region.sum_log2)},
                    {"p99_s", percentile_seconds(region, 0.99)},
                    {"processes", region.by_process.size()},
                    {"slowest", slowest},
                    {"slowest_s", slowest_seconds},
                    {"slowest_factor", usual > 0 ? slowest_seconds / usual : 0}});
  }
  regions_ = text({{"regions", std::move(list)}});
  regions_at_ = snapshot.taken;
  return regions_;
}

}  // namespace kintsugi::monitoring
