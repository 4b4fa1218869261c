#include "monitoring/progress/progress_order.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace kintsugi::progress {
namespace {

/// One odd transition among a thousand does not turn "always" into "sometimes".
constexpr double kEpsilon = 0.001;
/// The released code gives up after so many circuits and takes natural loops.
constexpr size_t kMostCircuits = 10'000;

bool waits_for_others(proto::WaitKind wait) {
  switch (wait) {
    case proto::WAIT_CALL:
    case proto::WAIT_RECEIVE:
    case proto::WAIT_SEND:
    case proto::WAIT_UPSTREAM:
    case proto::WAIT_JOIN:
    case proto::WAIT_SIBLING:
    case proto::WAIT_RESOURCE: return true;
    default: return false;
  }
}

/// Tasks that nothing tells apart: the same state and the same counts of the loops around it.
std::vector<std::vector<uint32_t>> groups_of(const std::vector<Standing>& standing, const GlobalModel& model,
                                             const std::vector<Loop>* loops, bool by_trace) {
  std::vector<std::vector<uint32_t>> loops_of(model.markov.size());
  if (loops != nullptr)
    for (uint32_t i = 0; i < loops->size(); i++)
      for (const uint32_t node : (*loops)[i].nodes)
        loops_of[node].push_back(i);
  std::map<std::tuple<uint64_t, uint64_t, std::vector<double>>, std::vector<uint32_t>> groups;
  for (uint32_t i = 0; i < standing.size(); i++) {
    const uint32_t state = model.markov.find(standing[i].state);
    std::vector<double> iterations;
    if (loops != nullptr && state != Markov::kNone)
      for (const uint32_t loop : loops_of[state]) {
        double count = 0;
        for (const auto& [from, to] : (*loops)[loop].backedges)
          count += standing[i].count(model.markov.key(from), model.markov.key(to));
        iterations.push_back(count);
      }
    groups[{by_trace ? standing[i].trace : 0, standing[i].state, std::move(iterations)}].push_back(i);
  }
  std::vector<std::vector<uint32_t>> result;
  for (auto& [key, members] : groups)
    result.push_back(std::move(members));
  return result;
}

Dependence dependence_of(Order order) {
  if (order == Order::kFirstWaits || order == Order::kWeakFirst) return kFirstOnSecond;
  if (order == Order::kSecondWaits || order == Order::kWeakSecond) return kSecondOnFirst;
  return kNoDependence;
}

/// Dependences of groups, in the end of all their members.
class GroupGraph {
 public:
  GroupGraph(const std::vector<std::vector<uint32_t>>& groups, size_t size)
      : groups_(groups), depends_(groups.size()), size_(size) {}

  void add(uint32_t first, uint32_t second, Dependence found) {
    if (found == kFirstOnSecond) depends_[first].push_back(second);
    if (found == kSecondOnFirst) depends_[second].push_back(first);
  }
  /// Compares all pairs. Of very many groups, each only with those that nothing before it is behind of: progress is transitive but for odd
  /// cases, and the least progressed are what is looked for.
  template <class Compare>
  void compare_all(const std::vector<uint32_t>& groups, const Compare& compare) {
    constexpr size_t kMost = 1'024;
    const bool all = groups.size() <= kMost;
    std::vector<uint32_t> least;
    for (const uint32_t group : groups) {
      bool is_least = true;
      std::erase_if(least, [&](uint32_t other) {
        const Dependence found = compare(other, group);
        add(other, group, found);
        if (found == kSecondOnFirst) is_least = false;
        return !all && found == kFirstOnSecond;
      });
      if (is_least || all) least.push_back(group);
    }
  }
  DependenceGraph take() const {
    DependenceGraph graph(size_);
    for (size_t group = 0; group < groups_.size(); group++)
      for (const uint32_t member : groups_[group])
        for (const uint32_t other : depends_[group])
          graph[member].push_back(groups_[other].front());
    return graph;
  }

 private:
  const std::vector<std::vector<uint32_t>>& groups_;
  std::vector<std::vector<uint32_t>> depends_;
  size_t size_;
};

std::vector<uint32_t> numbers_to(size_t count) {
  std::vector<uint32_t> numbers(count);
  for (uint32_t i = 0; i < count; i++)
    numbers[i] = i;
  return numbers;
}

auto counter(const Standing& task, const Markov& markov) {
  return
      [&task, &markov](uint32_t from, uint32_t to) { return task.count(markov.key(from), markov.key(to)); };
}

/// The counts of all tasks together. Most tasks have the same transitions, and are added up without looking any of them up.
std::vector<Standing::Count> sum_of(const std::vector<Standing>& standing) {
  std::vector<Standing::Count> usual;
  std::map<std::pair<uint64_t, uint64_t>, double> others;
  for (const Standing& task : standing) {
    if (usual.empty()) usual.reserve(task.counts.size());
    if (usual.empty())
      for (const Standing::Count& count : task.counts)
        usual.push_back({count.from, count.to, 0});
    const bool is_usual =
        std::equal(usual.begin(), usual.end(), task.counts.begin(), task.counts.end(),
                   [](const auto& a, const auto& b) { return a.from == b.from && a.to == b.to; });
    for (size_t i = 0; i < task.counts.size(); i++)
      if (is_usual)
        usual[i].times += task.counts[i].times;
      else
        others[{task.counts[i].from, task.counts[i].to}] += task.counts[i].times;
  }
  for (const auto& [ends, times] : others)
    usual.push_back({ends.first, ends.second, times});
  return usual;
}

Markov own_model(const Standing& task) {
  Markov markov;
  markov.add_state(task.state);
  for (const Standing::Count& count : task.counts)
    if (count.from != 0 && count.to != 0) markov.add(count.from, count.to, count.times);
  return markov;
}

/// States that tasks of a role begin and end with, and from where they are called.
struct RoleEnds {
  std::set<uint64_t> entries, exits;
  std::set<uint64_t> callers;  ///< role paths of regions, in whatever process
};

void join_calls_of(const OpenTasks& tasks, Markov& markov) {
  std::map<std::string, RoleEnds> roles;
  std::unordered_map<uint64_t, uint64_t> role_path_of;  // by path
  std::map<uint64_t, std::set<uint64_t>> waits_of;      // states that wait for an answer, by role path
  for (const auto& view : tasks.snapshot().processes)
    for (const auto& [id, path] : view->paths())
      role_path_of[id] = path.role_path();
  for (const auto& view : tasks.snapshot().processes) {
    for (const auto& [id, path] : view->paths()) {
      const auto caller = role_path_of.find(path.parent());
      if (caller != role_path_of.end()) roles[path.site()].callers.insert(caller->second);
    }
    for (const auto& [ends, edge] : view->edges()) {
      const proto::SightState* from = view->state(edge.from());
      const proto::SightState* to = view->state(edge.to());
      if (from == nullptr && to != nullptr)
        roles[view->role_name(to->role())].entries.insert(state_key(*view, edge.to()));
      if (to == nullptr && from != nullptr)
        roles[view->role_name(from->role())].exits.insert(state_key(*view, edge.from()));
    }
    for (const auto& [id, state] : view->states())
      if (waits_for_others(state.wait())) waits_of[state.role_path()].insert(state_key(*view, id));
  }
  std::map<uint64_t, std::vector<uint64_t>> before;  // by state
  for (uint32_t from = 0; from < markov.size(); from++)
    for (const uint32_t to : markov.successors()[from])
      before[markov.key(to)].push_back(markov.key(from));
  for (const auto& [name, role] : roles)
    for (const uint64_t caller : role.callers)
      for (const uint64_t wait : waits_of[caller]) {
        for (const uint64_t entry : role.entries)
          for (const uint64_t from : before[wait])
            markov.add(from, entry);
        for (const uint64_t exit : role.exits)
          markov.add(exit, wait);
      }
}

}  // namespace

namespace {

bool is_before(const Standing::Count& a, const Standing::Count& b) {
  return std::pair(a.from, a.to) < std::pair(b.from, b.to);
}

}  // namespace

void Standing::seal() {
  std::sort(counts.begin(), counts.end(), is_before);
  // Several states of a process may have one key.
  size_t kept = 0;
  for (size_t i = 0; i < counts.size(); i++) {
    if (kept > 0 && counts[kept - 1].from == counts[i].from && counts[kept - 1].to == counts[i].to)
      counts[kept - 1].times += counts[i].times;
    else
      counts[kept++] = counts[i];
  }
  counts.resize(kept);
}

double Standing::count(uint64_t from, uint64_t to) const {
  const auto found = std::lower_bound(counts.begin(), counts.end(), Count{from, to, 0}, is_before);
  return found == counts.end() || found->from != from || found->to != to ? 0 : found->times;
}

std::vector<uint32_t> least_progressed(const DependenceGraph& graph) {
  std::vector<uint32_t> least;
  for (uint32_t i = 0; i < graph.size(); i++)
    if (graph[i].empty()) least.push_back(i);
  return least;
}

std::vector<Standing> standing_tasks(const OpenTasks& tasks) {
  std::vector<Standing> standing;
  for (uint32_t i = 0; i < tasks.all().size(); i++) {
    const OpenTask& open = tasks[i];
    if (!open.stalled) continue;
    const model::ProcessView& view = tasks.view(i);
    Standing task{.task = i, .state = tasks.key(i), .trace = open.trace(), .role = tasks.role(i)};
    for (const proto::SightLive* record : open.records)
      task.progress = std::max(task.progress, static_cast<double>(record->progress()));
    const auto& edges = open.root().loop_edges();
    for (int e = 0; e + 2 < edges.size(); e += 3)
      task.add(state_key(view, edges[e]), state_key(view, edges[e + 1]), edges[e + 2]);
    task.seal();
    task.waits_for_others = waits_for_others(open.top().wait());
    standing.push_back(std::move(task));
  }
  return standing;
}

GlobalModel global_model(const std::vector<Standing>& standing) {
  GlobalModel model;
  for (const Standing& task : standing)
    if (task.state != 0) model.markov.add_state(task.state);
  for (const Standing::Count& count : sum_of(standing))
    if (count.from != 0 && count.to != 0) model.markov.add(count.from, count.to, count.times);
  return model;
}

GlobalModel global_model(const OpenTasks& tasks, const std::vector<Standing>& standing, bool join_calls) {
  GlobalModel model;
  std::set<uint64_t> entries;
  const auto add = [&](uint64_t from, uint64_t to, double count) {
    if (from == 0 && to != 0) entries.insert(to);
    // Outside every task is no state: it would make everything reach everything.
    if (from != 0 && to != 0) model.markov.add(from, to, count);
  };
  for (const auto& view : tasks.snapshot().processes)
    for (const auto& [ends, edge] : view->edges())
      add(state_key(*view, edge.from()), state_key(*view, edge.to()), static_cast<double>(edge.count()));
  for (const Standing& task : standing)
    if (task.state != 0) model.markov.add_state(task.state);
  for (const Standing::Count& count : sum_of(standing))
    add(count.from, count.to, count.times);
  if (join_calls) join_calls_of(tasks, model.markov);
  for (const uint64_t entry : entries)
    if (const uint32_t state = model.markov.find(entry); state != Markov::kNone)
      model.entries.push_back(state);
  return model;
}

DependenceGraph automaded(const std::vector<Standing>& standing, const GlobalModel& model, bool own_models,
                          bool hitting) {
  const auto groups = groups_of(standing, model, nullptr, false);
  GroupGraph graph(groups, standing.size());
  std::vector<std::vector<uint8_t>> united(groups.size(), std::vector<uint8_t>(groups.size(), kNoDependence));
  const auto view = [&](const Markov& markov, uint32_t first, uint32_t second) {
    const uint32_t x = markov.find(standing[groups[first].front()].state);
    const uint32_t y = markov.find(standing[groups[second].front()].state);
    if (x == Markov::kNone || y == Markov::kNone) return;
    const auto p = [&](uint32_t from, uint32_t to) {
      return hitting ? HittingProbability(markov)(from, to) : simple_path_probability(markov, from, to);
    };
    united[first][second] |= dependence(p(x, y), p(y, x), kEpsilon);
  };
  if (own_models) {
    for (uint32_t group = 0; group < groups.size(); group++)
      for (const uint32_t member : groups[group]) {
        const Markov own = own_model(standing[member]);
        for (uint32_t other = 0; other < groups.size(); other++) {
          if (other < group) view(own, other, group);
          if (other > group) view(own, group, other);
        }
      }
  } else {
    for (uint32_t first = 0; first < groups.size(); first++)
      for (uint32_t second = first + 1; second < groups.size(); second++)
        view(model.markov, first, second);
  }
  for (uint32_t first = 0; first < groups.size(); first++)
    for (uint32_t second = first + 1; second < groups.size(); second++)
      graph.add(first, second, static_cast<Dependence>(united[first][second]));
  return graph.take();
}

DependenceGraph prodometer(const std::vector<Standing>& standing, const GlobalModel& model) {
  const Successors& edges = model.markov.successors();
  const auto circuits = merged_circuits(edges, model.entries, kMostCircuits);
  const std::vector<Loop> loops = circuits ? *circuits : natural_loops(edges, model.entries);
  const auto groups = groups_of(standing, model, &loops, false);
  const LoopOrder order(edges, loops, true);
  GroupGraph graph(groups, standing.size());
  std::map<std::pair<uint32_t, uint32_t>, double> known;
  const auto probability = [&](uint32_t from, uint32_t to) {
    const auto [at, is_new] = known.emplace(std::pair(from, to), 0);
    if (is_new) at->second = simple_path_probability(model.markov, from, to);
    return at->second;
  };
  graph.compare_all(numbers_to(groups.size()), [&](uint32_t first, uint32_t second) {
    const Standing& one = standing[groups[first].front()];
    const Standing& other = standing[groups[second].front()];
    const uint32_t x = model.markov.find(one.state), y = model.markov.find(other.state);
    if (x == Markov::kNone || y == Markov::kNone) return kNoDependence;
    if (order.common_loops(x, y).empty()) return higher_decides(probability(x, y), probability(y, x));
    return dependence_of(order.compare(x, counter(one, model.markov), y, counter(other, model.markov)));
  });
  return graph.take();
}

namespace {

/// Tasks of one role by their loops; those whose counts overflowed, by what they have moved.
Order order_of_siblings(const Standing& one, const Standing& other, const Markov& markov,
                        const LoopOrder& order) {
  const uint32_t x = markov.find(one.state), y = markov.find(other.state);
  if (!one.counts.empty() && !other.counts.empty() && x != Markov::kNone && y != Markov::kNone) {
    const Order found = order.compare(x, counter(one, markov), y, counter(other, markov));
    if (found != Order::kNone) return found;
  }
  if (one.progress == other.progress) return Order::kNone;
  return one.progress > other.progress ? Order::kFirstWaits : Order::kSecondWaits;
}

}  // namespace

DependenceGraph without_targets(const std::vector<Standing>& standing, const GlobalModel& model) {
  const Successors& edges = model.markov.successors();
  const std::vector<Loop> loops = natural_loops(edges, model.entries);
  const auto groups = groups_of(standing, model, &loops, true);
  const LoopOrder order(edges, loops);
  const HittingProbability hitting(model.markov);
  GroupGraph graph(groups, standing.size());
  std::map<uint64_t, std::vector<uint32_t>> by_trace;
  for (uint32_t group = 0; group < groups.size(); group++)
    by_trace[standing[groups[group].front()].trace].push_back(group);
  const auto compare = [&](uint32_t first, uint32_t second) {
    const Standing& one = standing[groups[first].front()];
    const Standing& other = standing[groups[second].front()];
    if (one.waits_for_others != other.waits_for_others)
      return one.waits_for_others ? kFirstOnSecond : kSecondOnFirst;
    if (one.role == other.role) return dependence_of(order_of_siblings(one, other, model.markov, order));
    const uint32_t x = model.markov.find(one.state), y = model.markov.find(other.state);
    if (x == Markov::kNone || y == Markov::kNone) return kNoDependence;
    const Dependence found = dependence(hitting(x, y), hitting(y, x), kEpsilon);
    if (found != kUndefined) return found;
    const auto none = [](uint32_t, uint32_t) { return 0.0; };
    return dependence_of(order.compare(x, none, y, none));
  };
  for (const auto& [trace, members] : by_trace)
    graph.compare_all(members, compare);
  return graph.take();
}

std::vector<uint32_t> least_progressed_siblings(const std::vector<Standing>& siblings,
                                                const GlobalModel& model) {
  const Successors& edges = model.markov.successors();
  const std::vector<Loop> loops = natural_loops(edges, model.entries);
  const LoopOrder order(edges, loops);
  std::vector<std::vector<uint32_t>> each;
  for (const uint32_t i : numbers_to(siblings.size()))
    each.push_back({i});
  GroupGraph graph(each, siblings.size());
  graph.compare_all(numbers_to(siblings.size()), [&](uint32_t first, uint32_t second) {
    return dependence_of(order_of_siblings(siblings[first], siblings[second], model.markov, order));
  });
  return least_progressed(graph.take());
}

}  // namespace kintsugi::progress
