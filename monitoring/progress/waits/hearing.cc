#include "monitoring/progress/waits/hearing.h"

#include <algorithm>

namespace kintsugi::progress {
namespace {

/// A pair of processes that has moved nothing for so long, while one waits for the other, does not hear each other.
/// Counters of peers that nobody waits for are reported every ten seconds only.
constexpr Duration kQuiet = 4s, kLately = 12s;
/// By then whoever takes no more requests has ended those that it had, as a rule.
constexpr Duration kDrained = 2s;

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
  }
  for (const auto& [caller, callee] : unheard)
    if (caller != callee && unheard.contains({callee, caller}) && partners[caller].size() == 1 &&
        partners[callee].size() == 1)
      broken_.emplace(std::min(caller, callee), std::max(caller, callee));
}

Hearing::Finding Hearing::of_open(uint32_t task, int callee) {
  const auto& processes = tasks_.snapshot().processes;
  const TimePoint now = tasks_.snapshot().taken;
  const uint64_t callee_id = processes[callee]->process();
  const std::string& address = processes[callee]->last().address();
  const int caller = static_cast<int>(tasks_[task].process);
  if (caller == callee) return {What::kNotServed, "it has no task for a request of its own"};
  if (is_broken(caller, callee))
    return {What::kLink, "neither of the two hears the other, and nobody else misses either of them", true};

  const auto own = evidence_.movement().unmoved(processes[caller]->process(), address, now);
  const std::set<int>& answered = answered_by(callee);
  // Clients that come and go count nothing that lasts, but the callee begins to serve them.
  const Duration waited = duration_of(tasks_[task].top().age_ns());
  const bool is_alone = unserved_[address].size() < 2;
  // Requests that it has served since it should have begun this one came from others, too.
  const bool serves =
      is_alone && tasks_[task].still > kDrained &&
      evidence_.movement().moved_within(callee_id, Movement::kServed, now, tasks_[task].still - kDrained);
  const bool others_move = answered.size() > answered.count(caller) || serves ||
                           evidence_.movement().served_after(callee_id, now - waited);
  const bool pair_is_quiet = own && *own > kQuiet;
  if (others_move && pair_is_quiet)
    return {What::kLink, "nothing comes through between the two, while others are answered"};
  if (others_move && is_alone)
    return {What::kLink, "a request has no task at the callee, which answers others: a message was lost"};
  if (!is_alone) return {What::kNotServed, "it reports, but has no task for the request"};
  // One request may be lost while the callee happens to have nothing else to do: that takes a while to tell.
  const auto idle = evidence_.movement().unmoved(callee_id, Movement::kServed, now);
  if (idle && *idle < kQuiet) return {};
  return {What::kEitherEnd,
          "one process alone has requests there without a task, and nobody else asks for anything: it is the "
          "callee, or what lies between"};
}

Hearing::Finding Hearing::of_given_up(const EndedWait& call, int caller, int callee) const {
  const model::ProcessView& asked = *tasks_.snapshot().processes[callee];
  // Who is called there now may be another process than the one that was.
  if (caller == callee || tasks_.processes()[caller].silent || asked.last().last() ||
      asked.process() != call.callee)
    return {};
  if (!evidence_.ended().is_unheard(call, evidence_.movement(), tasks_.snapshot().taken)) return {};
  if (is_broken(caller, callee))
    return {What::kEitherEnd, "both gave up what they had asked the other, and heard nothing of it"};
  if (call.others_served)
    return {What::kEitherEnd,
            "what was asked was given up, and nothing of it was heard at the callee, which served others "
            "meanwhile"};
  return {};
}

bool Hearing::is_broken(int one, int other) const {
  return broken_.contains({std::min(one, other), std::max(one, other)});
}

const std::set<int>& Hearing::answered_by(int callee) {
  const auto [at, is_new] = answered_.try_emplace(callee);
  std::set<int>& answered = at->second;
  if (!is_new) return answered;
  const auto& processes = tasks_.snapshot().processes;
  const std::string& address = processes[callee]->last().address();
  for (size_t i = 0; i < processes.size() && answered.size() < 2; i++)
    if (static_cast<int>(i) != callee &&
        evidence_.movement().moved_within(processes[i]->process(), address, tasks_.snapshot().taken, kLately))
      answered.insert(static_cast<int>(i));
  // Work that moves there, for whoever asked for it.
  for (uint32_t task = 0; task < tasks_.all().size() && answered.size() < 2; task++) {
    if (static_cast<int>(tasks_[task].process) != callee || tasks_[task].stalled) continue;
    const uint64_t span = tasks_[task].root().parent();
    for (const std::vector<uint32_t>* callers : {&tasks_.at_stream(span), &tasks_.holding(span)})
      for (const uint32_t caller : *callers)
        if (static_cast<int>(tasks_[caller].process) != callee)
          answered.insert(static_cast<int>(tasks_[caller].process));
  }
  return answered;
}

}  // namespace kintsugi::progress
