#include "monitoring/progress/evidence/open_tasks.h"

#include <algorithm>

namespace kintsugi::progress {
namespace {

/// A task that goes round among few states without progress, such as one that sends empty frames to keep a stream
/// open, stands still although each of its waits is short; what goes round for so long makes no progress.
constexpr Duration kLongestRound = 12s;
/// A request of which the callee shows nothing for so long is lost, or not heard, however long such requests take that
/// it has heard. Reports of the two are up to a second apart.
constexpr Duration kUnheard = 4s;
/// Who has waited for children for so long, none of which is open, was not told of their end. Likewise who waits for
/// what a task of its process had that has ended: such waits begin anew when another one has it. And who waits for what
/// another process has that does nothing: a write lease is taken from it after ten seconds, and then nobody waits.
constexpr Duration kLeftAlone = 4s, kNotGivenBack = 1s;
const std::vector<uint32_t> kNobody;

const std::vector<uint32_t>& find(const std::unordered_map<uint64_t, std::vector<uint32_t>>& index,
                                  uint64_t span) {
  const auto found = span == 0 ? index.end() : index.find(span);
  return found == index.end() ? kNobody : found->second;
}

}  // namespace

OpenTasks::OpenTasks(const model::Snapshot& snapshot, const Sojourns& sojourns) : snapshot_(snapshot) {
  processes_.resize(snapshot.processes.size());
  for (uint32_t i = 0; i < snapshot.processes.size(); i++)
    add_process(i);
  for (uint32_t i = 0; i < tasks_.size(); i++) {
    OpenTask& task = tasks_[i];
    task.stalled = is_stalled(task, sojourns);
    if (task.root().parent() != 0) by_parent_[task.root().parent()].push_back(i);
    if (task.trace() != 0) by_trace_[task.trace()].push_back(i);
    const proto::SightLive& top = task.top();
    const bool at_stream = top.wait() == proto::WAIT_RECEIVE || top.wait() == proto::WAIT_SEND;
    if (at_stream && top.target_span() != 0) by_stream_[top.target_span()].push_back(i);
    uint64_t last = 0;
    for (const proto::SightLive* record : task.records) {
      if (record->span() != 0 && record->span() != last) by_span_[record->span()].push_back(i);
      last = record->span();
    }
  }
  for (uint32_t i = 0; i < tasks_.size(); i++)
    tasks_[i].stalled = tasks_[i].stalled || is_unheard(tasks_[i]) || is_left_alone(i);
}

void OpenTasks::add_process(uint32_t index) {
  const model::ProcessView& view = *snapshot_.processes[index];
  ProcessState& state = processes_[index];
  state.silent = !view.last().last() && snapshot_.silent(view) > kSilence;
  state.spinning = !state.silent && duration_of(view.last().loop().stalled_ns()) >= kLoopStall;
  state.complete = view.last().all_live() && !view.last().truncated();
  if (!view.last().address().empty()) {
    const auto [at, is_new] = by_address_.emplace(view.last().address(), static_cast<int>(index));
    if (!is_new && snapshot_.processes[at->second]->arrived() < view.arrived())
      at->second = static_cast<int>(index);
  }
  if (view.last().last()) return;  // the process has ended: nothing is open there

  std::unordered_map<uint32_t, uint32_t> by_number;
  for (const proto::SightLive& record : view.last().live()) {
    if (record.ended_ago_ns() != 0) {
      ended_.emplace_back(index, &record);
      continue;
    }
    // Task 0 is none: such a record is one by itself.
    uint32_t at = static_cast<uint32_t>(tasks_.size());
    if (record.task() != 0) at = by_number.emplace(record.task(), at).first->second;
    if (at == tasks_.size()) {
      tasks_.emplace_back();
      tasks_.back().process = index;
      tasks_.back().still = Duration::max();
    }
    tasks_[at].records.push_back(&record);
    tasks_[at].still = std::min(tasks_[at].still, duration_of(record.still_ns()));
  }
  for (const auto& [number, at] : by_number)
    std::stable_sort(tasks_[at].records.begin(), tasks_[at].records.end(), [](const auto* a, const auto* b) {
      if (a->task_root() != b->task_root()) return a->task_root();
      if (a->age_ns() != b->age_ns()) return a->age_ns() > b->age_ns();
      return a->wait() == proto::WAIT_NONE && b->wait() != proto::WAIT_NONE;
    });
}

bool OpenTasks::is_stalled(const OpenTask& task, const Sojourns& sojourns) const {
  const proto::SightLive& top = task.top();
  if (top.wait() == proto::WAIT_IDLE) return false;
  const ProcessState& process = processes_[task.process];
  if (process.silent || process.spinning) return true;  // nothing in this process can continue
  if (top.wait() == proto::WAIT_TIMER) return false;
  const Duration limit = sojourns.limit(state_key(*snapshot_.processes[task.process], top.state()));
  // While code holds the event loop nothing of the process can move: it will be said to run before anything in it is
  // said to stand still.
  const auto held = duration_of(snapshot_.processes[task.process]->last().loop().stalled_ns());
  if (task.still - held < limit) return false;
  if (duration_of(top.age_ns()) >= limit) return true;
  const bool counts = std::any_of(task.records.begin(), task.records.end(),
                                  [](const proto::SightLive* record) { return record->progress() > 0; });
  return counts && task.still >= kLongestRound;
}

bool OpenTasks::is_unheard(const OpenTask& task) const {
  const proto::SightLive& top = task.top();
  return top.wait() == proto::WAIT_CALL && top.target_span() != 0 && task.still >= kUnheard &&
         duration_of(top.age_ns()) >= kUnheard && process_at(top.target()) >= 0 &&
         begun_by(top.target_span()).empty();
}

bool OpenTasks::is_left_alone(uint32_t task) const {
  const proto::SightLive& top = tasks_[task].top();
  const auto has_waited = [&](Duration limit) {
    return tasks_[task].still >= limit && duration_of(top.age_ns()) >= limit;
  };
  if (top.wait() == proto::WAIT_JOIN) return has_waited(kLeftAlone) && children(task).empty();
  if (const int at = holder(top); at >= 0)
    return has_waited(kNotGivenBack) && (processes_[at].silent || processes_[at].spinning);
  return top.wait() == proto::WAIT_RESOURCE && top.holder_ended() && has_waited(kNotGivenBack);
}

std::vector<uint32_t> OpenTasks::children(uint32_t task) const {
  const OpenTask& open = tasks_[task];
  std::vector<uint32_t> found;
  const auto add = [&](uint64_t span) {
    for (const uint32_t child : begun_by(span))
      if (child != task && tasks_[child].process == open.process) found.push_back(child);
  };
  add(open.top().target_span());
  for (const proto::SightLive* record : open.records)
    add(record->span());
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

int OpenTasks::holder(const proto::SightLive& wait) const {
  const bool is_known = wait.wait() == proto::WAIT_PROCESS && wait.target_span() != 0;
  return is_known ? snapshot_.index_of(wait.target_span()) : -1;
}

const std::vector<uint32_t>& OpenTasks::begun_by(uint64_t span) const {
  return find(by_parent_, span);
}

const std::vector<uint32_t>& OpenTasks::holding(uint64_t span) const {
  return find(by_span_, span);
}

const std::vector<uint32_t>& OpenTasks::at_stream(uint64_t span) const {
  return find(by_stream_, span);
}

const std::vector<uint32_t>& OpenTasks::of_trace(uint64_t trace) const {
  return find(by_trace_, trace);
}

int OpenTasks::process_at(const std::string& address) const {
  const auto found = address.empty() ? by_address_.end() : by_address_.find(address);
  return found == by_address_.end() ? -1 : found->second;
}

std::string OpenTasks::region(uint32_t process, const proto::SightLive& record) const {
  return snapshot_.processes[process]->region(record.path());
}

std::string OpenTasks::region(uint32_t task) const {
  const OpenTask& open = tasks_[task];
  for (auto record = open.records.rbegin(); record != open.records.rend(); ++record)
    if (std::string text = region(open.process, **record); !text.empty()) return text;
  return open.top().function();
}

std::string OpenTasks::role(uint32_t task) const {
  const OpenTask& open = tasks_[task];
  const model::ProcessView& of = view(task);
  if (const proto::SightState* state = of.state(open.top().state()); state != nullptr)
    if (const std::string& name = of.role_name(state->role()); !name.empty()) return name;
  const proto::SightPath* path = of.path(open.root().path());
  return path == nullptr ? "" : path->site();
}

}  // namespace kintsugi::progress
