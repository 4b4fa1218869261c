// What processes report: snapshots of it go through every method of diagnosis, whatever the reports say.
#include "common/proto/sight_snapshot.pb.h"
#include "common/proto/verdicts.h"
#include "monitoring/model/snapshot.h"
#include "monitoring/model/worker_model.h"
#include "monitoring/progress/engine.h"
#include "monitoring/progress/texts/comparison.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using progress::Method;

/// Two servers and a client with some open tasks and states, some of which belong together.
std::string seed(uint32_t shape) {
  proto::SightSnapshot snapshot;
  snapshot.set_format(1);
  snapshot.set_taken_ns(1'000'000'000'000);
  for (uint64_t process = 1; process <= 3; process++) {
    proto::SightSnapshotProcess& held = *snapshot.add_processes();
    held.set_silent_ns(process == 2 && shape % 3 == 1 ? 9'000'000'000 : 100'000'000);
    proto::SightReport& report = *held.mutable_state();
    report.set_process(process);
    report.set_sequence(5);
    report.set_kind(process == 3 ? "client" : "chunkserver");
    report.set_address(process == 3 ? "" : "server:" + std::to_string(process));
    report.set_all_live(true);
    if (process == 1 && shape % 3 == 2) report.mutable_loop()->set_stalled_ns(3'000'000'000);
    for (uint32_t i = 1; i <= 4; i++) {
      proto::SightState& state = *report.add_new_states();
      state.set_state(i);
      state.set_role_path(i);
      state.set_role(1);
      state.set_wait(static_cast<proto::WaitKind>((i + shape) % 12));
      proto::SightPath& path = *report.add_new_paths();
      path.set_path(i);
      path.set_parent(i - 1);
      path.set_site("region");
      proto::SightEdge& edge = *report.add_edges();
      edge.set_from(i);
      edge.set_to((i + shape) % 4 + 1);
      edge.set_count(40 * i);
      edge.set_sum(22 * 256 * 40);
      edge.add_buckets(40);
      proto::SightLive& live = *report.add_live();
      live.set_task(i);
      live.set_task_root(true);
      live.set_trace(i % 2);
      live.set_span(process * 10 + i);
      live.set_parent((process * 7 + i + shape) % 34);
      live.set_path(i);
      live.set_state(i);
      live.set_age_ns(20'000'000'000);
      live.set_still_ns(20'000'000'000);
      live.set_wait(static_cast<proto::WaitKind>((process + i + shape) % 12));
      live.set_target("server:" + std::to_string(i % 3));
      live.set_target_span((process * 5 + i * 3 + shape) % 34);
      for (uint32_t value : {i, i % 4 + 1, 3 * i})
        live.add_loop_edges(value);
      if (i == 4 && shape % 4 == 0) live.set_ended_ago_ns(5);
    }
    proto::SightWaitTotal& wait = *report.add_waits();
    wait.set_state(1);
    wait.set_count(100);
    wait.set_ns(1'000'000'000);
  }
  return snapshot.SerializeAsString();
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (uint32_t shape = 0; shape < 12; shape++)
    all.push_back(seed(shape));
  return all;
}

/// `method`: an engine, or what it is compared with.
template <class Method>
void check_verdicts(Method& method, const model::Snapshot& snapshot) {
  for (int round = 0; round < 2; round++)
    for (const proto::Verdict& verdict : method.diagnose(snapshot)) {
      require_one_line(proto::describe(verdict));
      require(!proto::to_json(verdict).empty(), "a verdict can be written");
      require(verdict.probability() >= 0 && verdict.probability() <= 1, "a probability is one");
    }
}

void check(std::string_view input) {
  const Result<model::Snapshot> read = model::parse_snapshot(input);
  if (!read) {
    require(read.error().code() == Code::kCorrupt, "what is no snapshot is corrupt");
    require_one_line(read.error().message());
    return;
  }
  for (const bool compare_siblings : {true, false}) {
    progress::Engine engine({.rounds = 1, .compare_siblings = compare_siblings});
    check_verdicts(engine, *read);
  }
  for (const Method method : {Method::kTargetsHidden, Method::kProdometer, Method::kAutomaDeD,
                              Method::kAutomaDeDSemi, Method::kOldestSpan, Method::kSilence}) {
    progress::Comparison comparison(method, 1);
    check_verdicts(comparison, *read);
  }
  const Result<model::Snapshot> again = model::parse_snapshot(model::serialise(*read));
  require(again && again->processes.size() == read->processes.size(), "a snapshot is read as it was written");
  for (const auto& view : read->processes) {
    const size_t edges = model::WorkerModel::of(*view).edges().size();
    require(edges <= model::WorkerModel::kMaxEdges, "a model of workers is bounded");
  }
}

/// Flipped bytes seldom parse: this changes a number or a text of a report.
void mutate(std::string& input, std::mt19937_64& random) {
  proto::SightSnapshot snapshot;
  if (!snapshot.ParseFromString(input) || snapshot.processes_size() == 0) return;
  proto::SightReport& report =
      *snapshot.mutable_processes(static_cast<int>(random() % snapshot.processes_size()))->mutable_state();
  const auto number = [&]() -> uint64_t {
    switch (random() % 4) {
      case 0: return random() % 40;
      case 1: return ~uint64_t{0} >> random() % 64;
      case 2: return 0;
      default: return random();
    }
  };
  proto::SightLive* live = report.live_size() == 0
                               ? report.add_live()
                               : report.mutable_live(static_cast<int>(random() % report.live_size()));
  switch (random() % 14) {
    case 0: live->set_span(number()); break;
    case 1: live->set_parent(number()); break;
    case 2: live->set_target_span(number()); break;
    case 3: live->set_wait(static_cast<proto::WaitKind>(random() % 14)); break;
    case 4: live->set_age_ns(number()); break;
    case 5: live->set_still_ns(number()); break;
    case 6: live->set_task(static_cast<uint32_t>(number())); break;
    case 7: live->set_need(static_cast<uint32_t>(number())); break;
    case 8: live->add_loop_edges(static_cast<uint32_t>(number())); break;
    case 9: report.mutable_loop()->set_stalled_ns(number()); break;
    case 10: *report.add_live() = *live; break;
    case 11: live->set_target(std::string(random() % 5, static_cast<char>(random()))); break;
    case 12:
      for (proto::SightEdge& edge : *report.mutable_edges()) {
        edge.set_count(number());
        edge.set_sum(static_cast<int64_t>(number()));
        edge.set_sum_sq(static_cast<int64_t>(number()));
        edge.set_to(static_cast<uint32_t>(random() % 6));
      }
      break;
    default: snapshot.mutable_processes(0)->set_silent_ns(number()); break;
  }
  input = snapshot.SerializeAsString();
}

const Registration registration{{"sight_report", seeds, check, mutate}};

}  // namespace
}  // namespace kintsugi::fuzz
