#include "monitoring/progress/waits/hearing.h"

namespace kintsugi::progress {
namespace {

/// A process that has begun to serve no request for so long serves nobody, or is asked for nothing.
constexpr Duration kQuiet = 4s;
/// Requests that were on their way when a process went deaf have begun by then.
constexpr Duration kUnderWay = 2s;

}  // namespace

Hearing::Hearing(const OpenTasks& tasks, const Evidence& evidence) : tasks_(tasks), evidence_(evidence) {
  const auto& processes = tasks.processes();
  for (uint32_t i = 0; i < tasks.all().size(); i++) {
    const OpenTask& task = tasks[i];
    const proto::SightLive& top = task.top();
    // The process may have ended, and with it the operation that made the call.
    if (processes[task.process].silent) continue;
    if (!task.stalled || !is_stream_wait(top.wait()) || !tasks.begun_by(top.target_span()).empty()) continue;
    const int caller = static_cast<int>(task.process), callee = tasks.process_at(top.target());
    // A process that was started since the call cannot have heard it: the one before it was called.
    if (callee < 0 || tasks.snapshot().processes[callee]->started() > made(i)) continue;
    unserved_[callee].insert(place_of(caller));
    if (processes[callee].complete) note_unheard(caller, callee);
  }
  for (const auto& [key, call] : evidence.ended().all()) {
    const int caller = tasks.snapshot().index_of(call.process);
    const int callee = tasks.snapshot().index_of(call.callee);
    if (caller < 0 || callee < 0 || processes[caller].silent) continue;
    if (evidence.ended().is_unheard(call, evidence.movement(), evidence.unwell(), tasks.snapshot().taken))
      note_unheard(caller, callee);
  }
}

std::string Hearing::place_of(int process) const {
  const proto::SightReport& last = tasks_.snapshot().processes[process]->last();
  if (!last.address().empty()) return last.address();
  const std::string& machine = last.host().empty() ? last.system().machine() : last.host();
  return machine.empty() ? tasks_.snapshot().processes[process]->display() : machine;
}

TimePoint Hearing::made(uint32_t task) const {
  return tasks_.view(task).arrived() - duration_of(tasks_[task].top().age_ns());
}

const proto::SightServed* Hearing::served(uint32_t task, int callee) const {
  const model::ProcessView& asked = *tasks_.snapshot().processes[callee];
  for (const proto::SightServed& one : asked.last().served()) {
    if (one.call() != tasks_[task].top().target_span()) continue;
    // The answer may have been on its way when the caller reported.
    const TimePoint ended = asked.arrived() - duration_of(one.ended_ago_ns());
    return tasks_.view(task).arrived() - ended >= kUnderWay ? &one : nullptr;
  }
  return nullptr;
}

void Hearing::note_unheard(int caller, int callee) {
  missed_by_[callee].insert(place_of(caller));
  unheard_[place_of(caller)].insert(place_of(callee));
}

Hearing::Finding Hearing::of_open(uint32_t task, int callee) const {
  const TimePoint now = tasks_.snapshot().taken;
  const int caller = static_cast<int>(tasks_[task].process);
  if (caller == callee) return {What::kNotServed, "it has no task for a request of its own"};
  if (const proto::SightServed* known = served(task, callee))
    return {What::kServed, "it has served the request to its end, and the caller still waits for the answer",
            known->region()};
  if (is_broken(caller, callee))
    return {.what = What::kLink,
            .why = "neither of the two receives requests of the other, and all others reach both",
            .mutual = true};

  const model::ProcessView& asked = *tasks_.snapshot().processes[callee];
  const TimePoint made = this->made(task);
  if (asked.started() > made) return {};  // it was started since, and the call will fail
  const auto missed_by = unserved_.find(callee);
  if (missed_by != unserved_.end() && missed_by->second.size() > 1)
    return {What::kNotServed, "it reports, but has no task for the requests of several callers"};
  if (misses_many_alone(caller, callee)) return {};
  // Whoever could not run since it meant to ask may not have sent anything yet.
  if (evidence_.unwell().since(tasks_.view(task).process(), made)) return {};
  // It hears again: the request will come, or is given up.
  if (evidence_.movement().resumed_after(asked.process(), made)) return {};
  if (evidence_.movement().moved_after(tasks_.view(task).process(), tasks_[task].top().target(),
                                       made + kUnderWay))
    return {What::kNotServed, "it has no task for the request, and has answered others of the caller since"};
  if (evidence_.movement().served_after(asked.process(), made + kUnderWay)) {
    // Who could not hear for a while may hear the rest later.
    if (evidence_.unwell().since(asked.process(), made)) return {};
    return {What::kLink, "the callee has no task for the request, and has begun to serve others since"};
  }
  // One request may be lost while the callee happens to have nothing else to do: that takes a while to tell.
  const auto idle = evidence_.movement().idle(asked.process(), now);
  if (idle && *idle < kQuiet) return {};
  return {What::kNotServed,
          "it reports, but has no task for a request, and has begun to serve no other since: it does not "
          "receive, or the link to the caller is broken"};
}

Hearing::Finding Hearing::of_given_up(const EndedWait& call, int caller, int callee) const {
  const model::ProcessView& asked = *tasks_.snapshot().processes[callee];
  // Who is called there now may be another process than the one that was.
  if (caller == callee || tasks_.processes()[caller].silent || asked.last().last() ||
      asked.process() != call.callee)
    return {};
  if (!evidence_.ended().is_unheard(call, evidence_.movement(), evidence_.unwell(), tasks_.snapshot().taken))
    return {};
  if (is_broken(caller, callee))
    return {What::kLink, "both gave up a request to the other, and neither received the other's"};
  const auto missed_by = missed_by_.find(callee);
  if (missed_by != missed_by_.end() && missed_by->second.size() > 1)
    return {What::kNotServed, "several callers gave up their requests, which did not arrive there"};
  if (call.others_served)
    return {What::kLink,
            "the caller gave up a request, which did not arrive at the callee; the callee served others "
            "meanwhile"};
  return {};
}

bool Hearing::is_broken(int one, int other) const {
  const std::string here = place_of(one), there = place_of(other);
  if (here == there) return false;
  const auto misses_only = [&](const std::string& caller, const std::string& callee) {
    const auto missed = unheard_.find(caller);
    return missed != unheard_.end() && missed->second == Places{callee};
  };
  const auto is_missed_only_by = [&](int callee, const std::string& caller) {
    const auto missed_by = missed_by_.find(callee);
    return missed_by != missed_by_.end() && missed_by->second == Places{caller};
  };
  return misses_only(here, there) && misses_only(there, here) && is_missed_only_by(one, there) &&
         is_missed_only_by(other, here);
}

bool Hearing::misses_many_alone(int caller, int callee) const {
  const auto missed = unheard_.find(place_of(caller));
  const auto missed_by = missed_by_.find(callee);
  return missed != unheard_.end() && missed->second.size() > 1 && missed_by != missed_by_.end() &&
         missed_by->second.size() == 1;
}

}  // namespace kintsugi::progress
