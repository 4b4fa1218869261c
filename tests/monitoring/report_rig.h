/// Makes up reports of processes whose tasks wait for each other, as tests of diagnosis need them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "monitoring/model/snapshot.h"
#include "monitoring/progress/engine.h"
#include "monitoring/progress/evidence/sojourns.h"

namespace kintsugi::progress {

/// A task: where it stands, and the span by which others name it.
struct RigTask {
  uint64_t process = 0;
  int live = 0;  ///< index of its record
  uint64_t span = 0;
};

class ReportRig {
 public:
  static constexpr Duration kLong = 40s;

  /// Servers are numbered: "server 4" is called at "10.0.0.4:7000".
  uint64_t server(int number) {
    return process("chunkserver", "server " + std::to_string(number), address(number));
  }
  uint64_t metaserver() { return process("metaserver", "metaserver", "10.0.0.100:6000"); }
  uint64_t client(std::string name = "client 10.0.1.1") { return process("client", std::move(name), ""); }
  static std::string address(int number) { return "10.0.0." + std::to_string(number) + ":7000"; }

  uint64_t process(std::string kind, std::string name, std::string address) {
    const uint64_t id = hash_name(name) | 1;
    proto::SightReport& report = reports_[id];
    report.set_process(id);
    report.set_kind(std::move(kind));
    report.set_name(std::move(name));
    report.set_address(std::move(address));
    report.set_all_live(true);
    report.set_server_id(id);
    if (report.uptime_ns() == 0) report.set_uptime_ns(static_cast<uint64_t>(Duration(1h).count()));
    return id;
  }

  /// A task of one region that stands still. `parent`: the span that it works for.
  RigTask task(uint64_t process, const std::string& site, uint64_t parent = 0, uint64_t trace = 77,
               Duration still = kLong) {
    proto::SightReport& report = reports_[process];
    proto::SightLive& live = *report.add_live();
    live.set_task(static_cast<uint32_t>(report.live_size()));
    live.set_task_root(true);
    live.set_trace(trace);
    live.set_span(++spans_);
    live.set_parent(parent);
    live.set_path(hash_name(site));
    live.set_age_ns(static_cast<uint64_t>(still.count()));
    live.set_still_ns(static_cast<uint64_t>(still.count()));
    live.set_file("src/" + site + ".cc");
    live.set_line(10);
    live.set_state(state(report, site, proto::WAIT_NONE));
    return {.process = process, .live = report.live_size() - 1, .span = live.span()};
  }

  proto::SightLive& live(const RigTask& task) { return *reports_[task.process].mutable_live(task.live); }
  proto::SightReport& report(uint64_t process) { return reports_[process]; }

  RigTask wait(const RigTask& task, proto::WaitKind kind, uint64_t span, const std::string& target = "",
               uint32_t need = 0) {
    proto::SightLive& record = live(task);
    record.set_wait(kind);
    record.set_target(target);
    record.set_target_span(span);
    record.set_need(need);
    const proto::SightPath* path = nullptr;
    for (const proto::SightPath& known : reports_[task.process].new_paths())
      if (known.path() == record.path()) path = &known;
    record.set_state(state(reports_[task.process], path->site(), kind));
    return task;
  }
  /// The span of a call that the task makes, which the callee's task has as its parent.
  uint64_t call(const RigTask& task, proto::WaitKind kind, int server) {
    return call(task, kind, address(server));
  }
  uint64_t call(const RigTask& task, proto::WaitKind kind, const std::string& target) {
    const uint64_t span = ++spans_;
    // A call is a record of its own on top of the task's region, as the recorder writes it.
    proto::SightLive& record = *reports_[task.process].add_live();
    record = live(task);
    record.set_task_root(false);
    record.set_parent(live(task).span());
    record.set_span(span);
    record.set_wait(kind);
    record.set_target(target);
    record.set_target_span(span);
    record.set_age_ns(record.age_ns() - 1);
    return span;
  }
  void disk(const RigTask& task, const std::string& device) { wait(task, proto::WAIT_DISK, 0, device); }

  proto::SightDevice& device(uint64_t process, const std::string& name) {
    for (proto::SightDevice& known : *reports_[process].mutable_devices())
      if (known.name() == name) return known;
    proto::SightDevice& device = *reports_[process].add_devices();
    device.set_name(name);
    return device;
  }

  void moves(const RigTask& task) { live(task).set_still_ns(1'000'000); }
  void silence(uint64_t process, Duration silent) { silent_[process] = silent; }

  /// Sojourns of a state that all tasks of a site share: `count` of 4 ms each, as a report has them.
  void usual(uint64_t process, const std::string& site, proto::WaitKind wait, uint64_t count) {
    proto::SightReport& report = reports_[process];
    proto::SightEdge& edge = *report.add_edges();
    edge.set_from(state(report, site, wait));
    edge.set_to(0);
    edge.set_count(count);
    edge.set_sum(static_cast<int64_t>(count) * 22 * 256);
    edge.set_sum_sq(static_cast<int64_t>(count) * 22 * 22 * 65'536);
    for (int i = 0; i < 32; i++)
      edge.add_buckets(i == 22 ? static_cast<uint32_t>(count) : 0);
  }

  model::Snapshot snapshot() {
    rounds_++;
    for (auto& [id, report] : reports_) {
      const auto silent = silent_.find(id);
      const Duration since = silent == silent_.end() ? 0s : silent->second;
      if (since > 0s && rounds_ > 1) continue;
      report.set_sequence(static_cast<uint64_t>(rounds_));
      (void)processes_.accept(report, now_ - since);
    }
    const model::Snapshot snapshot = processes_.snapshot(now_, 0, servers_);
    now_ += 1s;
    return snapshot;
  }
  /// What is found after as many rounds as a verdict has to stand.
  std::vector<proto::Verdict> diagnose() { return diagnose_by(engine_); }
  template <class Method>
  std::vector<proto::Verdict> diagnose_by(Method& method) {
    std::vector<proto::Verdict> verdicts;
    for (int round = 0; round < Lasting::kRounds; round++)
      verdicts = method.diagnose(snapshot());
    return verdicts;
  }
  Engine& engine() { return engine_; }
  std::vector<model::ServerLife>& servers() { return servers_; }
  void sleep(Duration duration) { now_ += duration; }

 private:
  /// The state of a task in this region that waits so, entered into the dictionary.
  uint32_t state(proto::SightReport& report, const std::string& site, proto::WaitKind wait) {
    const auto id =
        static_cast<uint32_t>((hash_name(site) + static_cast<uint64_t>(wait) * 131) % 1'000'003 + 1);
    for (const proto::SightState& known : report.new_states())
      if (known.state() == id) return id;
    proto::SightState& state = *report.add_new_states();
    state.set_state(id);
    state.set_role_path(hash_name(site));
    state.set_wait(wait);
    const auto role = static_cast<uint32_t>(hash_name(site) % 100'003 + 1);
    state.set_role(role);
    proto::SightRole& named = *report.add_roles();
    named.set_role(role);
    named.set_name(site);
    proto::SightPath& path = *report.add_new_paths();
    path.set_path(hash_name(site));
    path.set_site(site);
    path.set_role_path(hash_name(site));
    return id;
  }

  std::map<uint64_t, proto::SightReport> reports_;
  std::map<uint64_t, Duration> silent_;
  std::vector<model::ServerLife> servers_;
  model::Processes processes_;
  Engine engine_;
  TimePoint now_{10h};
  uint64_t spans_ = 1000;
  int rounds_ = 0;
};

}  // namespace kintsugi::progress
