#include "monitoring/model/process_view.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::model {
namespace {

constexpr int kDeepestRegion = 64;

bool is_short(const std::string& text) {
  return text.size() <= ViewLimits::kTextBytes;
}

Status garbage(std::string_view what) {
  return Status(Code::kInvalidArgument, fmt::format("a report with {}", what));
}

Status check_live(const proto::SightLive& live) {
  if (!proto::WaitKind_IsValid(live.wait())) return garbage("a wait of an unknown kind");
  if (!is_short(live.target()) || !is_short(live.file()) || !is_short(live.function()))
    return garbage("a live record whose texts are too long");
  if (live.loop_edges_size() > 1'024 || live.loop_edges_size() % 3 != 0)
    return garbage("counts of transitions that are no triples");
  return Status();
}

}  // namespace

Status check_report(const proto::SightReport& report) {
  if (report.ByteSizeLong() > ViewLimits::kReportBytes) return garbage("more than 1 MiB");
  if (report.process() == 0) return garbage("no process");
  if (report.sequence() == 0) return garbage("no sequence number");
  for (const std::string* text : {&report.kind(), &report.name(), &report.address(), &report.host(),
                                  &report.system().machine(), &report.http_address(), &report.build_id()})
    if (!is_short(*text)) return garbage("a name that is too long");
  if (report.live_size() > ViewLimits::kLive) return garbage("too many live records");
  if (report.roles_size() > ViewLimits::kRoles) return garbage("too many roles");
  if (report.devices_size() > ViewLimits::kDevices) return garbage("too many devices");
  if (report.checks_size() > ViewLimits::kChecks) return garbage("too many checks of peers");
  if (report.links_size() > ViewLimits::kLinks) return garbage("too many links");
  if (report.served_size() > ViewLimits::kServed) return garbage("too many served calls");
  if (report.mount().operations_size() > ViewLimits::kOperations)
    return garbage("too many kinds of operations");
  if (!is_short(report.mount().directory())) return garbage("a mount point that is too long");
  if (!is_short(report.mount().trace_address())) return garbage("an address that is too long");
  for (const proto::SightMount::Operations& operations : report.mount().operations())
    if (!is_short(operations.kind())) return garbage("a kind of operations whose name is too long");
  for (const proto::SightLive& live : report.live())
    KINTSUGI_TRY(check_live(live));
  KINTSUGI_TRY(check_live(report.loop().last_touch()));
  for (const proto::SightPath& path : report.new_paths()) {
    if (!is_short(path.site()) || !is_short(path.file()) || !is_short(path.function()))
      return garbage("a calling context whose texts are too long");
    if (path.inputs_size() > 64 || path.outputs_size() > 64) return garbage("a region with too many inputs");
  }
  for (const proto::SightState& state : report.new_states())
    if (!is_short(state.last_child())) return garbage("a state whose name is too long");
  for (const proto::SightRole& role : report.roles())
    if (!is_short(role.name())) return garbage("a role whose name is too long");
  for (const proto::SightDevice& device : report.devices())
    if (!is_short(device.name())) return garbage("a device whose name is too long");
  for (const proto::SightCheck& check : report.checks())
    if (!is_short(check.peer())) return garbage("a peer whose name is too long");
  for (const proto::SightLink& link : report.links())
    if (!is_short(link.end())) return garbage("an end of a link whose name is too long");
  for (const proto::SightServed& served : report.served())
    if (!is_short(served.region())) return garbage("a served call whose name is too long");
  for (const proto::SightWaitTotal& wait : report.waits())
    if (!is_short(wait.target())) return garbage("a target whose name is too long");
  for (const proto::SightEdge& edge : report.edges())
    if (edge.buckets_size() > 64) return garbage("a histogram that is too long");
  return Status();
}

Status ProcessView::accept(proto::SightReport report, TimePoint arrived) {
  if (Status status = check_report(report); !status.ok()) {
    refused_++;
    return status;
  }
  if (!empty() && report.process() != process())
    return Status(Code::kConflict, "the report of another process");
  if (report.sequence() <= sequence_)
    return Status(Code::kAlreadyExists, "a report that is older than the last one");
  if (empty()) first_arrived_ = arrived;
  sequence_ = report.sequence();
  reports_++;
  arrived_ = std::max(arrived, arrived_);
  merge_dictionary(report);
  merge_totals(report);
  lacks_dictionary_ = !knows_all_ids(report);
  report.clear_new_paths();
  report.clear_new_states();
  report.clear_edges();
  report.clear_waits();
  last_ = std::move(report);
  return Status();
}

TimePoint ProcessView::started() const {
  constexpr uint64_t kLongest = uint64_t{1} << 60;  // it may report anything
  return arrived_ - Duration(static_cast<int64_t>(std::min(last_.uptime_ns(), kLongest)));
}

std::string ProcessView::region(uint64_t path) const {
  std::string text;
  const proto::SightPath* at = this->path(path);
  for (int depth = 0; at != nullptr && depth < kDeepestRegion; depth++) {
    // The region of a caller in another process has no name here.
    if (!at->site().empty() && at->site()[0] != '(') text = at->site() + (text.empty() ? "" : " > ") + text;
    if (at->parent() == at->path()) break;
    at = this->path(at->parent());
  }
  return text;
}

void ProcessView::merge_dictionary(const proto::SightReport& report) {
  const auto put = [](auto& into, auto key, const auto& value, size_t limit) {
    if (into.size() < limit || into.contains(key)) into.insert_or_assign(key, value);
  };
  for (const proto::SightPath& path : report.new_paths())
    put(paths_, path.path(), path, ViewLimits::kPaths);
  for (const proto::SightState& state : report.new_states())
    put(states_, state.state(), state, ViewLimits::kStates);
  for (const proto::SightRole& role : report.roles()) {
    if (!role.name().empty()) put(roles_, role.role(), role.name(), ViewLimits::kRoles);
    if (role.begun() > 0) put(begun_, role.role(), role.begun(), ViewLimits::kRoles);
  }
}

void ProcessView::merge_totals(const proto::SightReport& report) {
  for (const proto::SightEdge& edge : report.edges()) {
    const auto found = edges_.find(edge_key(edge));
    if (found == edges_.end()) {
      if (edges_.size() < ViewLimits::kEdges) edges_.emplace(edge_key(edge), edge);
    } else if (edge.count() >= found->second.count()) {  // totals of one process never fall
      found->second = edge;
    }
  }
  if (report.waits_size() == 0) return;
  waits_.assign(report.waits().begin(),
                report.waits().begin() + std::min<int>(report.waits_size(), ViewLimits::kWaits));
}

bool ProcessView::knows_all_ids(const proto::SightReport& report) const {
  return std::all_of(report.live().begin(), report.live().end(), [this](const proto::SightLive& live) {
    return (live.path() == 0 || paths_.contains(live.path())) &&
           (live.state() == 0 || states_.contains(live.state()));
  });
}

std::string ProcessView::display() const {
  if (!last_.name().empty()) return last_.name();
  const std::string& kind = last_.kind().empty() ? "process" : last_.kind();
  if (!last_.host().empty()) return fmt::format("{} {}", kind, last_.host());
  if (!last_.address().empty()) return fmt::format("{} {}", kind, last_.address());
  return fmt::format("{} {:08x}", kind, static_cast<uint32_t>(last_.process() >> 32));
}

const proto::SightPath* ProcessView::path(uint64_t path) const {
  const auto found = paths_.find(path);
  return found == paths_.end() ? nullptr : &found->second;
}

const proto::SightState* ProcessView::state(uint32_t state) const {
  const auto found = states_.find(state);
  return found == states_.end() ? nullptr : &found->second;
}

const std::string& ProcessView::role_name(uint32_t role) const {
  static const std::string unknown;
  const auto found = roles_.find(role);
  return found == roles_.end() ? unknown : found->second;
}

uint64_t ProcessView::tasks_begun() const {
  uint64_t sum = 0;
  for (const auto& [role, begun] : begun_)
    sum += begun;
  return sum;
}

proto::SightReport ProcessView::to_report() const {
  proto::SightReport report = last_;
  for (const auto& [id, path] : paths_)
    *report.add_new_paths() = path;
  for (const auto& [id, state] : states_)
    *report.add_new_states() = state;
  for (const auto& [id, name] : roles_) {
    const bool there = std::any_of(report.roles().begin(), report.roles().end(),
                                   [&](const proto::SightRole& role) { return role.role() == id; });
    if (there) continue;
    proto::SightRole* role = report.add_roles();
    role->set_role(id);
    role->set_name(name);
    if (const auto begun = begun_.find(id); begun != begun_.end()) role->set_begun(begun->second);
  }
  for (const auto& [key, edge] : edges_)
    *report.add_edges() = edge;
  for (const proto::SightWaitTotal& wait : waits_)
    *report.add_waits() = wait;
  return report;
}

}  // namespace kintsugi::model
