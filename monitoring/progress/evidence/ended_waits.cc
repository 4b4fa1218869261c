#include "monitoring/progress/evidence/ended_waits.h"

#include <algorithm>

namespace kintsugi::progress {
namespace {

/// A call that was given up sooner may have been under way to a callee that is only busy.
constexpr Duration kLeastUnheard = 3s;
/// A call that was given up longer ago says nothing of now: a link that stays broken has others given up.
constexpr Duration kUnheardIsNews = 12s;
constexpr Duration kBetweenReports = 1s;
/// Answers of a peer are told while a call there is a second old, and may have come before that.
constexpr Duration kToldLate = 2s;
constexpr Duration kForgetSpan = 1min;
/// No call takes longer.
constexpr Duration kForgetProcess = 30min;

template <class Times>
void forget(Times& times, TimePoint now, Duration after) {
  std::erase_if(times, [&](const auto& entry) { return now - entry.second > after; });
}

}  // namespace

TimePoint EndedWait::made() const {
  return ended - duration_of(age_ns);
}

void EndedWaits::observe(const OpenTasks& tasks, const Movement& movement) {
  const TimePoint now = tasks.snapshot().taken;
  observe_heard(tasks);
  for (const auto& [process, record] : tasks.ended())
    take(tasks, process, *record, movement);
  std::erase_if(ended_, [&](const auto& entry) { return now - entry.second.ended > kRemember; });
}

void EndedWaits::observe_heard(const OpenTasks& tasks) {
  const TimePoint now = tasks.snapshot().taken;
  for (const OpenTask& task : tasks.all()) {
    const uint64_t span = task.root().parent();
    if (span == 0) continue;
    if (heard_.size() < kMaxHeard || heard_.contains(span)) heard_[span] = now;
    const model::ProcessView& callee = *tasks.snapshot().processes[task.process];
    const TimePoint begun = callee.arrived() - duration_of(task.root().age_ns());
    for (const std::vector<uint32_t>* callers : {&tasks.at_stream(span), &tasks.holding(span)})
      for (const uint32_t caller : *callers) {
        const std::pair key(tasks.view(caller).process(), callee.process());
        if (heard_by_.size() >= kMaxHeard && !heard_by_.contains(key)) continue;
        heard_by_[key] = std::max(heard_by_[key], begun);
      }
  }
  forget(heard_, now, kForgetSpan);
  // Commands come and go by the thousand: who is gone accuses nobody.
  std::erase_if(heard_by_, [&](const auto& entry) {
    return now - entry.second > kForgetProcess || tasks.snapshot().index_of(entry.first.first) < 0;
  });
}

void EndedWaits::take(const OpenTasks& tasks, uint32_t process, const proto::SightLive& record,
                      const Movement& movement) {
  const model::ProcessView& view = *tasks.snapshot().processes[process];
  const Key key(view.process(), record.span(), record.target_span());
  const bool heard = heard_.contains(record.target_span());
  const TimePoint ended = view.arrived() - duration_of(record.ended_ago_ns());
  const auto known = ended_.find(key);
  // A wait is told again in the next report or two; a later one of the same place replaces it.
  if (known != ended_.end() && ended - known->second.ended < kBetweenReports) {
    known->second.heard |= heard;
    return;
  }
  if (known == ended_.end() && ended_.size() >= kMaxEnded) return;
  const proto::SightPath* path = view.path(record.path());
  EndedWait wait{.process = view.process(),
                 .display = view.display(),
                 .region = tasks.region(process, record),
                 .role = path == nullptr ? "" : path->site(),
                 .target = record.target(),
                 .trace = record.trace(),
                 .target_span = record.target_span(),
                 .age_ns = record.age_ns(),
                 .wait = record.wait(),
                 .file = record.file(),
                 .function = record.function(),
                 .line = record.line(),
                 .outcome = record.outcome(),
                 .ended = ended,
                 .heard = heard};
  if (const int at = is_stream_wait(wait.wait) ? tasks.process_at(wait.target) : -1; at >= 0) {
    const model::ProcessView& callee = *tasks.snapshot().processes[at];
    if (callee.started() <= wait.made()) wait.callee = callee.process();
  }
  wait.others_served = movement.served_after(wait.callee, wait.made() + kBetweenReports) &&
                       !movement.resumed_after(wait.callee, wait.made());
  ended_[key] = std::move(wait);
}

bool EndedWaits::is_unheard(const EndedWait& call, const Movement& movement, const Unwell& unwell,
                            TimePoint now) const {
  if (call.callee == 0 || call.ended - call.made() < kLeastUnheard || now - call.ended > kUnheardIsNews)
    return false;
  // A call that found no place in a table may have been heard.
  if (heard_.size() >= kMaxHeard || heard_by_.size() >= kMaxHeard) return false;
  if (call.heard || heard_.contains(call.target_span)) return false;
  const auto heard = heard_by_.find({call.process, call.callee});
  if (heard != heard_by_.end() && heard->second >= call.made()) return false;
  if (unwell.since(call.process, call.made()) || unwell.since(call.callee, call.made())) return false;
  return !movement.moved_after(call.process, call.target, call.made() + kToldLate);
}

}  // namespace kintsugi::progress
