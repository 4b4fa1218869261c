#include "monitoring/progress/waits/verdicts.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/proto/verdicts.h"
#include "monitoring/progress/waits/chain_link.h"
#include "monitoring/progress/waits/source_slice.h"

namespace kintsugi::progress {
namespace {

using proto::kMostNames;
using proto::Verdict;

constexpr size_t kMostVerdicts = 32;
/// The share of the first culprit's waiters that another culprit needs to be named beside it.
constexpr double kLeastShare = 0.1;

bool is_client(const std::string& kind) {
  return kind == "client" || kind == "mount";
}

/// Direct observation of a process, not the rarity of a sojourn, says how sure such a verdict is.
constexpr double kObserved = 0.995, kLost = 0.99, kInferred = 0.95;

class Writer {
 public:
  Writer(const OpenTasks& tasks, const WaitGraph& graph, const Sojourns& sojourns)
      : tasks_(tasks), graph_(graph), sojourns_(sojourns), snapshot_(tasks.snapshot()) {}

  Verdict write(const Culprit& culprit) {
    Verdict verdict;
    const Vertex& sink = graph_.vertices()[culprit.members.front()];
    name(verdict, sink);
    place(verdict, culprit);
    waiters(verdict, culprit);
    verdict.set_kind(kind(culprit, sink));
    verdict.set_masked(culprit.masked ||
                       (verdict.kind() == Verdict::CLIENT && holds_up_only_itself(culprit, sink)));
    for (const uint32_t v : culprit.chain)
      *verdict.add_chain() = link_of(tasks_, graph_, v);
    for (proto::ChainLink& place : source_slice(tasks_, graph_, culprit))
      *verdict.add_slice() = std::move(place);
    if (!sink.why.empty()) verdict.add_why(sink.why);
    confidence(verdict, culprit, sink);
    return verdict;
  }

 private:
  bool is_task(uint32_t v) const { return graph_.vertices()[v].place == Place::kTask; }

  Verdict::Kind kind(const Culprit& culprit, const Vertex& sink) const {
    const bool at_client = sink.process >= 0 && is_client(snapshot_.processes[sink.process]->last().kind());
    switch (sink.place) {
      case Place::kRunning: return at_client ? Verdict::CLIENT : Verdict::RUNNING;
      case Place::kSilent: return at_client ? Verdict::CLIENT : Verdict::SILENT;
      case Place::kNotServed: return Verdict::NOT_SERVED;
      case Place::kUnanswered: return Verdict::UNANSWERED;
      case Place::kDevice: return Verdict::DEVICE;
      case Place::kLink: return Verdict::LINK;
      case Place::kCaller: return Verdict::CLIENT;
      default: break;
    }
    if (culprit.knot) return link_of_knot(culprit).first >= 0 ? Verdict::LINK : Verdict::DEADLOCK;
    return at_client ? Verdict::CLIENT : Verdict::STUCK;
  }

  /// An application that does not read or write, and all who wait for it work for its own operations. Behind a mount
  /// are others that wait.
  bool holds_up_only_itself(const Culprit& culprit, const Vertex& sink) const {
    if (sink.process >= 0 && snapshot_.processes[sink.process]->last().kind() != "client") return false;
    std::set<uint64_t> own;  // trace ids
    for (uint32_t task = 0; sink.process >= 0 && task < tasks_.all().size(); task++)
      if (static_cast<int>(tasks_[task].process) == sink.process) own.insert(tasks_[task].trace());
    if (is_task(culprit.blamed)) own.insert(tasks_[culprit.blamed].trace());
    return std::all_of(culprit.waiters.begin(), culprit.waiters.end(), [&](uint32_t v) {
      const Vertex& waiter = graph_.vertices()[v];
      if (waiter.place == Place::kEnded) return own.contains(waiter.ended->trace);
      return !is_task(v) || own.contains(tasks_[v].trace());
    });
  }

  /// Two tasks that wait for each other over one stream: a message was lost, or they disagree about whose turn it is.
  /// The processes, or -1.
  std::pair<int, int> link_of_knot(const Culprit& culprit) const {
    for (const uint32_t v : culprit.members) {
      if (!is_task(v) || tasks_[v].top().wait() != proto::WAIT_UPSTREAM) continue;
      for (const WaitEdge& edge : graph_.edges()[v]) {
        const bool inside =
            std::find(culprit.members.begin(), culprit.members.end(), edge.to) != culprit.members.end();
        if (!inside || !is_task(edge.to)) continue;
        const proto::SightLive& caller = tasks_[edge.to].top();
        const std::vector<uint32_t>& callees = tasks_.begun_by(caller.target_span());
        const bool faces = std::find(callees.begin(), callees.end(), v) != callees.end();
        if (faces && tasks_[edge.to].process != tasks_[v].process)
          return {static_cast<int>(tasks_[v].process), static_cast<int>(tasks_[edge.to].process)};
      }
    }
    return {-1, -1};
  }

  void name_process(Verdict& verdict, int process) const {
    const model::ProcessView& view = *snapshot_.processes[process];
    verdict.set_server(view.display());
    verdict.set_server_id(view.last().server_id());
    verdict.set_process(view.process());
    verdict.set_process_kind(view.last().kind());
  }

  static void set_peer(Verdict& verdict, const model::ProcessView& peer) {
    verdict.set_peer(peer.display());
    verdict.set_peer_process(peer.process());
  }

  void name(Verdict& verdict, const Vertex& sink) const {
    if (sink.process >= 0) {
      name_process(verdict, sink.process);
    } else {
      const model::ServerLife* life = snapshot_.server(sink.name, 0);
      verdict.set_server(life != nullptr && !life->name.empty() ? life->name : sink.name);
      if (life != nullptr) verdict.set_server_id(life->server_id);
    }
    if (sink.place == Place::kCaller && sink.process < 0)
      verdict.set_server(sink.name.empty() ? "an unknown client" : "client " + sink.name);
    if (sink.place == Place::kDevice) verdict.set_device(sink.name);
    if (sink.peer >= 0) set_peer(verdict, *snapshot_.processes[sink.peer]);
  }

  void place(Verdict& verdict, const Culprit& culprit) const {
    const Vertex& sink = graph_.vertices()[culprit.members.front()];
    if (culprit.knot) {
      const auto [callee, caller] = link_of_knot(culprit);
      if (callee >= 0) {
        name_process(verdict, callee);
        set_peer(verdict, *snapshot_.processes[caller]);
      }
    }
    if (is_task(culprit.blamed)) {
      const OpenTask& task = tasks_[culprit.blamed];
      // A caller that nobody knows may have gone without its server having heard of it: both are named.
      if (sink.place == Place::kCaller && sink.process < 0) set_peer(verdict, tasks_.view(culprit.blamed));
      verdict.set_region(tasks_.region(culprit.blamed));
      verdict.set_since_ns(static_cast<uint64_t>(task.still.count()));
      set_line(verdict, task.process, task.top());
      if (sink.place == Place::kUnanswered) verdict.set_region(sink.name);
      return;
    }
    if (sink.process < 0) return;
    const model::ProcessView& view = *snapshot_.processes[sink.process];
    if (sink.place == Place::kSilent) {
      verdict.set_since_ns(static_cast<uint64_t>(std::max<int64_t>(snapshot_.silent(view).count(), 0)));
    } else if (sink.place == Place::kRunning) {
      const proto::SightLoop& loop = view.last().loop();
      verdict.set_since_ns(loop.stalled_ns());
      verdict.set_region(tasks_.region(sink.process, loop.last_touch()));
      set_line(verdict, sink.process, loop.last_touch());
      for (int i = 0; i < std::min(loop.symbols_size(), 32); i++)
        verdict.add_stack(loop.symbols(i));
      for (int i = loop.symbols_size(); i < std::min(loop.stack_size(), 32); i++)
        verdict.add_stack(fmt::format("+{:#x}", loop.stack(i)));
    }
  }

  void set_line(Verdict& verdict, uint32_t process, const proto::SightLive& record) const {
    verdict.set_file(record.file());
    verdict.set_line(record.line());
    verdict.set_function(record.function());
    const proto::SightPath* path = snapshot_.processes[process]->path(record.path());
    if (!record.file().empty() || path == nullptr) return;
    verdict.set_file(path->file());
    verdict.set_line(path->line());
    verdict.set_function(path->function());
  }

  void waiters(Verdict& verdict, const Culprit& culprit) const {
    std::set<std::string> servers;
    // Key: trace id; age and role of the oldest task.
    std::map<uint64_t, std::pair<uint64_t, std::string>> operations;
    const auto work = [&](uint64_t trace, uint64_t age, const std::string& role) {
      auto& operation = operations[trace];
      if (age >= operation.first && !role.empty()) operation = {age, role};
    };
    for (const uint32_t v : culprit.waiters) {
      const Vertex& vertex = graph_.vertices()[v];
      if (vertex.place == Place::kEnded) {
        work(vertex.ended->trace, vertex.ended->age_ns, vertex.ended->role);
        proto::add_waiting(verdict, vertex.ended->process);
      } else if (is_task(v)) {
        const model::ProcessView& view = tasks_.view(v);
        if (view.last().kind() == "chunkserver") servers.insert(view.display());
        proto::add_waiting(verdict, view.process());
        work(tasks_[v].trace(), tasks_[v].root().age_ns(), tasks_.role(v));
      } else {
        continue;
      }
      verdict.set_waiters(verdict.waiters() + 1);
    }
    for (const uint32_t v : culprit.members)
      if (is_task(v)) work(tasks_[v].trace(), tasks_[v].root().age_ns(), tasks_.role(v));
    if (is_task(culprit.blamed))
      work(tasks_[culprit.blamed].trace(), tasks_[culprit.blamed].root().age_ns(),
           tasks_.role(culprit.blamed));
    for (const std::string& server : servers)
      if (verdict.servers_waiting_size() < kMostNames) verdict.add_servers_waiting(server);
    std::vector<std::tuple<uint64_t, uint64_t, std::string>> by_age;
    for (const auto& [trace, operation] : operations)
      by_age.emplace_back(operation.first, trace, operation.second);
    std::sort(by_age.rbegin(), by_age.rend());
    for (const auto& [age, trace, role] : by_age)
      if (verdict.operations_size() < kMostNames)
        verdict.add_operations(fmt::format("{} {:016x}", role.empty() ? "operation" : role, trace));
  }

  void confidence(Verdict& verdict, const Culprit& culprit, const Vertex& sink) {
    double probability = kInferred;
    const bool is_at_task = sink.place != Place::kLink && sink.place != Place::kNotServed &&
                            sink.place != Place::kUnanswered && sink.place != Place::kCaller;
    if (is_task(culprit.blamed) && is_at_task) {
      const auto age = Duration(static_cast<int64_t>(
          std::min<uint64_t>(tasks_[culprit.blamed].top().age_ns(), std::numeric_limits<int64_t>::max())));
      const Sojourns::Rarity rarity = sojourns_.rarity(tasks_.key(culprit.blamed), age);
      probability = rarity.probability;
      verdict.add_why(rarity.sojourns == 0 ? "no earlier case of this step is known"
                      : rarity.as_long == 0
                          ? fmt::format("in {} earlier cases this step never took so long", rarity.sojourns)
                          : fmt::format("in {} earlier cases this step may have taken so long {} times",
                                        rarity.sojourns, rarity.as_long));
    } else if (sink.place == Place::kRunning) {
      const bool is_long = verdict.since_ns() >= 3'000'000'000;
      probability = is_long || verdict.stack_size() > 0 ? kObserved : kInferred;
      verdict.add_why(verdict.stack_size() > 0 ? fmt::format("its event loop runs {}", verdict.stack(0))
                                               : "its event loop handles nothing");
    } else if (sink.place == Place::kSilent) {
      probability = silence(verdict, culprit, sink);
    } else if (sink.place == Place::kLink) {
      // One end may be healthy unless neither hears the other, so it cannot be accused with certainty.
      probability = sink.mutual ? kLost : kInferred;
    } else if (sink.place == Place::kCaller) {
      probability = sink.process >= 0 ? kInferred : 0.5;
    }
    int doubts = 0;
    const auto doubt = [&](bool is_so, const char* why) {
      if (!is_so) return;
      doubts++;
      verdict.add_why(why);
    };
    if (sink.process >= 0 && sink.place != Place::kSilent) {
      const proto::SightReport& last = snapshot_.processes[sink.process]->last();
      doubt(last.truncated(), "its report had no room for everything");
      doubt(last.dropped() > 0, "its tables of open work were full at times");
      doubt(last.implicit_tasks() > 0, "some of its tasks are not marked as such");
    }
    doubt(sink.doubtful, "what it waits for may not be marked");
    doubt(culprit.weak, "who holds what is waited for is a guess");
    verdict.set_probability(probability);
    verdict.set_confidence(confidence_of(probability, !culprit.weak, doubts));
  }

  /// No reports are evidence of a stopped process only together with others: those who wait for it, and the metaserver.
  double silence(Verdict& verdict, const Culprit& culprit, const Vertex& sink) const {
    if (sink.process < 0) return 0.5;
    const model::ProcessView& view = *snapshot_.processes[sink.process];
    const model::ServerLife* life = snapshot_.server(view.last().address(), view.last().server_id());
    const bool is_dead = life != nullptr && life->liveness != model::Liveness::kAlive;
    if (is_dead)
      verdict.add_why(life->liveness == model::Liveness::kDead ? "the metaserver holds it for dead"
                                                               : "the metaserver suspects it");
    std::set<int> waiting;
    for (const uint32_t v : culprit.waiters)
      waiting.insert(graph_.vertices()[v].process);
    verdict.add_why(fmt::format("no report for {:.1f} s", to_seconds(snapshot_.silent(view))));
    const auto silent =
        static_cast<size_t>(std::count_if(tasks_.processes().begin(), tasks_.processes().end(),
                                          [](const ProcessState& state) { return state.silent; }));
    if (silent > 2 && silent * 2 > snapshot_.processes.size()) {
      verdict.add_why("most processes are silent: it may be the monitor that is cut off");
      return 0.5;
    }
    // Where processors are short, reports come late.
    const bool is_long = snapshot_.silent(view) >= 5s;
    return is_dead || (waiting.size() >= 2 && is_long) ? kObserved : kInferred;
  }

  const OpenTasks& tasks_;
  const WaitGraph& graph_;
  const Sojourns& sojourns_;
  const model::Snapshot& snapshot_;
};

/// Equal places are one culprit: several tasks that stand still in one region of one process.
void put_together(std::vector<Verdict>& verdicts) {
  std::map<uint64_t, size_t> at;
  std::vector<Verdict> result;
  for (Verdict& verdict : verdicts) {
    const auto [known, is_new] = at.emplace(identity(verdict), result.size());
    if (is_new) {
      result.push_back(std::move(verdict));
      continue;
    }
    Verdict& into = result[known->second];
    const uint32_t waiters = into.waiters() + verdict.waiters() + 1;
    if (verdict.since_ns() > into.since_ns()) std::swap(into, verdict);
    into.set_waiters(waiters);
    into.set_masked(into.masked() && verdict.masked());
    const auto unite = [](const auto& from, auto& to) {
      for (const std::string& text : from)
        if (to.size() < kMostNames && std::find(to.begin(), to.end(), text) == to.end()) *to.Add() = text;
    };
    unite(verdict.servers_waiting(), *into.mutable_servers_waiting());
    unite(verdict.operations(), *into.mutable_operations());
    for (const uint64_t waiting : verdict.processes_waiting())
      proto::add_waiting(into, waiting);
  }
  verdicts = std::move(result);
}

}  // namespace

proto::Verdict::Confidence confidence_of(double probability, bool explicit_chain, int doubts) {
  int level = probability >= 0.99 && explicit_chain ? 2 : probability >= 0.9 ? 1 : 0;
  level = std::max(level - doubts, 0);
  return level == 2 ? Verdict::CERTAIN : level == 1 ? Verdict::LIKELY : Verdict::UNSURE;
}

uint64_t identity(const Verdict& verdict) {
  uint64_t hash = mix_bits(static_cast<uint64_t>(verdict.kind()) + 1);
  for (const std::string* text : {&verdict.server(), &verdict.peer(), &verdict.device()})
    hash = mix_bits(hash ^ hash_name(*text));
  // Which of several tasks is shown changes while the same process, device or link is to blame.
  const bool is_region = verdict.kind() == Verdict::STUCK || verdict.kind() == Verdict::CLIENT ||
                         verdict.kind() == Verdict::SLOW || verdict.kind() == Verdict::BEHAVIOUR ||
                         verdict.kind() == Verdict::RUNS_OUT;
  if (is_region) hash = mix_bits(hash ^ hash_name(verdict.region()));
  // A server that is silent is the same whether its process is known or not: the monitor may have been started later.
  const bool is_server = verdict.server_id() != 0 || verdict.process_kind() == "metaserver";
  if (verdict.kind() == Verdict::SILENT && is_server) return mix_bits(hash ^ verdict.server_id());
  return mix_bits(hash ^ verdict.process());
}

namespace {

/// A link of which one end may be at fault says nothing beside a verdict that says so of that end.
void drop_links_of_what_is_named(std::vector<Verdict>& verdicts) {
  std::set<uint64_t> named;  // processes; both ends of a link are known
  for (const Verdict& verdict : verdicts)
    if (verdict.kind() == Verdict::NOT_SERVED || verdict.kind() == Verdict::SILENT)
      named.insert(verdict.process());
  std::erase_if(verdicts, [&](const Verdict& verdict) {
    return verdict.kind() == Verdict::LINK && verdict.confidence() != Verdict::CERTAIN &&
           (named.contains(verdict.process()) || named.contains(verdict.peer_process()));
  });
}

}  // namespace

std::vector<Verdict> write_verdicts(const OpenTasks& tasks, const WaitGraph& graph, const Sojourns& sojourns,
                                    const std::vector<Culprit>& culprits) {
  std::vector<std::pair<double, Verdict>> ranked;
  Writer writer(tasks, graph, sojourns);
  for (const Culprit& culprit : culprits) {
    const Vertex& sink = graph.vertices()[culprit.members.front()];
    // A silent process that nobody waits for has been stopped or has gone: its life is the metaserver's business.
    if (sink.place == Place::kSilent && culprit.waiters.empty()) continue;
    ranked.emplace_back(culprit.surprise, writer.write(culprit));
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.second.masked(), -static_cast<int64_t>(a.second.waiters()), -a.first) <
           std::tuple(b.second.masked(), -static_cast<int64_t>(b.second.waiters()), -b.first);
  });
  std::vector<Verdict> verdicts;
  for (auto& [surprise, verdict] : ranked)
    verdicts.push_back(std::move(verdict));
  put_together(verdicts);
  drop_links_of_what_is_named(verdicts);
  if (verdicts.empty()) return verdicts;
  const double least = kLeastShare * verdicts.front().waiters();
  size_t left_out = 0;
  std::erase_if(verdicts, [&](const Verdict& verdict) {
    // One that is certain is a fault of its own, however few wait for it.
    const bool is_named = verdict.confidence() == Verdict::CERTAIN && verdict.waiters() > 0;
    const bool is_small = !verdict.masked() && !is_named && verdict.waiters() < least;
    left_out += is_small;
    return is_small;
  });
  if (verdicts.size() > kMostVerdicts) {
    left_out += verdicts.size() - kMostVerdicts;
    verdicts.resize(kMostVerdicts);
  }
  if (left_out > 0) verdicts.front().add_why(fmt::format("and {} others that fewer wait for", left_out));
  return verdicts;
}

}  // namespace kintsugi::progress
