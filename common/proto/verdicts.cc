#include "common/proto/verdicts.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "common/proto/measured_rates.h"
#include "common/proto/room_verdicts.h"

namespace kintsugi::proto {
namespace {

using Document = nlohmann::ordered_json;

std::string duration_text(uint64_t ns) {
  const double seconds = static_cast<double>(ns) / 1e9;
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (seconds < 600) return fmt::format("{:.0f} s", seconds);
  return fmt::format("{:.0f} min", seconds / 60);
}

std::string place(std::string_view file, uint32_t line) {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  return line == 0 ? printable(name) : fmt::format("{}:{}", printable(name), line);
}

std::string who(const Verdict& verdict) {
  std::string text = verdict.server().empty() ? "an unknown process" : printable(verdict.server());
  if (!verdict.peer().empty()) text += " and " + printable(verdict.peer());
  return text;
}

/// ", by which A, B and 3 more are slow", of a machine.
std::string sufferers(const Verdict& verdict) {
  constexpr int kShown = 3;
  std::string text;
  for (int i = 0; i < std::min(verdict.servers_waiting_size(), kShown); ++i)
    text += (i == 0 ? ", by which " : ", ") + printable(verdict.servers_waiting(i));
  if (verdict.servers_waiting_size() > kShown)
    text += fmt::format(" and {} more", verdict.servers_waiting_size() - kShown);
  return text + (text.empty() ? "" : " are slow");
}

/// What is wrong with it, without since when.
std::string what(const Verdict& verdict) {
  std::string region = printable(verdict.region());
  switch (verdict.kind()) {
    case Verdict::RUNNING: return "runs on without end" + (region.empty() ? "" : " in " + region);
    case Verdict::SILENT:
      if (is_without_repairs(verdict)) return "none is registered: what is lost is not repaired";
      return is_metaserver_silent(verdict)
                 ? "does not report and answers nobody: nothing can be stored or found without it"
                 : "does not report and answers nobody";
    case Verdict::NOT_SERVED: return "does not serve " + (region.empty() ? "a request" : region);
    case Verdict::UNANSWERED: return "has handled a request in " + region + ", and the answer did not come";
    case Verdict::DEVICE:
      if (is_machines_disks(verdict)) return "the disks of its servers do not answer";
      return fmt::format(
          "{} ({}){}", region.empty() ? "disk" : region, printable(verdict.device()),
          verdict.factor() > 0 ? fmt::format(" is {:.1f} times slower", verdict.factor()) : "");
    case Verdict::LINK:
      if (verdict.factor() > 1)
        return fmt::format("answer each other {:.1f} times more slowly", verdict.factor());
      return "do not hear each other" + (region.empty() ? "" : " in " + region);
    case Verdict::DEADLOCK: return "a circle of tasks that wait for each other in " + region;
    case Verdict::SLOW:
      return verdict.factor() > 0 ? fmt::format("{} is {:.1f} times slower", region, verdict.factor())
                                  : region + " is slow";
    case Verdict::RESOURCE:
      if (!region.empty() && verdict.factor() > 0)
        return fmt::format("takes {:.1f} times as much {} as it did", verdict.factor(), region);
      if (!region.empty()) return "gets no CPU time in " + region;
      return "gets too little CPU or memory" +
             (verdict.factor() > 0 ? fmt::format(", and computes {:.1f} times slower", verdict.factor())
                                   : "");
    case Verdict::HOST: return "is short of CPU time" + sufferers(verdict);
    case Verdict::MESSAGES:
      return "what it sends is damaged, missing, or comes twice" + (region.empty() ? "" : " in " + region);
    case Verdict::FULL:
      return is_metadata_full(verdict)
                 ? "no room on its own disk: " + missing_room(verdict) + "; nothing new is stored"
                 : "no room: " + missing_room(verdict) + "; writes fail";
    case Verdict::PAUSES:
      if (!region.empty()) return region + " stall repeatedly";
      return verdict.device().empty()
                 ? "stalls repeatedly"
                 : fmt::format("disk ({}) stalls repeatedly", printable(verdict.device()));
    case Verdict::UNREACHED: return region + " do not reach it";
    case Verdict::LOSSES: return "some of the packets are lost";
    case Verdict::ERRORS: return "answers most " + region + " requests with an error";
    case Verdict::CLOCK: return "wrong wall clock";
    case Verdict::RUNS_OUT:
      return fmt::format("runs out of {} in {}", region, time_left(verdict.forecast().seconds_left()));
    case Verdict::CLIENT: return region.empty() ? "does not report and answers nobody" : region;
    default: return region;
  }
}

Document document(const Room& room) {
  return {{"total_bytes", room.total_bytes()},     {"free_bytes", room.free_bytes()},
          {"free_inodes", room.free_inodes()},     {"needed_bytes", room.needed_bytes()},
          {"needed_inodes", room.needed_inodes()}, {"servers", room.servers()},
          {"full_servers", room.full_servers()}};
}

Document document(const Forecast& forecast) {
  return {{"now", forecast.now()},
          {"limit", forecast.limit()},
          {"rate_per_s", forecast.rate_per_s()},
          {"seconds_left", forecast.seconds_left()},
          {"soonest_s", forecast.soonest_s()},
          {"latest_s", forecast.latest_s() > 0 ? Document(forecast.latest_s()) : Document()}};
}

Document document(const ChainLink& link) {
  return {{"server", link.process()},
          {"role", link.role()},
          {"region", link.region()},
          {"state", link.state()},
          {"age_s", static_cast<double>(link.age_ns()) / 1e9},
          {"wait", wait_name(link.wait())},
          {"waits_for", link.waits_for()},
          {"file", link.file()},
          {"line", link.line()},
          {"function", link.function()}};
}

Document document(const LearntModel& model) {
  return {{"kind", model.process_kind()},
          {"region", model.region()},
          {"observation", model.observation()},
          {"r2", model.r2()},
          {"usable", model.usable()},
          {"executions", model.executions()},
          {"inputs", std::vector<std::string>(model.inputs().begin(), model.inputs().end())}};
}

template <class Texts>
Document array_of(const Texts& texts) {
  Document array = Document::array();
  for (const auto& text : texts)
    array.push_back(text);
  return array;
}

Document document(const Verdict& verdict) {
  Document chain = Document::array(), slice = Document::array();
  for (const ChainLink& link : verdict.chain())
    chain.push_back(document(link));
  for (const ChainLink& place : verdict.slice())
    slice.push_back({{"server", place.process()},
                     {"region", place.region()},
                     {"file", place.file()},
                     {"line", place.line()},
                     {"function", place.function()}});
  const std::optional<MeasuredRate> rate = measured_rate(verdict.kind(), verdict.confidence());
  Document result = {{"id", verdict.id()},
                     {"kind", kind_name(verdict.kind())},
                     {"server", verdict.server()},
                     {"server_id", std::to_string(verdict.server_id())},
                     {"process", fmt::format("{:016x}", verdict.process())},
                     {"process_kind", verdict.process_kind()},
                     {"peer", verdict.peer()},
                     {"device", verdict.device()},
                     {"region", verdict.region()},
                     {"file", verdict.file()},
                     {"line", verdict.line()},
                     {"function", verdict.function()},
                     {"waiters", verdict.waiters()},
                     {"servers_waiting", array_of(verdict.servers_waiting())},
                     {"operations", array_of(verdict.operations())},
                     {"since_s", static_cast<double>(verdict.since_ns()) / 1e9},
                     {"confidence", confidence_name(verdict.confidence())},
                     {"probability", verdict.probability()},
                     {"measured_right", rate ? rate->right : 0},
                     {"measured_of", rate ? rate->of : 0},
                     {"why", array_of(verdict.why())},
                     {"masked", verdict.masked()},
                     {"avoided", verdict.gone_around()},
                     {"factor", verdict.factor()},
                     {"stack", array_of(verdict.stack())},
                     {"chain", std::move(chain)},
                     {"slice", std::move(slice)},
                     {"raised_unix_s", static_cast<double>(verdict.raised_wall_ns()) / 1e9},
                     {"cleared_unix_s", static_cast<double>(verdict.cleared_wall_ns()) / 1e9},
                     {"line_of_text", describe(verdict)}};
  if (verdict.has_room()) result["room"] = document(verdict.room());
  if (verdict.has_forecast()) result["forecast"] = document(verdict.forecast());
  return result;
}

std::string text(const Document& document, int indent) {
  return document.dump(indent, ' ', false, Document::error_handler_t::replace);
}

}  // namespace

std::string printable(std::string_view text, size_t most) {
  std::string out(text.substr(0, most));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F) c = '?';
  return out;
}

std::string time_left(double seconds) {
  seconds = std::max(seconds, 0.0);
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 172'800) return fmt::format("{:.0f} h", seconds / 3600);
  return fmt::format("{:.0f} days", seconds / 86'400);
}

std::string_view kind_name(Verdict::Kind kind) {
  constexpr std::array<std::string_view, 21> kNames = {
      "stuck",  "running",   "silent",    "not served", "device", "link",       "deadlock",
      "client", "slow",      "behaviour", "resource",   "host",   "messages",   "full",
      "pauses", "unreached", "losses",    "errors",     "clock",  "unanswered", "runs out"};
  const auto index = static_cast<size_t>(kind);
  return index < kNames.size() ? kNames[index] : "unknown";
}

bool holds_up(const Verdict& verdict) {
  return !verdict.masked() && (verdict.waiters() > 0 || is_metaserver_silent(verdict));
}

bool is_metaserver_silent(const Verdict& verdict) {
  return verdict.kind() == Verdict::SILENT && verdict.process_kind() == "metaserver";
}

bool is_without_repairs(const Verdict& verdict) {
  return verdict.kind() == Verdict::SILENT && verdict.process_kind() == "repair-manager" &&
         verdict.process() == 0;
}

bool is_machines_disks(const Verdict& verdict) {
  return verdict.kind() == Verdict::DEVICE && verdict.process() == 0 && verdict.device().empty();
}

void add_waiting(Verdict& verdict, uint64_t process) {
  const auto& known = verdict.processes_waiting();
  if (process == 0 || known.size() >= kMostWaiting || std::ranges::find(known, process) != known.end())
    return;
  verdict.add_processes_waiting(process);
}

std::string_view confidence_name(Verdict::Confidence confidence) {
  switch (confidence) {
    case Verdict::CERTAIN: return "certain";
    case Verdict::LIKELY: return "likely";
    default: return "unsure";
  }
}

std::string_view wait_name(WaitKind wait) {
  constexpr std::array<std::string_view, 13> kNames = {"runs",  "call",    "receive",  "send", "upstream",
                                                       "join",  "sibling", "resource", "disk", "store",
                                                       "timer", "idle",    "process"};
  const auto index = static_cast<size_t>(wait);
  return index < kNames.size() ? kNames[index] : "unknown";
}

namespace {

/// Returns true if `what` says only where something stands still, and not that it does.
bool is_only_a_place(const Verdict& verdict) {
  switch (verdict.kind()) {
    case Verdict::STUCK:
    case Verdict::DEADLOCK: return true;
    case Verdict::DEVICE: return verdict.factor() == 0 && !is_machines_disks(verdict);
    case Verdict::CLIENT: return !verdict.region().empty();
    default: return false;
  }
}

}  // namespace

std::string describe(const Verdict& verdict) {
  std::string line = fmt::format("{}: {}", who(verdict), what(verdict));
  if (verdict.since_ns() > 0)
    line += fmt::format(", {}for {}", is_only_a_place(verdict) ? "no progress " : "",
                        duration_text(verdict.since_ns()));
  if (verdict.waiters() > 0) {
    line += fmt::format(", {} {}", verdict.waiters(), verdict.waiters() == 1 ? "task" : "tasks");
    const int servers = verdict.servers_waiting_size();
    if (servers > 0) line += fmt::format(" on {} {}", servers, servers == 1 ? "server" : "servers");
    line += verdict.waiters() == 1 ? " waits for it" : " wait for it";
  }
  if (verdict.masked())
    line += verdict.kind() == Verdict::CLIENT ? ", only its own operations wait"
                                              : ", operations continue without it";
  if (verdict.gone_around()) line += ", reads, placements and repairs avoid it";
  if (verdict.operations_size() > 0) line += ", " + printable(verdict.operations(0));
  if (verdict.operations_size() > 1) line += fmt::format(" and {} more", verdict.operations_size() - 1);
  if (!verdict.file().empty()) line += "; " + place(verdict.file(), verdict.line());
  return line + fmt::format("; {}", confidence_name(verdict.confidence()));
}

std::string describe(const ChainLink& link) {
  std::string line = fmt::format("{}: {}, {}", printable(link.process()),
                                 printable(link.region().empty() ? link.role() : link.region()),
                                 duration_text(link.age_ns()));
  if (link.wait() != WAIT_NONE) line += fmt::format(", {}", wait_name(link.wait()));
  if (!link.waits_for().empty()) line += fmt::format(" ({})", printable(link.waits_for()));
  if (!link.file().empty()) line += fmt::format(" [{}]", place(link.file(), link.line()));
  return line;
}

std::string describe(const HeldBackMoves& moves) {
  return fmt::format("moves to it{}{} are held back for {} s after failed moves",
                     moves.from().empty() ? "" : " from ", fmt::join(moves.from(), ", "),
                     (moves.ms_left() + 999) / 1000);
}

std::string to_json(const Verdict& verdict) {
  return text(document(verdict), -1);
}

std::string to_json(const DiagnoseResponse& response) {
  Document verdicts = Document::array(), history = Document::array(), processes = Document::array();
  for (const Verdict& verdict : response.verdicts())
    verdicts.push_back(document(verdict));
  for (const Verdict& verdict : response.history())
    history.push_back(document(verdict));
  for (const ProcessLine& process : response.processes())
    processes.push_back({{"process", fmt::format("{:016x}", process.process())},
                         {"kind", process.kind()},
                         {"name", process.name()},
                         {"address", process.address()},
                         {"silent_s", static_cast<double>(process.silent_ns()) / 1e9},
                         {"live", process.live()},
                         {"loop_lag_s", static_cast<double>(process.loop_lag_ns()) / 1e9}});
  Document held_back = Document::array();
  for (const HeldBackMoves& moves : response.held_back())
    held_back.push_back({{"server_id", std::to_string(moves.server_id())},
                         {"server", moves.server()},
                         {"seconds_left", static_cast<double>(moves.ms_left()) / 1e3},
                         {"from", std::vector<std::string>(moves.from().begin(), moves.from().end())}});
  Document in_maintenance = Document::array();
  for (const MaintainedServer& server : response.in_maintenance())
    in_maintenance.push_back({{"server_id", std::to_string(server.server_id())},
                              {"server", server.server()},
                              {"seconds_left", server.seconds_left()}});
  Document models = Document::array();
  for (const LearntModel& model : response.models())
    models.push_back(document(model));
  const Document result = {{"models", std::move(models)},
                           {"verdicts", std::move(verdicts)},
                           {"history", std::move(history)},
                           {"processes", std::move(processes)},
                           {"reduced", response.reduced()},
                           {"monitor", response.monitor()},
                           {"monitor_http", response.monitor_http()},
                           {"servers", response.servers()},
                           {"servers_reporting", response.servers_reporting()},
                           {"held_back", std::move(held_back)},
                           {"in_maintenance", std::move(in_maintenance)}};
  return text(result, 2);
}

}  // namespace kintsugi::proto
