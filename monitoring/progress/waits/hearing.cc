#include "monitoring/progress/waits/hearing.h"

#include <algorithm>

namespace kintsugi::progress {
namespace {

/// A process that has begun to serve no request for so long serves nobody, or is asked for nothing.
constexpr Duration kQuiet = 4s;
/// Requests that were on their way when a process went deaf have begun by then.
constexpr Duration kUnderWay = 2s;

}  // namespace

Hearing::Hearing(const OpenTasks& tasks, const Evidence& evidence) : tasks_(tasks), evidence_(evidence) {
  const auto& processes = tasks.processes();
  std::set<std::pair<int, int>> unheard;  // (caller, callee)
  for (const OpenTask& task : tasks.all()) {
    const proto::SightLive& top = task.top();
    // The process may have ended, and with it the operation that made the call.
    if (processes[task.process].silent) continue;
    if (!task.stalled || !is_stream_wait(top.wait()) || !tasks.begun_by(top.target_span()).empty()) continue;
    const int caller = static_cast<int>(task.process), callee = tasks.process_at(top.target());
    unserved_[top.target()].insert(caller);
    if (callee >= 0 && processes[callee].complete) unheard.emplace(caller, callee);
  }
  for (const auto& [key, call] : evidence.ended().all())
    if (evidence.ended().is_unheard(call, evidence.movement(), tasks.snapshot().taken))
      unheard.emplace(tasks.snapshot().index_of(call.process), tasks.snapshot().index_of(call.callee));
  std::map<int, std::set<int>> partners;  // processes that do not hear each other
  for (const auto& [caller, callee] : unheard) {
    partners[caller].insert(callee);
    partners[callee].insert(caller);
    missed_by_[callee].insert(caller);
  }
  for (const auto& [caller, callee] : unheard)
    if (caller != callee && unheard.contains({callee, caller}) && partners[caller].size() == 1 &&
        partners[callee].size() == 1)
      broken_.emplace(std::min(caller, callee), std::max(caller, callee));
}

Hearing::Finding Hearing::of_open(uint32_t task, int callee) const {
  const TimePoint now = tasks_.snapshot().taken;
  const int caller = static_cast<int>(tasks_[task].process);
  if (caller == callee) return {What::kNotServed, "it has no task for a request of its own"};
  if (is_broken(caller, callee))
    return {What::kLink, "neither of the two hears the other, and nobody else misses either of them", true};

  const model::ProcessView& asked = *tasks_.snapshot().processes[callee];
  const auto missed_by = unserved_.find(asked.last().address());
  if (missed_by != unserved_.end() && missed_by->second.size() > 1)
    return {What::kNotServed, "it reports, but has no task for the requests of several callers"};
  const TimePoint made = now - duration_of(tasks_[task].top().age_ns());
  // It hears again: the request will come, or is given up.
  if (evidence_.movement().resumed_after(asked.process(), made)) return {};
  if (evidence_.movement().served_after(asked.process(), made + kUnderWay))
    return {What::kLink, "the callee has no task for the request, and has begun to serve others since"};
  // One request may be lost while the callee happens to have nothing else to do: that takes a while to tell.
  const auto idle = evidence_.movement().idle(asked.process(), now);
  if (idle && *idle < kQuiet) return {};
  return {What::kNotServed,
          "it reports, but has no task for a request, and has begun to serve nobody else since: it does not "
          "hear, "
          "or the link to the caller is broken"};
}

Hearing::Finding Hearing::of_given_up(const EndedWait& call, int caller, int callee) const {
  const model::ProcessView& asked = *tasks_.snapshot().processes[callee];
  // Who is called there now may be another process than the one that was.
  if (caller == callee || tasks_.processes()[caller].silent || asked.last().last() ||
      asked.process() != call.callee)
    return {};
  if (!evidence_.ended().is_unheard(call, evidence_.movement(), tasks_.snapshot().taken)) return {};
  if (is_broken(caller, callee))
    return {What::kLink, "both gave up what they had asked the other, and heard nothing of it"};
  const auto missed_by = missed_by_.find(callee);
  if (missed_by != missed_by_.end() && missed_by->second.size() > 1)
    return {What::kNotServed,
            "several callers gave up what they had asked, and nothing of it was heard there"};
  if (call.others_served)
    return {What::kLink,
            "what was asked was given up, and nothing of it was heard at the callee, which served others "
            "meanwhile"};
  return {};
}

bool Hearing::is_broken(int one, int other) const {
  return broken_.contains({std::min(one, other), std::max(one, other)});
}

}  // namespace kintsugi::progress
