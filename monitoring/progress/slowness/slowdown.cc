#include "monitoring/progress/slowness/slowdown.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/statistics.h"
#include "monitoring/progress/evidence/open_tasks.h"

namespace kintsugi::progress {
namespace {

/// Windows of different processes end at different times; they are judged together so often.
constexpr Duration kRound = 10s;
constexpr const char* kStoreName = "key-value store";

bool is_for_device(proto::WaitKind wait) {
  return wait == proto::WAIT_DISK || wait == proto::WAIT_STORE;
}

}  // namespace

void Slowdowns::take_window(const model::ProcessView& view, TimePoint now) {
  Process& process = processes_[view.process()];
  std::map<std::pair<uint32_t, std::string>, Total> totals;
  for (const proto::SightWaitTotal& wait : view.waits())
    totals[{wait.state(), wait.target()}] = {.count = wait.count(), .ns = wait.ns()};
  const auto same = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.count == b.second.count && a.second.ns == b.second.ns;
  };
  if (process.known &&
      std::equal(totals.begin(), totals.end(), process.totals.begin(), process.totals.end(), same))
    return;
  const double seconds = to_seconds(now - process.since);
  const bool is_window = process.known && seconds > 0.5 && seconds < 60;
  for (auto& [key, usual] : process.waits)
    usual.fresh = false;
  for (const auto& [key, total] : totals) {
    const auto before = process.totals.find(key);
    if (!is_window || before == process.totals.end() || before->second.count > total.count ||
        before->second.ns > total.ns)
      continue;
    const uint64_t count = total.count - before->second.count;
    if (count < kLeastWaits || (process.waits.size() >= kMaxWaits && !process.waits.contains(key))) continue;
    Usual& wait = process.waits[key];
    wait.count = count;
    wait.mean = static_cast<double>(total.ns - before->second.ns) / static_cast<double>(count);
    wait.usual = upper_median_of({wait.means.begin(), wait.means.end()});
    wait.excess = 0;
    wait.fresh = true;
    if (wait.means.size() >= kLeastReference && wait.usual > 0)
      wait.excess = std::max(wait.mean - wait.usual, 0.0) * static_cast<double>(count) / 1e9 / seconds;
    // What is slow is not learnt as usual.
    if (wait.means.size() < kLeastReference || wait.mean < kPeersFactor * wait.usual)
      wait.means.push_back(wait.mean);
    if (wait.means.size() > kReference) wait.means.pop_front();
  }
  process.totals = std::move(totals);
  process.window_began = process.since;
  process.since = now;
  process.known = true;
}

Slowdowns::Blames Slowdowns::blames(const model::Snapshot& snapshot, const ProcessorShares& shares) const {
  Blames blames;
  std::map<std::string, uint64_t> by_address;
  for (const auto& view : snapshot.processes)
    if (!view->last().address().empty()) by_address[view->last().address()] = view->process();
  for (const auto& view : snapshot.processes) {
    const auto found = processes_.find(view->process());
    if (found == processes_.end()) continue;
    const Process& waiter = found->second;
    struct Waits {
      double excess = 0, waiting = 0;
    };
    std::map<Node, Waits> waits_for;
    for (const auto& [key, wait] : waiter.waits) {
      const proto::SightState* state = view->state(key.first);
      if (!wait.fresh || state == nullptr || wait.means.size() < kLeastReference) continue;
      Node node;
      if (is_for_device(state->wait())) {
        node = {view->process(), key.second.empty() ? std::string(kStoreName) : key.second};
      } else if (is_stream_wait(state->wait())) {
        const auto target = by_address.find(key.second);
        if (target == by_address.end()) continue;
        node = {target->second, ""};
      } else {
        continue;
      }
      Blame& blame = blames[node];
      blame.in += wait.excess;
      Waits& waits = waits_for[node];
      waits.excess += wait.excess;
      waits.waiting +=
          wait.mean * static_cast<double>(wait.count) / 1e9 / to_seconds(waiter.since - waiter.window_began);
      if (wait.excess > 0) {
        blame.told = std::max(blame.told, waiter.since);
        if (blame.window_began == TimePoint{} || waiter.window_began < blame.window_began)
          blame.window_began = waiter.window_began;
      }
      blame.waiters++;
      if (wait.excess >= blame.worst) {
        blame.worst = wait.excess;
        blame.factor = wait.usual > 0 ? wait.mean / wait.usual : 1;
        blame.waiter = view->process();
        blame.state = key.first;
      }
      blames[{view->process(), ""}].out += wait.excess;
    }
    const double delayed = shares.since(view->process(), waiter.window_began).delayed;
    for (const auto& [node, waits] : waits_for) {
      Blame& blame = blames[node];
      blame.waiting += waits.waiting;
      const double starved = std::min(waits.excess, delayed * std::max(1.0, waits.waiting));
      blame.starved += starved;
      if (starved <= blame.most_starved) continue;
      blame.most_starved = starved;
      blame.most_starved_waiter = view->process();
    }
  }
  return blames;
}

/// What the target's lack of a processor may account for: while it could have run and did not, all that were waiting
/// waited longer, one at least.
double Slowdowns::own_delay(const Node& node, const Blame& blame, const ProcessorShares& shares) {
  const ProcessorShares::Share share = shares.since(node.first, blame.window_began);
  // The store's thread is one of the other threads of the process.
  const bool has_thread = node.second == kStoreName;
  const double delayed = has_thread            ? std::max(0.0, share.all_delayed - share.delayed)
                         : node.second.empty() ? share.delayed
                                               : 0;
  return delayed * std::max(1.0, blame.waiting);
}

int Slowdowns::Rounds::count(const Node& node, TimePoint told, Rounds& next) const {
  const auto known = judged.find(node);
  const bool is_new = known == judged.end() || told - known->second >= kRound;
  const auto before = windows.find(node);
  next.judged[node] = is_new ? told : known->second;
  return next.windows[node] = (before == windows.end() ? 0 : before->second) + (is_new ? 1 : 0);
}

/// The factors of the others of its kind: devices among devices of such processes, processes among processes.
std::vector<double> Slowdowns::peers_of(const Node& node, const Blames& all, const Views& views) {
  const std::string& kind = views.at(node.first)->last().kind();
  std::vector<double> peers;
  for (const auto& [other, theirs] : all) {
    const auto peer = views.find(other.first);
    if (other == node || other.second.empty() != node.second.empty() || peer == views.end()) continue;
    if (peer->second->last().kind() == kind && theirs.waiters > 0) peers.push_back(theirs.factor);
  }
  return peers;
}

proto::Verdict Slowdowns::verdict_of(const Node& node, const Blame& blame, const Views& views) {
  const model::ProcessView& view = *views.at(node.first);
  proto::Verdict verdict;
  verdict.set_kind(proto::Verdict::SLOW);
  verdict.set_server(view.display());
  verdict.set_server_id(view.last().server_id());
  verdict.set_process(node.first);
  verdict.set_process_kind(view.last().kind());
  verdict.set_device(node.second);
  verdict.set_region(node.second.empty() ? "answers to others" : node.second);
  verdict.set_waiters(static_cast<uint32_t>(blame.waiters));
  verdict.set_probability(0.95);
  verdict.set_confidence(proto::Verdict::LIKELY);
  verdict.add_why(
      fmt::format("others waited {:.2f} s longer for it in each second than they used to", blame.in));
  if (const auto waiter = views.find(blame.waiter); waiter != views.end())
    if (const proto::SightState* state = waiter->second->state(blame.state); state != nullptr)
      verdict.add_why(fmt::format("most of all {} of {}", waiter->second->role_name(state->role()),
                                  waiter->second->display()));
  return verdict;
}

std::vector<proto::Verdict> Slowdowns::update(const model::Snapshot& snapshot,
                                              const ProcessorShares& shares) {
  Views views;
  for (const auto& view : snapshot.processes) {
    views[view->process()] = view.get();
    take_window(*view, view->arrived());
  }
  std::erase_if(processes_, [&](const auto& entry) { return !views.contains(entry.first); });
  const Blames all = blames(snapshot, shares);
  Rounds slow, starved;
  std::vector<StarvedProcess> short_of_processor;
  std::vector<proto::Verdict> verdicts;
  for (const auto& [node, blame] : all) {
    if (!views.contains(node.first)) continue;
    const std::vector<double> peers = peers_of(node, all, views);
    const double remaining = node.second.empty() ? blame.in - blame.out : blame.in;
    if (remaining < kLeastBlame || blame.factor < kFactor || upper_median_of(peers) >= kPeersFactor) continue;
    const double own = own_delay(node, blame, shares);
    const double excused = std::min(blame.in, own + blame.starved);
    const double factor = 1 + (blame.factor - 1) * (blame.in - excused) / blame.in;
    if (remaining - excused < kLeastBlame || factor < kFactor) {
      if (starved_.count(node, blame.told, starved) >= kWindows)
        short_of_processor.push_back(
            {.process = own >= blame.most_starved ? node.first : blame.most_starved_waiter,
             .waited_too_long = blame.in,
             .excused = excused,
             .since = snapshot.taken - kRound * starved.windows[node]});
      continue;
    }
    const int windows = slow_.count(node, blame.told, slow);
    if (windows < kWindows) continue;
    proto::Verdict verdict = verdict_of(node, blame, views);
    verdict.set_factor(factor);
    verdict.set_since_ns(static_cast<uint64_t>((kRound * windows).count()));
    verdict.add_why(fmt::format("{} others of its kind are not slower than usual", peers.size()));
    verdicts.push_back(std::move(verdict));
  }
  slow_ = std::move(slow);
  starved_ = std::move(starved);
  for (proto::Verdict& verdict : short_machines(short_of_processor, shares, snapshot))
    verdicts.push_back(std::move(verdict));
  return verdicts;
}

}  // namespace kintsugi::progress
