#include "monitoring/sight/reporter.h"

#include <algorithm>
#include <string_view>

#include <unistd.h>

#include "monitoring/sight/report_entries.h"
#include "monitoring/sight/source_place.h"

namespace kintsugi::sight {

namespace {

/// What tasks do that serve a request has a name that begins so.
constexpr std::string_view kServes = "serve.";

int64_t nanoseconds(TimePoint time) {
  return time.time_since_epoch().count();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

}  // namespace

Reporter::Reporter(const Recorder& recorder, Reporting who, ReporterLimits limits)
    : recorder_(recorder),
      limits_(limits),
      began_(recorder.now()),
      host_(host_name()),
      who_(std::move(who)),
      dictionary_(recorder, limits.dictionary_bytes),
      totals_(recorder, limits.totals_bytes, limits.still),
      samples_(recorder, limits.samples) {}

void Reporter::set_who(Reporting who) {
  const std::lock_guard lock(mutex_);
  who_ = std::move(who);
}

Reporting Reporter::who() const {
  const std::lock_guard lock(mutex_);
  return who_;
}

proto::SightReport Reporter::make(TimePoint now, WallTime wall, proto::SightLoop loop,
                                  proto::SightSystem system) {
  proto::SightReport report;
  report.set_process(recorder_.process());
  const Reporting who = this->who();
  report.set_kind(who.kind);
  report.set_name(who.name);
  report.set_server_id(who.server_id);
  report.set_address(who.address);
  report.set_host(who.host.empty() ? host_ : who.host);
  report.set_sequence(++sequence_);
  report.set_wall_ns(wall.time_since_epoch().count());
  report.set_uptime_ns(since(nanoseconds(now), nanoseconds(began_)));
  *report.mutable_loop() = std::move(loop);
  *report.mutable_system() = std::move(system);
  const LiveWork& live = recorder_.live();
  report.set_dropped(live.dropped());
  report.set_implicit_tasks(live.implicit_tasks().count());
  const bool with_totals = sequence_ % limits_.totals_every == 1;
  const std::vector<OpenTask> tasks = open_tasks(live);
  ReportedPlaces places;
  tell_live(report, tasks, places, nanoseconds(now));
  tell_roles(report, tasks, all_live_ || with_totals, nanoseconds(now));
  if (report.loop().stalled_ns() != 0) tell_last_touched(report, places, nanoseconds(now));
  tell_ended(report, nanoseconds(now));
  tell_served(report, nanoseconds(now));
  dictionary_.tell(report, places);
  totals_.tell(report, nanoseconds(now), with_totals);
  samples_.tell(report);
  for (proto::SightCheck& check : recorder_.peer_checks().latest())
    *report.add_checks() = std::move(check);
  if (report.ByteSizeLong() > limits_.report_bytes) {
    // What is open matters most.
    report.set_truncated(true);
    report.clear_samples();
    report.clear_edges();
    report.clear_waits();
  }
  return report;
}

void Reporter::fill(proto::SightLive& live, const LiveRecord& record, const TaskRecord& task, uint32_t slot,
                    int64_t now) const {
  live.set_trace(record.trace_id);
  live.set_span(record.span_id);
  live.set_parent(record.parent_span_id);
  live.set_path(record.path);
  live.set_age_ns(since(now, record.entered_ns));
  live.set_progress(record.progress);
  live.set_task(task.generation % (1 << 18) * (1 << 13) + slot);
  live.set_state(record.state);
  live.set_wait(static_cast<proto::WaitKind>(record.wait));
  live.set_need(record.need);
  if (record.target != 0) live.set_target(recorder_.live().targets().name_of(record.target));
  live.set_target_span(record.target_span);
  live.set_file(short_file(record.where.file_name()));
  live.set_line(record.where.line());
  live.set_function(short_function(record.where.function_name()));
  live.set_background((record.flags & kFlagBackground) != 0);
  live.set_holder_ended(record.wait == WaitKind::kResource && record.target_span != 0 &&
                        !recorder_.live().records().is_open(record.target_span));
}

/// Tells tasks that do not move, and the oldest ones; all of them, when that was asked for.
void Reporter::tell_live(proto::SightReport& report, const std::vector<OpenTask>& tasks,
                         ReportedPlaces& places, int64_t now) const {
  const int64_t still = limits_.still.count();
  report.set_all_live(all_live_);
  size_t oldest = 0, bytes = report.ByteSizeLong();
  for (const OpenTask& open : tasks) {
    const bool old = now - open.task.began_ns >= still && !open.idle && oldest++ < limits_.oldest;
    const bool stands = now - open.moved_ns >= still && !open.idle;
    if (!all_live_ && !old && !stands) continue;
    if (bytes > limits_.report_bytes - limits_.dictionary_bytes / 2) {
      report.set_truncated(true);
      report.set_all_live(false);
      break;
    }
    bytes += tell_task(report, open, places, now);
  }
}

/// Tells the stack of a task from its root up. Returns how many bytes that takes.
size_t Reporter::tell_task(proto::SightReport& report, const OpenTask& open, ReportedPlaces& places,
                           int64_t now) const {
  size_t bytes = 0;
  for (auto record = open.records.rbegin(); record != open.records.rend(); ++record) {
    proto::SightLive& told = *report.add_live();
    fill(told, *record, open.task, open.slot, now);
    told.set_still_ns(since(now, open.moved_ns));
    if (record == open.records.rbegin()) {
      told.set_task_root(true);
      bytes += tell_held(report, open, places, now);
      if (open.task.overflowed == 0)
        for (size_t i = 0; i < std::min<size_t>(open.task.edge_count, TaskRecord::kEdges); ++i)
          for (uint32_t value :
               {uint32_t{open.task.edges[i].from}, uint32_t{open.task.edges[i].to}, open.task.edges[i].count})
            told.add_loop_edges(value);
    } else if (record->site != nullptr) {
      places.parents.emplace(record->path, std::prev(record)->path);
    }
    if (record->site != nullptr) places.records.emplace(record->path, *record);
    bytes += told.ByteSizeLong() + kEntryBytes;
  }
  return bytes;
}

/// Tells the streams that a task has open. Returns how many bytes that takes.
size_t Reporter::tell_held(proto::SightReport& report, const OpenTask& open, ReportedPlaces& places,
                           int64_t now) const {
  size_t bytes = 0;
  for (const LiveRecord& stream : open.held) {
    proto::SightLive& holds = *report.add_live();
    fill(holds, stream, open.task, open.slot, now);
    holds.set_still_ns(since(now, open.moved_ns));
    // Not a place where the task is: it counts as old as the task, so that nobody takes it for the innermost.
    holds.set_age_ns(since(now, open.task.began_ns));
    places.records.emplace(stream.path, stream);
    for (const LiveRecord& each : open.records)
      if (each.span_id == stream.parent_span_id && each.site != nullptr)
        places.parents.emplace(stream.path, each.path);
    bytes += holds.ByteSizeLong() + kEntryBytes;
  }
  return bytes;
}

/// Counts of tasks by role, of those that have tasks which are not new. `all`: of every role that ever had one.
void Reporter::tell_roles(proto::SightReport& report, const std::vector<OpenTask>& tasks, bool all,
                          int64_t now) {
  std::map<uint16_t, proto::SightRole> roles;
  for (const OpenTask& open : tasks) {
    proto::SightRole& role = roles[open.task.role];
    role.set_oldest_ns(std::max<uint64_t>(role.oldest_ns(), since(now, open.task.began_ns)));
    if (role.waiting_by_kind_size() == 0) role.mutable_waiting_by_kind()->Resize(runtime::kWaitKinds, 0);
    const auto wait = static_cast<int>(open.records.front().wait);
    role.set_waiting_by_kind(wait, role.waiting_by_kind(wait) + 1);
  }
  // Roles with nothing open, too: that a process begins to serve requests shows that it hears somebody.
  const auto totals = recorder_.live().roles().read();
  reported_begun_.resize(totals.size());
  begun_pending_ = reported_begun_;
  const auto serves_more = [&](size_t number) {
    return totals[number].site != nullptr && totals[number].begun != reported_begun_[number] &&
           std::string_view(totals[number].site->name).starts_with(kServes);
  };
  for (size_t number = 0; number < totals.size(); number++)
    if (serves_more(number) || (all && totals[number].begun > 0))
      roles.try_emplace(static_cast<uint16_t>(number));
  for (auto& [number, role] : roles) {
    if (number >= totals.size() || totals[number].site == nullptr) continue;
    role.set_role(number);
    role.set_name(std::string(totals[number].site->name));
    role.set_live(totals[number].live);
    role.set_begun(totals[number].begun);
    role.set_ended(totals[number].ended);
    role.set_failed(totals[number].failed);
    role.set_faulty(totals[number].faulty);
    if (!all && !serves_more(number) && role.oldest_ns() < static_cast<uint64_t>(limits_.still.count()))
      continue;
    begun_pending_[number] = role.begun();
    *report.add_roles() = role;
  }
}

void Reporter::tell_last_touched(proto::SightReport& report, ReportedPlaces& places, int64_t now) const {
  const LiveWork& live = recorder_.live();
  LiveRecord record;
  TaskRecord task;
  const uint32_t slot = live.last_touched();
  if (slot == 0 || !live.records().read(slot, record) || !live.tasks().read(record.task, task)) return;
  proto::SightLive& told = *report.mutable_loop()->mutable_last_touch();
  fill(told, record, task, record.task, now);
  told.set_still_ns(report.loop().stalled_ns());
  if (record.site != nullptr) places.records.emplace(record.path, record);
}

void Reporter::tell_ended(proto::SightReport& report, int64_t now) {
  ended_pending_ = ended_reported_;
  for (const EndedWait& ended : recorder_.live().ended_waits().read()) {
    const bool waited = ended.ended_ns - ended.record.entered_ns >= limits_.still.count();
    if (!waited || ended.ended_ns <= ended_reported_ || now - ended.ended_ns > Duration(60s).count())
      continue;
    proto::SightLive& told = *report.add_live();
    fill(told, ended.record, TaskRecord{}, 0, ended.ended_ns);
    told.set_task(0);
    told.set_still_ns(told.age_ns());
    told.set_ended_ago_ns(std::max<uint64_t>(1, since(now, ended.ended_ns)));
    told.set_outcome(static_cast<uint32_t>(ended.outcome));
    ended_pending_ = std::max(ended_pending_, ended.ended_ns);
  }
}

void Reporter::tell_served(proto::SightReport& report, int64_t now) const {
  for (const ServedCall& served : recorder_.served_calls().find(asked_calls_)) {
    proto::SightServed& told = *report.add_served();
    told.set_call(served.call);
    told.set_region(std::string(served.site->name));
    told.set_outcome(static_cast<uint32_t>(served.outcome));
    told.set_ended_ago_ns(since(now, served.ended_ns));
  }
}

void Reporter::delivered(const proto::SightReportAnswer& answer) {
  dictionary_.delivered();
  samples_.delivered(answer);
  ended_reported_ = ended_pending_;
  reported_begun_ = begun_pending_;
  all_live_ = answer.all_live();
  const int asked = std::min(answer.calls_size(), limits_.asked_calls);
  asked_calls_.assign(answer.calls().begin(), answer.calls().begin() + asked);
  if (!answer.dictionary()) return;
  dictionary_.forget();
  totals_.forget();
}

void Reporter::forget() {
  dictionary_.forget();
  totals_.forget();
  asked_calls_.clear();
  all_live_ = true;
}

}  // namespace kintsugi::sight
