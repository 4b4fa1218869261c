#include "monitoring/progress/waits/wait_graph.h"

#include <algorithm>

namespace kintsugi::progress {
namespace {

/// Slots and buffers are waited for under load, too: who waits for one that no task which stands still can hold is
/// blamed only after this.
constexpr Duration kLongForResource = 6s;
constexpr size_t kMostHolders = 64;
/// So many calls a process is asked about.
constexpr size_t kMostCalls = 64;
/// Tasks that join tasks that join others, and so on, are followed so deep.
constexpr int kMostJoins = 8;

}  // namespace

WaitGraph::WaitGraph(const OpenTasks& tasks, const Evidence& evidence)
    : tasks_(tasks), evidence_(evidence), hearing_(tasks, evidence) {
  const auto count = static_cast<uint32_t>(tasks.all().size());
  vertices_.resize(count);
  edges_.resize(count);
  for (uint32_t i = 0; i < count; i++) {
    vertices_[i].process = static_cast<int>(tasks[i].process);
    vertices_[i].task = i;
    vertices_[i].stalled = tasks[i].stalled;
    if (tasks[i].stalled) stalled_of_process_[vertices_[i].process].push_back(i);
  }
  for (uint32_t i = 0; i < count; i++)
    if (tasks[i].stalled) add_edges(i);
  add_ended();
}

uint32_t WaitGraph::vertex(Place place, int process, int peer, const std::string& name) {
  const auto [at, is_new] =
      by_name_.emplace(std::tuple(place, process, peer, name), static_cast<uint32_t>(vertices_.size()));
  if (is_new) {
    vertices_.push_back({.place = place, .process = process, .peer = peer, .name = name});
    edges_.emplace_back();
  }
  return at->second;
}

void WaitGraph::connect(uint32_t from, uint32_t to, EdgeKind kind) {
  if (from != to) edges_[from].push_back({to, kind});
}

void WaitGraph::unresolved(uint32_t from, int process) {
  // Also who has said everything: what is concluded from that has to hold in its next report, too.
  if (process >= 0) wanted_.try_emplace(tasks_.snapshot().processes[process]->process());
  const bool is_known = process >= 0 && tasks_.processes()[process].complete;
  vertices_[from].unresolved = vertices_[from].unresolved || !is_known;
}

void WaitGraph::nobody_there(uint32_t task, const char* why) {
  unresolved(task, static_cast<int>(tasks_[task].process));
  vertices_[task].doubtful = true;
  vertices_[task].why = why;
}

void WaitGraph::connect_to_tasks(uint32_t from, const std::vector<uint32_t>& tasks, bool same_process_only) {
  for (const uint32_t to : tasks) {
    if (to == from || (same_process_only && tasks_[to].process != tasks_[from].process)) continue;
    if (tasks_[to].stalled)
      connect(from, to);
    else
      vertices_[from].feeds = true;
  }
}

void WaitGraph::add_edges(uint32_t task) {
  const OpenTask& open = tasks_[task];
  const ProcessState& process = tasks_.processes()[open.process];
  const int index = static_cast<int>(open.process);
  // Whatever it waits for: nothing in such a process makes progress.
  if (process.silent) return connect(task, vertex(Place::kSilent, index, -1, ""));
  if (process.spinning) return connect(task, vertex(Place::kRunning, index, -1, ""));
  const proto::SightLive& top = open.top();
  switch (top.wait()) {
    case proto::WAIT_CALL:
    case proto::WAIT_RECEIVE:
    case proto::WAIT_SEND: return add_call(task, top.target(), top.target_span());
    case proto::WAIT_UPSTREAM: return add_upstream(task);
    case proto::WAIT_JOIN: return add_join(task);
    case proto::WAIT_SIBLING: return add_sibling(task);
    case proto::WAIT_RESOURCE: return add_resource(task);
    case proto::WAIT_PROCESS: return add_process(task);
    case proto::WAIT_DISK:
    case proto::WAIT_STORE: return add_device(task);
    default: return;  // it waits for nothing that is known, so it is the culprit itself
  }
}

void WaitGraph::add_call(uint32_t task, const std::string& address, uint64_t span) {
  int target = tasks_.process_at(address);
  bool found = false;
  for (const uint32_t callee : tasks_.begun_by(span)) {
    if (callee == task) continue;
    found = true;
    target = static_cast<int>(tasks_[callee].process);
    if (tasks_[callee].stalled)
      connect(task, callee);
    else
      vertices_[task].feeds = true;
  }
  if (found) return;
  if (target < 0) {
    const model::ServerLife* life = tasks_.snapshot().server(address, 0);
    const uint32_t nobody = vertex(Place::kSilent, -1, -1, address.empty() ? "an unknown server" : address);
    vertices_[nobody].why =
        life == nullptr ? "nothing is known of the process that is called" : "it has never reported";
    return connect(task, nobody);
  }
  const ProcessState& state = tasks_.processes()[target];
  if (state.silent) return connect(task, vertex(Place::kSilent, target, -1, ""));
  if (state.spinning) return connect(task, vertex(Place::kRunning, target, -1, ""));
  if (tasks_.snapshot().processes[target]->last().last()) {  // the callee has ended, so the call will fail
    vertices_[task].feeds = true;
    return;
  }
  add_unserved(task, target);
}

void WaitGraph::add_unserved(uint32_t task, int target) {
  unresolved(task, target);
  std::vector<uint64_t>& calls = wanted_[tasks_.snapshot().processes[target]->process()];
  const proto::SightLive& call = tasks_[task].top();
  if (call.wait() == proto::WAIT_CALL && calls.size() < kMostCalls) calls.push_back(call.target_span());
  if (!tasks_.processes()[target].complete) return;
  const Hearing::Finding finding = hearing_.of_open(task, target);
  if (finding.what == Hearing::What::kUnclear)
    vertices_[task].unresolved = true;
  else
    connect(task, unheard(finding, static_cast<int>(tasks_[task].process), target));
}

uint32_t WaitGraph::unheard(const Hearing::Finding& finding, int caller, int callee) {
  if (finding.what != Hearing::What::kLink) {
    const bool is_served = finding.what == Hearing::What::kServed;
    const uint32_t place =
        vertex(is_served ? Place::kUnanswered : Place::kNotServed, callee, -1, finding.region);
    vertices_[place].why = finding.why;
    return place;
  }
  const uint32_t link = vertex(Place::kLink, std::min(caller, callee), std::max(caller, callee), "");
  if (finding.mutual || vertices_[link].why.empty()) vertices_[link].why = finding.why;
  vertices_[link].mutual |= finding.mutual;
  return link;
}

std::vector<uint32_t> WaitGraph::callers_by_path(uint32_t task) const {
  const proto::SightPath* entry = tasks_.view(task).path(tasks_[task].root().path());
  std::vector<uint32_t> callers;
  if (entry == nullptr || entry->parent() == 0) return callers;
  for (const uint32_t other : tasks_.of_trace(tasks_[task].trace())) {
    if (other == task) continue;
    // The call has a calling context of its own below that of the region that makes it.
    const proto::SightPath* call = tasks_.view(other).path(entry->parent());
    const uint64_t region = call == nullptr ? 0 : call->parent();
    const auto& records = tasks_[other].records;
    const bool calls = std::any_of(records.begin(), records.end(), [&](const proto::SightLive* record) {
      return record->path() == entry->parent() || (region != 0 && record->path() == region);
    });
    if (calls) callers.push_back(other);
  }
  return callers;
}

void WaitGraph::add_upstream(uint32_t task) {
  const OpenTask& open = tasks_[task];
  const proto::SightLive& top = open.top();
  const uint64_t span = top.target_span() != 0 ? top.target_span() : open.root().parent();
  std::vector<uint32_t> callers;
  const auto take = [&](const std::vector<uint32_t>& found) {
    for (const uint32_t caller : found)
      if (caller != task) callers.push_back(caller);
  };
  take(tasks_.at_stream(span));
  if (callers.empty()) take(tasks_.holding(span));
  const bool is_exact = !callers.empty();
  if (!is_exact) callers = callers_by_path(task);
  if (callers.size() > kMostHolders) callers.resize(kMostHolders);
  for (const uint32_t caller : callers) {
    if (tasks_[caller].stalled)
      connect(task, caller, is_exact || callers.size() == 1 ? EdgeKind::kFirm : EdgeKind::kWeak);
    else
      vertices_[task].feeds = true;
  }
  if (!callers.empty()) return;

  // Whoever else works on the operation may hold the stream without having said so, or cannot say anything.
  bool has_others = false;
  for (const uint32_t other : tasks_.of_trace(open.trace())) {
    const int process = static_cast<int>(tasks_[other].process);
    if (tasks_[other].process == open.process) continue;
    const ProcessState& state = tasks_.processes()[process];
    if (state.silent || state.spinning)
      return connect(task, vertex(state.silent ? Place::kSilent : Place::kRunning, process, -1, ""));
    has_others = true;
    unresolved(task, process);
  }
  if (has_others) {
    vertices_[task].feeds = true;
    return;
  }
  const int process = tasks_.process_at(top.target());
  if (process >= 0) {
    const ProcessState& state = tasks_.processes()[process];
    if (state.silent || state.spinning)
      return connect(task, vertex(state.silent ? Place::kSilent : Place::kRunning, process, -1, ""));
    unresolved(task, process);
    if (!state.complete) return;
  }
  const uint32_t caller = vertex(Place::kCaller, process, -1, process >= 0 ? "" : top.target());
  vertices_[caller].why = "a handler waits for its caller, of which nothing is known";
  connect(task, caller);
}

void WaitGraph::add_join(uint32_t task) {
  const std::vector<uint32_t> children = tasks_.children(task);
  if (children.empty()) return nobody_there(task, "it waits for work of its own, none of which is open");
  std::vector<uint32_t> stalled;
  for (const uint32_t child : children)
    if (tasks_[child].stalled) stalled.push_back(child);
  const size_t moving = children.size() - stalled.size();
  const uint32_t need = tasks_[task].top().need();
  const bool blocked = need == 0 ? !stalled.empty() : moving < need;
  for (const uint32_t child : stalled)
    connect(task, child, blocked ? EdgeKind::kFirm : EdgeKind::kMasked);
  // Whoever is ahead waits for the one that joins them: that alone is no circle while others still move.
  if (moving > 0) vertices_[task].feeds = true;
}

void WaitGraph::add_sibling(uint32_t task) {
  const std::vector<uint32_t>& holders = tasks_.holding(tasks_[task].top().target_span());
  bool found = false;
  for (const uint32_t holder : holders)
    found = found || (holder != task && tasks_[holder].process == tasks_[task].process);
  if (!found) return nobody_there(task, "the task that it waits for is not open any more");
  connect_to_tasks(task, holders, true);
}

void WaitGraph::add_process(uint32_t task) {
  const int holder = tasks_.holder(tasks_[task].top());
  // One that reports is asked to give it back, and what keeps it from that stands still there.
  if (holder < 0 || !(tasks_.processes()[holder].silent || tasks_.processes()[holder].spinning))
    vertices_[task].feeds = true;
  else
    connect(task,
            vertex(tasks_.processes()[holder].silent ? Place::kSilent : Place::kRunning, holder, -1, ""));
}

void WaitGraph::add_resource(uint32_t task) {
  const OpenTask& open = tasks_[task];
  const std::string& resource = open.top().target();
  if (open.top().holder_ended()) {
    vertices_[task].why = "the task that had what it waits for has ended without giving it back";
    return;
  }
  // One holder that lets go is enough, so it waits for all of them only while all of them stand still.
  if (const auto& holders = tasks_.holding(open.top().target_span()); !holders.empty())
    return connect_to_tasks(task, holders, true);
  if (open.top().target_span() != 0) {  // it is open, and its report had no need to show it, since it moves
    vertices_[task].feeds = true;
    return;
  }
  size_t candidates = 0;
  for (const uint32_t other : stalled_of_process_[static_cast<int>(open.process)]) {
    if (other == task || awaits(other, resource)) continue;
    connect(task, other, EdgeKind::kWeak);
    if (++candidates == kMostHolders) break;
  }
  if (candidates == 0 && open.still < kLongForResource) vertices_[task].feeds = true;
}

bool WaitGraph::awaits(uint32_t task, const std::string& resource, int depth) const {
  const proto::SightLive& top = tasks_[task].top();
  if (top.wait() == proto::WAIT_RESOURCE) return top.target() == resource;
  if (top.wait() != proto::WAIT_JOIN || depth == kMostJoins) return false;
  const std::vector<uint32_t> children = tasks_.children(task);
  return !children.empty() &&
         std::ranges::all_of(children, [&](uint32_t child) { return awaits(child, resource, depth + 1); });
}

void WaitGraph::add_device(uint32_t task) {
  const OpenTask& open = tasks_[task];
  const model::ProcessView& view = tasks_.view(task);
  const std::string name = open.top().wait() == proto::WAIT_STORE && open.top().target().empty()
                               ? "key-value store"
                               : open.top().target();
  for (const proto::SightDevice& device : view.last().devices()) {
    if (device.peer() || device.name() != name) continue;
    const auto half = static_cast<uint64_t>(open.still.count()) / 2;
    if (device.oldest_pending_ns() >= half || device.submitted() == 0) break;
    vertices_[task].why = "the device has answered everything, and the task was not resumed";
    return;  // the device is not the cause
  }
  connect(task, vertex(Place::kDevice, static_cast<int>(open.process), -1, name));
}

void WaitGraph::add_ended() {
  for (const auto& [key, ended] : evidence_.ended().all()) {
    std::vector<uint32_t> targets;
    for (const uint32_t callee : tasks_.begun_by(ended.target_span))
      if (tasks_[callee].stalled) targets.push_back(callee);
    if (targets.empty() && is_stream_wait(ended.wait)) {
      const int target = tasks_.process_at(ended.target);
      if (target >= 0 && tasks_.processes()[target].silent)
        targets.push_back(vertex(Place::kSilent, target, -1, ""));
      else if (target >= 0 && tasks_.processes()[target].spinning)
        targets.push_back(vertex(Place::kRunning, target, -1, ""));
      else if (const int caller = tasks_.snapshot().index_of(ended.process); caller >= 0 && target >= 0)
        if (const auto finding = hearing_.of_given_up(ended, caller, target);
            finding.what != Hearing::What::kUnclear)
          targets.push_back(unheard(finding, caller, target));
    }
    if (targets.empty()) continue;
    vertices_.push_back({.place = Place::kEnded, .ended = &ended, .stalled = false});
    edges_.emplace_back();
    for (const uint32_t target : targets)
      connect(static_cast<uint32_t>(vertices_.size() - 1), target, EdgeKind::kEnded);
  }
}

}  // namespace kintsugi::progress
