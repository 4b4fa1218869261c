#include "monitoring/sight/reporter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>

#include <unistd.h>

#include "common/rpc/method.h"

namespace kintsugi::sight {

namespace {

using runtime::LiveRecord;
using runtime::LiveWork;
using runtime::RegionKind;
using runtime::TaskRecord;

constexpr size_t kMaxDepth = 64;      ///< of a task's stack, as far as it is told
constexpr size_t kSummaryLine = 200;  ///< bytes

/// An open task with its records, the innermost first.
struct OpenTask {
  uint32_t slot = 0;
  TaskRecord task{};
  std::vector<LiveRecord> records;
  std::vector<LiveRecord> held;  ///< streams that it has open
  int64_t moved_ns = 0;          ///< when anything of it moved last
  bool idle = false;             ///< it waits for work to come, and nobody's operation waits for it
};

int64_t nanoseconds(TimePoint time) {
  return time.time_since_epoch().count();
}

uint64_t since(int64_t now, int64_t then) {
  return static_cast<uint64_t>(std::max<int64_t>(0, now - then));
}

std::vector<OpenTask> open_tasks(const LiveWork& live) {
  std::vector<OpenTask> tasks;
  std::unordered_multimap<uint32_t, LiveRecord> held;
  LiveRecord beside;
  for (uint32_t slot = 1; slot < live.record_slots(); ++slot)
    if (live.read_record(slot, beside) && beside.below == slot) held.emplace(beside.task, beside);
  for (uint32_t slot = 1; slot < live.task_slots(); ++slot) {
    OpenTask open;
    open.slot = slot;
    if (!live.read_task(slot, open.task)) continue;
    open.moved_ns = open.task.changed_ns;
    LiveRecord record;
    for (uint32_t at = open.task.top; at != 0 && open.records.size() < kMaxDepth; at = record.below) {
      // A stack that changes while it is read is told as far as it was seen: it moves, so nobody waits for it.
      if (!live.read_record(at, record) || record.task != slot) break;
      open.moved_ns = std::max({open.moved_ns, record.progressed_ns});
      open.records.push_back(record);
    }
    if (open.records.empty()) continue;
    for (auto [each, end] = held.equal_range(slot); each != end; ++each) {
      // The task that opened it may have ended, and its number been given again.
      const bool is_its = each->second.trace_id == open.records.back().trace_id &&
                          each->second.entered_ns >= open.task.began_ns;
      if (is_its && open.held.size() < kMaxDepth) open.held.push_back(each->second);
    }
    // Opening a region is no movement of its own: a loop of few states goes round without end.
    open.moved_ns = std::max(open.task.changed_ns, open.task.began_ns);
    for (const LiveRecord& each : open.records)
      if (each.progress != 0) open.moved_ns = std::max(open.moved_ns, each.progressed_ns);
    open.idle =
        open.records.front().wait == runtime::WaitKind::kIdle && open.records.back().parent_span_id == 0;
    tasks.push_back(std::move(open));
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const OpenTask& a, const OpenTask& b) { return a.task.began_ns < b.task.began_ns; });
  return tasks;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

}  // namespace

std::string short_file(const char* file) {
  static const std::string_view here = __FILE__;
  static const size_t root = here.size() - std::string_view("monitoring/sight/reporter.cc").size();
  const std::string_view name = file;
  return std::string(name.starts_with(here.substr(0, root)) ? name.substr(root) : name);
}

std::string short_function(const char* function) {
  std::string_view name = function;
  // "R ns::Class::function(P)" with templates anywhere: what stands before the first parenthesis outside of them, behind
  // the last blank before that.
  size_t end = name.size(), begin = 0;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth != 0) continue;
    if (name[i] == '(' && !name.substr(i).starts_with("(anonymous namespace)") &&
        !name.substr(i).starts_with("(lambda")) {
      end = i;
      break;
    }
    if (name[i] == ' ' && !name.substr(i).starts_with(" namespace)")) begin = i + 1;
  }
  std::string result(name.substr(begin, end - begin));
  for (std::string_view noise : {"kintsugi::", "(anonymous namespace)::"})
    for (size_t at = result.find(noise); at != std::string::npos; at = result.find(noise))
      result.erase(at, noise.size());
  return result;
}

Reporter::Reporter(const Recorder& recorder, uint64_t process, Reporting who, ReporterLimits limits)
    : recorder_(recorder),
      process_(process),
      limits_(limits),
      began_(recorder.now()),
      host_(host_name()),
      who_(std::move(who)) {}

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
  report.set_process(process_);
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
  report.set_implicit_tasks(live.implicit_tasks());
  tell_live(report, nanoseconds(now));
  if (report.loop().stalled_ns() != 0) tell_last_touched(report, nanoseconds(now));
  tell_ended(report, nanoseconds(now));
  tell_dictionary(report);
  tell_totals(report, nanoseconds(now));
  tell_samples(report);
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
  if (record.target != 0) live.set_target(recorder_.live().target_name(record.target));
  live.set_target_span(record.target_span);
  live.set_file(short_file(record.where.file_name()));
  live.set_line(record.where.line());
  live.set_function(short_function(record.where.function_name()));
  live.set_background((record.flags & runtime::kFlagBackground) != 0);
}

void Reporter::tell_live(proto::SightReport& report, int64_t now) {
  const std::vector<OpenTask> tasks = open_tasks(recorder_.live());
  const int64_t still = limits_.still.count();
  report.set_all_live(all_live_);
  size_t oldest = 0, bytes = report.ByteSizeLong();
  places_.clear();
  parents_.clear();
  std::map<uint16_t, proto::SightRole> roles;
  const auto totals = recorder_.live().roles();
  for (const OpenTask& open : tasks) {
    proto::SightRole& role = roles[open.task.role];
    role.set_oldest_ns(std::max<uint64_t>(role.oldest_ns(), since(now, open.task.began_ns)));
    if (role.waiting_by_kind_size() == 0) role.mutable_waiting_by_kind()->Resize(runtime::kWaitKinds, 0);
    const auto wait = static_cast<int>(open.records.front().wait);
    role.set_waiting_by_kind(wait, role.waiting_by_kind(wait) + 1);

    const bool old = now - open.task.began_ns >= still && !open.idle && oldest++ < limits_.oldest;
    const bool stands = now - open.moved_ns >= still && !open.idle;
    if (!all_live_ && !old && !stands) continue;
    if (bytes > limits_.report_bytes - limits_.dictionary_bytes / 2) {
      report.set_truncated(true);
      report.set_all_live(false);
      break;
    }
    for (auto record = open.records.rbegin(); record != open.records.rend(); ++record) {
      proto::SightLive& told = *report.add_live();
      fill(told, *record, open.task, open.slot, now);
      told.set_still_ns(since(now, open.moved_ns));
      if (record == open.records.rbegin()) {
        told.set_task_root(true);
        for (const LiveRecord& stream : open.held) {
          proto::SightLive& holds = *report.add_live();
          fill(holds, stream, open.task, open.slot, now);
          holds.set_still_ns(since(now, open.moved_ns));
          // Not a place where the task is: it counts as old as the task, so that nobody takes it for the innermost.
          holds.set_age_ns(since(now, open.task.began_ns));
          places_.emplace(stream.path, stream);
          for (const LiveRecord& each : open.records)
            if (each.span_id == stream.parent_span_id && each.site != nullptr)
              parents_.emplace(stream.path, each.path);
          bytes += holds.ByteSizeLong() + 4;
        }
        if (open.task.overflowed == 0)
          for (size_t i = 0; i < std::min<size_t>(open.task.edge_count, TaskRecord::kEdges); ++i)
            for (uint32_t value : {uint32_t{open.task.edges[i].from}, uint32_t{open.task.edges[i].to},
                                   open.task.edges[i].count})
              told.add_loop_edges(value);
      } else if (record->site != nullptr) {
        parents_.emplace(record->path, std::prev(record)->path);
      }
      if (record->site != nullptr) places_.emplace(record->path, *record);
      bytes += told.ByteSizeLong() + 4;
    }
  }
  // Roles with nothing open, too: that a process begins to serve requests shows that it hears somebody.
  const bool tells_all = all_live_ || sequence_ % limits_.totals_every == 1;
  told_begun_.resize(totals.size());
  const auto serves_more = [&](size_t number) {
    return totals[number].site != nullptr && totals[number].begun != told_begun_[number] &&
           std::string_view(totals[number].site->name).starts_with("serve.");
  };
  for (size_t number = 0; number < totals.size(); number++)
    if (serves_more(number) || (tells_all && totals[number].begun > 0))
      roles.try_emplace(static_cast<uint16_t>(number));
  for (auto& [number, role] : roles) {
    if (number >= totals.size() || totals[number].site == nullptr) continue;
    role.set_role(number);
    role.set_name(std::string(totals[number].site->name));
    role.set_live(totals[number].live);
    role.set_begun(totals[number].begun);
    role.set_ended(totals[number].ended);
    role.set_failed(totals[number].failed);
    if (!tells_all && !serves_more(number) && role.oldest_ns() < static_cast<uint64_t>(still)) continue;
    told_begun_[number] = role.begun();
    *report.add_roles() = role;
  }
}

void Reporter::tell_last_touched(proto::SightReport& report, int64_t now) {
  const LiveWork& live = recorder_.live();
  LiveRecord record;
  TaskRecord task;
  const uint32_t slot = live.last_touched();
  if (slot == 0 || !live.read_record(slot, record) || !live.read_task(record.task, task)) return;
  proto::SightLive& told = *report.mutable_loop()->mutable_last_touch();
  fill(told, record, task, record.task, now);
  told.set_still_ns(report.loop().stalled_ns());
  if (record.site != nullptr) places_.emplace(record.path, record);
}

void Reporter::tell_ended(proto::SightReport& report, int64_t now) {
  ended_telling_ = ended_told_;
  for (const runtime::EndedWait& ended : recorder_.live().ended_waits()) {
    const bool waited = ended.ended_ns - ended.record.entered_ns >= limits_.still.count();
    if (!waited || ended.ended_ns <= ended_told_ || now - ended.ended_ns > Duration(60s).count()) continue;
    proto::SightLive& told = *report.add_live();
    fill(told, ended.record, TaskRecord{}, 0, ended.ended_ns);
    told.set_task(0);
    told.set_still_ns(told.age_ns());
    told.set_ended_ago_ns(std::max<uint64_t>(1, since(now, ended.ended_ns)));
    told.set_outcome(static_cast<uint32_t>(ended.outcome));
    ended_telling_ = std::max(ended_telling_, ended.ended_ns);
  }
}

void Reporter::tell_dictionary(proto::SightReport& report) {
  telling_paths_.clear();
  size_t bytes = 0;
  const auto tell = [&](uint64_t path, uint64_t parent, uint64_t role_path, const Site& site,
                        const std::source_location& where) {
    if (bytes > limits_.dictionary_bytes || told_paths_.contains(path) || !telling_paths_.insert(path).second)
      return;
    proto::SightPath& told = *report.add_new_paths();
    told.set_path(path);
    told.set_parent(parent);
    told.set_role_path(role_path);
    told.set_site(std::string(site.name));
    if (where.line() != 0) {
      told.set_file(short_file(where.file_name()));
      told.set_line(where.line());
      told.set_function(short_function(where.function_name()));
    }
    for (std::string_view input : site.inputs)
      if (!input.empty()) told.add_inputs(std::string(input));
    for (std::string_view output : site.outputs)
      if (!output.empty()) told.add_outputs(std::string(output));
    bytes += told.ByteSizeLong() + 4;
  };
  const auto totals = recorder_.totals();
  std::unordered_map<uint64_t, uint64_t> known;
  for (const PathTotals& path : totals)
    known.emplace(path.path, path.parent_path);
  // What is open comes first, since the report speaks of it.
  for (const auto& [path, record] : places_) {
    const auto parent = parents_.find(path);
    const auto seen = known.find(path);
    tell(path,
         parent != parents_.end() ? parent->second
         : seen != known.end()    ? seen->second
                                  : 0,
         record.role_path, *record.site, record.where);
  }
  for (const PathTotals& path : totals)
    tell(path.path, path.parent_path, path.role_path, *path.site, path.where);

  telling_states_ = told_states_;
  for (const runtime::StateRecord& state : recorder_.live().states(told_states_)) {
    if (bytes > limits_.dictionary_bytes) break;
    proto::SightState& told = *report.add_new_states();
    told.set_state(telling_states_++);
    told.set_role_path(state.role_path);
    if (state.last_child != nullptr) told.set_last_child(std::string(state.last_child->name));
    told.set_wait(static_cast<proto::WaitKind>(state.wait));
    told.set_role(state.role);
    bytes += told.ByteSizeLong() + 4;
  }
}

void Reporter::tell_totals(proto::SightReport& report, int64_t now) {
  const bool all = sequence_ % limits_.totals_every == 1;
  // Devices by every report, for who judges them needs their rates; peers with the totals.
  std::unordered_map<uint64_t, int64_t> oldest;
  LiveRecord record;
  for (uint32_t slot = 1; slot < recorder_.live().record_slots(); ++slot) {
    if (!recorder_.live().read_record(slot, record) || record.target == 0 || record.kind != RegionKind::kWait)
      continue;
    const auto [place, is_new] = oldest.emplace(record.target, record.entered_ns);
    if (!is_new) place->second = std::min(place->second, record.entered_ns);
  }
  for (const runtime::TargetTotals& target : recorder_.live().targets()) {
    if (target.submitted == 0 && target.complaints == 0) continue;
    const auto pending = oldest.find(target.id);
    const bool waits = pending != oldest.end() && now - pending->second >= limits_.still.count();
    if (!all && !target.device && !waits && target.complaints == 0) continue;
    proto::SightDevice& told = *report.add_devices();
    told.set_name(target.name);
    told.set_peer(!target.device);
    told.set_submitted(target.submitted);
    told.set_completed(target.completed);
    if (!target.device) told.set_answers(target.completed - std::min(target.completed, target.unanswered));
    if (pending != oldest.end()) told.set_oldest_pending_ns(since(now, pending->second));
    told.set_calls_open(target.submitted - target.completed);
    told.set_busy_ns(target.busy_ns);
    told.set_complaints(target.complaints);
    if (target.complaints > 0)
      told.set_complained_of(std::string(rpc::method_name(static_cast<rpc::Method>(target.complained_of))));
  }
  if (!all) return;

  // Transitions that grew are told in the order of the time that they took: one long stay does not have to wait for what happens often.
  struct Grown {
    runtime::EdgeTotals edge;
    double ns = 0;
  };
  const auto key = [](const runtime::EdgeTotals& edge) { return uint32_t{edge.from} << 16 | edge.to; };
  std::vector<Grown> grown;
  for (const runtime::EdgeTotals& edge : recorder_.live().edges()) {
    const auto known = told_edges_.find(key(edge));
    const ToldEdge told = known == told_edges_.end() ? ToldEdge{} : known->second;
    if (edge.count == told.count) continue;
    const auto count = static_cast<double>(edge.count - told.count);
    const double usual = static_cast<double>(edge.sum_q8 - told.sum_q8) / 256 / count;  // log2 of ns
    grown.push_back({.edge = edge, .ns = count * std::exp2(usual)});
  }
  std::sort(grown.begin(), grown.end(), [&](const Grown& a, const Grown& b) {
    return a.ns != b.ns ? a.ns > b.ns : key(a.edge) < key(b.edge);
  });
  size_t bytes = 0;
  for (const auto& [edge, ns] : grown) {
    if (bytes > limits_.totals_bytes) break;
    proto::SightEdge& told = *report.add_edges();
    told.set_from(edge.from);
    told.set_to(edge.to);
    told.set_count(edge.count);
    told.set_sum(edge.sum_q8);
    told.set_sum_sq(edge.sum_sq_q16);
    size_t buckets = std::size(edge.histogram);
    while (buckets > 0 && edge.histogram[buckets - 1] == 0)
      --buckets;
    for (size_t i = 0; i < buckets; ++i)
      told.add_buckets(edge.histogram[i]);
    bytes += told.ByteSizeLong() + 4;
    // As if it were delivered: a report that is lost is made up for when the edge grows again.
    told_edges_[key(edge)] = {.count = edge.count, .sum_q8 = edge.sum_q8};
  }
  auto waits = recorder_.live().waits();
  std::sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.ns > b.ns; });
  bytes = 0;
  for (const runtime::WaitTotals& wait : waits) {
    if (bytes > limits_.totals_bytes / 4) break;
    proto::SightWaitTotal& told = *report.add_waits();
    told.set_state(wait.state);
    if (wait.target != 0) told.set_target(recorder_.live().target_name(wait.target));
    told.set_count(wait.count);
    told.set_ns(wait.ns);
    bytes += told.ByteSizeLong() + 4;
  }
}

void Reporter::tell_samples(proto::SightReport& report) {
  sampling_ = sampled_;
  if (samples_of_.empty()) return;
  size_t told_count = 0;
  for (const Event& event : recorder_.recent_events(1024)) {
    const TimePoint ended = event.entered + event.duration;
    if (ended <= sampled_ || told_count >= limits_.samples) break;
    sampling_ = std::max(sampling_, ended);
    const bool wanted = std::any_of(samples_of_.begin(), samples_of_.end(), [&](const std::string& name) {
      return name == event.site->name || name == "*";
    });
    if (!wanted) continue;
    ++told_count;
    proto::SightSample& told = *report.add_samples();
    told.set_path(event.path);
    told.set_duration_ns(static_cast<uint64_t>(std::max<int64_t>(0, event.duration.count())));
    told.set_self_ns(static_cast<uint64_t>(std::max<int64_t>(0, event.self.count())));
    for (size_t i = 0; i < event.input_count; ++i)
      told.add_inputs(event.inputs[i]);
    for (size_t i = 0; i < kMaxOutputs && !event.site->outputs[i].empty(); ++i)
      told.add_outputs(event.outputs[i]);
    told.set_code(static_cast<uint32_t>(event.code));
  }
}

void Reporter::delivered(const proto::SightReportAnswer& answer) {
  told_paths_.insert(telling_paths_.begin(), telling_paths_.end());
  telling_paths_.clear();
  told_states_ = telling_states_;
  ended_told_ = ended_telling_;
  sampled_ = sampling_;
  all_live_ = answer.all_live();
  if (answer.dictionary()) {
    told_paths_.clear();
    told_states_ = 1;
    told_edges_.clear();
  }
  constexpr int kMostNames = 64;
  samples_of_.assign(answer.samples_of().begin(),
                     answer.samples_of().begin() + std::min(answer.samples_of_size(), kMostNames));
}

void Reporter::forget() {
  told_paths_.clear();
  told_states_ = 1;
  told_edges_.clear();
  all_live_ = true;
}

proto::SightSummary summarise(const Recorder& recorder, Duration loop_lag, Duration still) {
  proto::SightSummary summary;
  summary.set_loop_lag_ns(static_cast<uint64_t>(std::max<int64_t>(0, loop_lag.count())));
  const int64_t now = nanoseconds(recorder.now());
  const OpenTask* longest = nullptr;
  const std::vector<OpenTask> tasks = open_tasks(recorder.live());
  for (const OpenTask& open : tasks) {
    summary.set_live(summary.live() + 1);
    const auto wait = open.records.front().wait;
    // Who waits for an answer is not what the others wait for.
    const bool waits_on_purpose = wait == runtime::WaitKind::kIdle || wait == runtime::WaitKind::kTimer;
    if (waits_on_purpose || now - open.moved_ns < still.count()) continue;
    summary.set_stalled(summary.stalled() + 1);
    if (longest == nullptr || open.moved_ns < longest->moved_ns) longest = &open;
  }
  if (longest == nullptr) return summary;
  summary.set_oldest_ns(since(now, longest->moved_ns));
  std::string line;
  for (auto record = longest->records.rbegin(); record != longest->records.rend(); ++record)
    if (record->site != nullptr) line += (line.empty() ? "" : " > ") + std::string(record->site->name);
  const LiveRecord& innermost = longest->records.front();
  const std::string file = short_file(innermost.where.file_name());
  line += "; " + file.substr(file.rfind('/') + 1) + ":" + std::to_string(innermost.where.line());
  if (innermost.wait != runtime::WaitKind::kNone)
    line += "; waits (" + proto::WaitKind_Name(static_cast<proto::WaitKind>(innermost.wait)) + ") " +
            recorder.live().target_name(innermost.target);
  summary.set_oldest(line.substr(0, kSummaryLine));
  return summary;
}

}  // namespace kintsugi::sight
