#include "monitoring/progress/waits/culprits.h"

#include <algorithm>
#include <limits>

#include "monitoring/progress/strong_components.h"

namespace kintsugi::progress {
namespace {

constexpr size_t kLongestChain = 64;
constexpr uint32_t kNone = ~0u;

/// One step on a path to the culprit.
struct Step {
  uint32_t towards = kNone;
  uint32_t distance = 0;
};

struct Reversed {
  std::vector<std::vector<WaitEdge>> edges;  ///< reversed: `to` is the waiting vertex

  explicit Reversed(const WaitGraph& graph) : edges(graph.vertices().size()) {
    for (uint32_t from = 0; from < graph.edges().size(); from++)
      for (const WaitEdge& edge : graph.edges()[from])
        edges[edge.to].push_back({from, edge.kind});
  }
};

class Finder {
 public:
  Finder(const OpenTasks& tasks, const WaitGraph& graph, const Sojourns& sojourns)
      : tasks_(tasks), graph_(graph), sojourns_(sojourns), reversed_(graph) {}

  std::vector<Culprit> find() {
    const auto& edges = graph_.edges();
    Successors firm(edges.size());
    for (uint32_t from = 0; from < edges.size(); from++)
      for (const WaitEdge& edge : edges[from])
        if (edge.kind == EdgeKind::kFirm || edge.kind == EdgeKind::kWeak) firm[from].push_back(edge.to);
    const Components components = strong_components(firm);
    std::vector<bool> is_sink(components.count, true);
    for (uint32_t v = 0; v < edges.size(); v++) {
      const Vertex& vertex = graph_.vertices()[v];
      const bool leads_on = std::any_of(firm[v].begin(), firm[v].end(),
                                        [&](uint32_t to) { return components.of[to] != components.of[v]; });
      if (leads_on || !vertex.stalled || vertex.feeds || vertex.unresolved) is_sink[components.of[v]] = false;
    }
    std::vector<std::vector<uint32_t>> members(components.count);
    for (uint32_t v = 0; v < edges.size(); v++)
      if (is_sink[components.of[v]]) members[components.of[v]].push_back(v);
    std::vector<Culprit> culprits;
    for (std::vector<uint32_t>& of : members)
      if (!of.empty() && !is_guessed_circle(of)) culprits.push_back(culprit(std::move(of)));
    return culprits;
  }

 private:
  bool is_task(uint32_t v) const { return graph_.vertices()[v].place == Place::kTask; }
  /// A circle that closes only by guesses about who holds a resource is what load looks like.
  bool is_guessed_circle(const std::vector<uint32_t>& members) const {
    if (members.size() < 2) return false;
    std::map<uint32_t, uint32_t> index;
    for (const uint32_t member : members)
      index.emplace(member, static_cast<uint32_t>(index.size()));
    Successors known(members.size());
    for (const uint32_t member : members)
      for (const WaitEdge& edge : graph_.edges()[member])
        if (const auto to = index.find(edge.to); edge.kind == EdgeKind::kFirm && to != index.end())
          known[index[member]].push_back(to->second);
    return strong_components(known).count == members.size();
  }
  uint64_t age(uint32_t v) const { return is_task(v) ? tasks_[v].top().age_ns() : 0; }

  /// Where it stands still: of those that wait for a device or a link itself, the one that has waited longest. Of a
  /// running process what its loop touched last stands in the report.
  uint32_t blamed(const Culprit& culprit) const {
    const uint32_t first = culprit.members.front();
    const Place place = graph_.vertices()[first].place;
    if (place == Place::kRunning || place == Place::kSilent) return first;
    uint32_t best = first;
    const auto consider = [&](uint32_t v) {
      if (is_task(v) && (!is_task(best) || age(v) > age(best))) best = v;
    };
    for (const uint32_t member : culprit.members)
      consider(member);
    if (place != Place::kTask)
      for (const WaitEdge& edge : reversed_.edges[first])
        consider(edge.to);
    return best;
  }

  Culprit culprit(std::vector<uint32_t> members) {
    Culprit result;
    result.members = std::move(members);
    result.knot = result.members.size() > 1;
    result.blamed = blamed(result);
    reach(result);
    if (is_task(result.blamed)) {
      const auto age = static_cast<int64_t>(
          std::min<uint64_t>(tasks_[result.blamed].top().age_ns(), std::numeric_limits<int64_t>::max()));
      result.surprise = sojourns_.rarity(tasks_.key(result.blamed), Duration(age)).surprise;
    }
    return result;
  }

  /// Everybody who waits for it, by how they do: breadth first, against the edges.
  void reach(Culprit& culprit) {
    std::map<uint32_t, Step> next;
    /// `firm` reach the culprit by firm or weak edges alone, `certain` by firm edges alone.
    std::set<uint32_t> firm, certain;
    std::vector<uint32_t> queue;
    for (const uint32_t member : culprit.members) {
      next[member] = {kNone, 0};
      firm.insert(member);
      certain.insert(member);
      queue.push_back(member);
    }
    uint32_t farthest = culprit.members.front();
    for (size_t at = 0; at < queue.size(); at++) {
      const uint32_t v = queue[at];
      if (next[v].distance > next[farthest].distance) farthest = v;
      for (const WaitEdge& edge : reversed_.edges[v]) {
        const bool passes = edge.kind == EdgeKind::kFirm || edge.kind == EdgeKind::kWeak;
        bool again = false;
        if (passes && firm.contains(v)) again = firm.insert(edge.to).second;
        if (edge.kind == EdgeKind::kFirm && certain.contains(v))
          again = certain.insert(edge.to).second || again;
        const bool is_new = next.emplace(edge.to, Step{v, next[v].distance + 1}).second;
        if (is_new || again) queue.push_back(edge.to);
      }
    }
    for (const auto& [v, step] : next)
      if (!is_member(culprit, v) && v != culprit.blamed && !is_own_task(culprit, v))
        culprit.waiters.push_back(v);
    culprit.weak = !culprit.waiters.empty() &&
                   std::none_of(culprit.waiters.begin(), culprit.waiters.end(),
                                [&](uint32_t v) { return certain.contains(v) || !firm.contains(v); });
    culprit.masked = is_masked(culprit, firm) || is_given_up(culprit);
    chain(culprit, next, farthest);
  }

  static bool is_member(const Culprit& culprit, uint32_t v) {
    return std::binary_search(culprit.members.begin(), culprit.members.end(), v);
  }

  /// A task of the process that runs or is silent as a whole: it is a victim, but none that waits for another.
  bool is_own_task(const Culprit& culprit, uint32_t v) const {
    const Vertex& process = graph_.vertices()[culprit.members.front()];
    return (process.place == Place::kRunning || process.place == Place::kSilent) && is_task(v) &&
           graph_.vertices()[v].process == process.process;
  }

  /// Whoever waits for it firmly was itself given up by others, or is not needed by them.
  bool is_masked(const Culprit& culprit, const std::set<uint32_t>& firm) const {
    bool is_any = false;
    for (const uint32_t v : firm) {
      bool has_firm = false, has_soft = false;
      for (const WaitEdge& edge : reversed_.edges[v]) {
        has_firm = has_firm || edge.kind == EdgeKind::kFirm || edge.kind == EdgeKind::kWeak;
        has_soft = has_soft || edge.kind == EdgeKind::kMasked || edge.kind == EdgeKind::kEnded;
      }
      if (has_soft) is_any = true;
      if (!has_firm && !has_soft && is_task(v) && !is_own_task(culprit, v)) return false;
    }
    return is_any;
  }

  /// It works for somebody who does not wait for it any more.
  bool is_given_up(const Culprit& culprit) const {
    if (culprit.knot || !culprit.waiters.empty() || !is_task(culprit.members.front())) return false;
    const uint64_t caller = tasks_[culprit.members.front()].root().parent();
    return caller != 0 && tasks_.holding(caller).empty() && tasks_.at_stream(caller).empty();
  }

  void chain(Culprit& culprit, const std::map<uint32_t, Step>& next, uint32_t from) {
    for (uint32_t v = from; v != kNone && culprit.chain.size() < kLongestChain; v = next.at(v).towards)
      culprit.chain.push_back(v);
    if (culprit.knot) {  // the chain goes once around the knot
      for (const uint32_t member : culprit.members)
        if (std::find(culprit.chain.begin(), culprit.chain.end(), member) == culprit.chain.end() &&
            culprit.chain.size() < kLongestChain)
          culprit.chain.push_back(member);
    }
  }

  const OpenTasks& tasks_;
  const WaitGraph& graph_;
  const Sojourns& sojourns_;
  const Reversed reversed_;
};

}  // namespace

std::vector<Culprit> find_culprits(const OpenTasks& tasks, const WaitGraph& graph, const Sojourns& sojourns) {
  return Finder(tasks, graph, sojourns).find();
}

}  // namespace kintsugi::progress
