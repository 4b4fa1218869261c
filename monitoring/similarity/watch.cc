#include "monitoring/similarity/watch.h"

#include <algorithm>
#include <cmath>

#include "common/base/statistics.h"
#include "monitoring/similarity/state_use.h"

namespace kintsugi::similarity {
namespace {

constexpr auto kForgetAfter = std::chrono::minutes(10);
/// The same spread that differences of models have when nothing is wrong and few windows are known.
constexpr double kLeastSpread = 0.1;
/// Octaves by which the slowdown of computing may vary between transitions when one thing causes all of it.
constexpr double kOneCause = 0.5;
/// Above so many workers of a role each one is compared with this many others.
constexpr size_t kComparedWith = 64;
constexpr size_t kShown = 5;
/// A way out of a state that is taken more seldom than this comes and goes without anything being wrong.
constexpr double kUsualPath = 0.2;

double load_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double apart = std::log2((1 + std::max(a[i], 0.0)) / (1 + std::max(b[i], 0.0)));
    sum += apart * apart;
  }
  return sum;
}

Normal normal_of(const Edge& edge) {
  return {edge.mean, edge.deviation()};
}

}  // namespace

void Watch::Alarm::update(bool is_odd, TimePoint now, const WatchSettings& settings) {
  if (is_odd && odd == 0) first_odd = now;
  odd = is_odd ? odd + 1 : 0;
  well = is_odd ? 0 : well + 1;
  if (!since && odd >= settings.raise_windows) since = first_odd;
  if (since && well >= settings.clear_windows) since.reset();
}

Model Watch::past_of(const Known& known, const std::vector<double>& load) const {
  if (known.references.size() < settings_.least_references) return {};
  std::vector<std::pair<double, size_t>> nearest;
  for (size_t i = 0; i < known.references.size(); ++i)
    nearest.emplace_back(load_distance(known.references[i].load, load), i);
  std::sort(nearest.begin(), nearest.end());
  std::vector<Edge> edges;
  for (size_t k = 0; k < std::min(nearest.size(), settings_.like_load); ++k) {
    const auto of = known.references[nearest[k].second].model.edges();
    edges.insert(edges.end(), of.begin(), of.end());
  }
  return Model(std::move(edges));
}

bool Watch::stands_out(double value, const std::deque<double>& usual) const {
  if (value < settings_.least_difference) return false;
  if (usual.size() < settings_.least_references) return true;
  const std::vector<double> values(usual.begin(), usual.end());
  return value >
         median_of(values) + settings_.deviations * std::max(robust_deviation_of(values), kLeastSpread);
}

double Watch::factor_of(const Model& model, const Model& other, const Term& term) const {
  const Edge* here = model.find(term.transition);
  const Edge* there = other.find(term.transition);
  if (here == nullptr || there == nullptr || std::min(here->count, there->count) < settings_.least_executions)
    return 1;
  return linear_mean(normal_of(*here)) / linear_mean(normal_of(*there));
}

std::vector<double> Watch::computing_ratios(const Judged& judged) const {
  std::vector<double> out;
  for (const Edge& edge : judged.worker->model.edges()) {
    const Edge* before = judged.past.find(edge.transition);
    if (before == nullptr || std::min(edge.count, before->count) < settings_.least_executions) continue;
    if (describe_(edge.transition.from).computes) out.push_back(edge.mean - before->mean);
  }
  return out;
}

proto::Verdict Watch::slow(const Judged& judged, size_t peers) const {
  const Worker& worker = *judged.worker;
  proto::Verdict out;
  out.set_kind(proto::Verdict::SLOW);
  out.set_server(worker.server);
  out.set_server_id(worker.server_id);
  out.set_process(worker.process);
  out.set_process_kind(worker.process_kind);
  const StateInfo first = describe_(judged.top.front().transition.from);
  out.set_region(first.name);
  out.set_file(first.file);
  out.set_line(first.line);
  out.set_function(first.function);
  out.set_factor(judged.factor);
  out.set_confidence(peers >= settings_.least_peers ? proto::Verdict::LIKELY : proto::Verdict::UNSURE);
  out.add_why(fmt::format(
      "{}: differs by {:.1f} from {} other servers and by {:.1f} from what it was under like load",
      worker.role, judged.to_peers, peers, judged.to_past));
  for (const Term& term : judged.top) {
    const std::string path =
        fmt::format("{} -> {}", describe_(term.transition.from).name, describe_(term.transition.to).name);
    if (term.only_one)
      out.add_why(fmt::format("{}: {}", path,
                              worker.model.find(term.transition) != nullptr ? "only here" : "not here"));
    else
      out.add_why(fmt::format("{}: {:.1f} times as long ({:.1f})", path,
                              factor_of(worker.model, judged.past.empty() ? judged.peers : judged.past, term),
                              term.magnitude));
  }
  return out;
}

void Watch::judge_role(std::vector<Judged>& role) {
  const size_t workers = role.size();
  const size_t compared = std::min(workers, kComparedWith);
  for (size_t i = 0; i < workers; ++i) {
    Judged& judged = role[i];
    judged.past = past_of(*judged.known, judged.worker->load);
    if (!judged.past.empty()) judged.to_past = difference(judged.worker->model, judged.past, settings_.form);
    std::vector<double> to_others;
    std::vector<Edge> edges;
    for (size_t k = 0; k < compared; ++k) {
      const size_t j = workers <= kComparedWith ? k : (i + 1 + k * (workers - 1) / compared) % workers;
      if (j == i) continue;
      to_others.push_back(difference(judged.worker->model, role[j].worker->model, settings_.form));
      const auto of = role[j].worker->model.edges();
      edges.insert(edges.end(), of.begin(), of.end());
    }
    // The median: as long as fewer than half of the others are odd, it says what it is to be like the rest.
    judged.to_peers = median_of(to_others);
    judged.peers = Model(std::move(edges));
    const bool peers = to_others.size() >= settings_.least_peers;
    const bool from_peers = peers && stands_out(judged.to_peers, judged.known->to_peers);
    const bool from_past = !judged.past.empty() && stands_out(judged.to_past, judged.known->to_past);
    if (!from_past || (peers && !from_peers)) continue;
    judged.top = characteristic_transitions(judged.worker->model, judged.past, settings_.form, kShown);
    // Without peers that wait for the same, nobody can tell a slow wait from whatever it waits for.
    if (!peers)
      std::erase_if(judged.top, [&](const Term& term) {
        return use_of(describe_(term.transition.from).wait) == StateUse::kWaits;
      });
    if (judged.top.empty()) continue;
    for (const Term& term : judged.top) {
      const double to_past = factor_of(judged.worker->model, judged.past, term);
      const double to_peers = peers ? factor_of(judged.worker->model, judged.peers, term) : to_past;
      judged.factor = std::max(judged.factor, std::min(to_past, to_peers));
    }
    const Term& first = judged.top.front();
    const Model& has =
        judged.worker->model.find(first.transition) != nullptr ? judged.worker->model : judged.past;
    const bool other_path = first.only_one && has.probability(*has.find(first.transition)) >= kUsualPath;
    judged.odd = judged.factor >= settings_.least_factor || other_path;
    if (judged.odd) {  // the slowest comes first
      const auto slower = [&](const Term& term) {
        return factor_of(judged.worker->model, judged.past, term) >= settings_.least_factor;
      };
      if (judged.factor >= settings_.least_factor)
        std::stable_partition(judged.top.begin(), judged.top.end(), slower);
    }
  }
}

Watch::Roles Watch::by_role(const std::vector<Worker>& workers, TimePoint now) {
  Roles roles;
  for (const Worker& worker : workers) {
    seen_[worker.process] = now;
    if (worker.model.count() < settings_.least_transitions) continue;
    const Key key{worker.process, worker.role};
    if (!known_.contains(key) && known_.size() >= settings_.most_workers) continue;
    Known& known = known_[key];
    known.seen = now;
    roles[{worker.process_kind, worker.role}].push_back({.worker = &worker, .known = &known});
  }
  return roles;
}

proto::Verdict Watch::short_of_resource(const Worker& worker, size_t transitions, double octaves,
                                        bool has_peers) {
  proto::Verdict verdict;
  verdict.set_kind(proto::Verdict::RESOURCE);
  verdict.set_server(worker.server);
  verdict.set_server_id(worker.server_id);
  verdict.set_process(worker.process);
  verdict.set_process_kind(worker.process_kind);
  verdict.set_factor(std::exp2(octaves));
  verdict.set_confidence(has_peers ? proto::Verdict::LIKELY : proto::Verdict::UNSURE);
  verdict.add_why(
      fmt::format("all {} transitions that compute take {:.1f} times as long as under like load before: "
                  "the processor or the memory of this machine is taken by something else",
                  transitions, std::exp2(octaves)));
  return verdict;
}

/// When all computing of a process is slower by one factor, something else takes its processor or memory, and no
/// transition is the culprit.
void Watch::judge_computing(const Roles& roles, TimePoint now) {
  struct Computing {
    const Worker* worker = nullptr;
    std::vector<double> ratios;
  };
  std::map<uint64_t, Computing> processes;
  for (const auto& [role, judged] : roles)
    for (const Judged& one : judged) {
      const auto ratios = computing_ratios(one);
      Computing& computing = processes[one.worker->process];
      computing.ratios.insert(computing.ratios.end(), ratios.begin(), ratios.end());
      computing.worker = one.worker;
    }
  std::vector<double> medians;
  for (const auto& [process, computing] : processes)
    if (computing.ratios.size() >= settings_.resource_edges) medians.push_back(median_of(computing.ratios));
  const bool has_peers = medians.size() > settings_.least_peers;
  const double all_slower = has_peers ? median_of(medians) : 0, factor = std::log2(settings_.resource_factor);
  for (const auto& [process, computing] : processes) {
    const std::vector<double>& ratios = computing.ratios;
    const double slower = median_of(ratios) - std::max(0.0, all_slower);
    const bool taken = ratios.size() >= settings_.resource_edges && slower >= factor &&
                       robust_deviation_of(ratios) <= kOneCause && quantile_of(ratios, 0.1) > factor / 2;
    Alarm& alarm = resource_[process];
    alarm.update(taken, now, settings_);
    if (taken) alarm.verdict = short_of_resource(*computing.worker, ratios.size(), slower, has_peers);
  }
}

/// Only windows without an alarm say what is normal.
void Watch::learn(const Judged& judged, bool has_peers) {
  Known& known = *judged.known;
  const auto keep = [&](auto& values, auto value) {
    values.push_back(std::move(value));
    if (values.size() > settings_.references) values.pop_front();
  };
  if (!judged.past.empty()) keep(known.to_past, judged.to_past);
  if (has_peers) keep(known.to_peers, judged.to_peers);
  keep(known.references, Reference{.model = judged.worker->model, .load = judged.worker->load});
}

void Watch::add_window(const std::vector<Worker>& workers, TimePoint now) {
  excused_.clear();
  Roles roles = by_role(workers, now);
  for (auto& [role, judged] : roles)
    judge_role(judged);
  judge_computing(roles, now);
  for (const auto& [role, judged] : roles) {
    const auto odd = static_cast<size_t>(std::ranges::count_if(judged, &Judged::odd));
    const bool has_peers = judged.size() > settings_.least_peers;
    for (const Judged& one : judged) {
      // What most servers do at once is a change of the load or of the code.
      const bool alone = !has_peers || 2 * odd < judged.size();
      const bool is_odd = one.odd && alone && !one.worker->lacked_processor;
      if (one.odd && alone && !is_odd) excused_.push_back(slow(one, judged.size() - 1));
      Alarm& alarm = one.known->alarm;
      alarm.update(is_odd, now, settings_);
      if (is_odd) alarm.verdict = slow(one, judged.size() - 1);
      const auto resource = resource_.find(one.worker->process);
      const bool taken = resource != resource_.end() && (resource->second.since || resource->second.odd > 0);
      if (!is_odd && !taken && !alarm.since && !one.worker->lacked_processor) learn(one, has_peers);
    }
  }
  std::erase_if(known_, [&](const auto& entry) { return now - entry.second.seen > kForgetAfter; });
  std::erase_if(seen_, [&](const auto& entry) { return now - entry.second > kForgetAfter; });
  std::erase_if(resource_, [&](const auto& entry) { return !seen_.contains(entry.first); });
}

std::vector<proto::Verdict> Watch::alarms(TimePoint now) const {
  std::vector<proto::Verdict> out;
  const auto add = [&](const Alarm& alarm) {
    out.push_back(alarm.verdict);
    out.back().set_since_ns(
        static_cast<uint64_t>(std::max<int64_t>(0, std::chrono::nanoseconds(now - *alarm.since).count())));
  };
  for (const auto& [process, alarm] : resource_)
    if (alarm.since) add(alarm);
  for (const auto& [key, known] : known_) {
    const auto resource = resource_.find(key.first);
    const bool explained = resource != resource_.end() && resource->second.since;
    if (known.alarm.since && !explained) add(known.alarm);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.factor() > b.factor(); });
  return out;
}

}  // namespace kintsugi::similarity
