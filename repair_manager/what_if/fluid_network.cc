#include "repair_manager/what_if/fluid_network.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/assert.h"

namespace kintsugi::what_if {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kLeastRate = 1;  // bytes/s: no flow stands still
// Rates that differ by less than this part are the same but for rounding.
constexpr double kRounding = 1e-9;

}  // namespace

FluidNetwork::~FluidNetwork() {
  if (timer_ != runtime::TimerId{}) clock_.cancel(timer_);
}

FluidNetwork::Link FluidNetwork::add_link(double bytes_per_second) {
  links_.push_back({.capacity = bytes_per_second});
  return static_cast<Link>(links_.size() - 1);
}

void FluidNetwork::start(std::span<const Share> shares, double bytes, double max_rate,
                         std::function<void()> done) {
  KINTSUGI_ASSERT(!shares.empty() && max_rate > 0);
  advance(clock_.now());
  if (free_.empty()) {
    free_.push_back(static_cast<Slot>(flows_.size()));
    flows_.emplace_back();
  }
  const Slot slot = free_.back();
  free_.pop_back();
  Flow& flow = flows_[slot];
  flow.shares.assign(shares.begin(), shares.end());
  flow.left = std::max(bytes, 1.0);
  flow.max_rate = max_rate;
  flow.rate = 0;
  flow.done = std::move(done);
  for (const Share& share : shares) {
    LinkState& link = links_[share.link];
    link.users.push_back({slot, share.weight});
    link.carried += share.weight * bytes;
  }
  order_.push_back(slot);
  const auto at =
      std::upper_bound(by_limit_.begin(), by_limit_.end(), max_rate,
                       [this](double limit, Slot other) { return limit < flows_[other].max_rate; });
  by_limit_.insert(at, slot);
  begun_.push_back(slot);
  wake_at(clock_.now());
}

void FluidNetwork::wake_at(TimePoint due) {
  if (timer_ != runtime::TimerId{}) {
    if (due_ <= due) return;
    clock_.cancel(timer_);
  }
  due_ = due;
  timer_ = clock_.call_at(due, [this] { turn(); });
}

void FluidNetwork::advance(TimePoint now) {
  const double seconds = to_seconds(now - as_of_);
  as_of_ = now;
  if (seconds <= 0) return;
  for (const Slot slot : order_)
    flows_[slot].left -= flows_[slot].rate * seconds;
}

void FluidNetwork::turn() {
  timer_ = {};
  ++turns_;
  advance(clock_.now());
  std::vector<std::function<void()>> ended;
  std::erase_if(order_, [&](Slot slot) {
    Flow& flow = flows_[slot];
    if (flow.left > flow.rate * settings_.together_seconds) return false;
    ended.push_back(std::move(flow.done));
    remove(slot);
    return true;
  });
  compute_rates();
  double soonest = kNever;
  for (const Slot slot : order_)
    soonest = std::min(soonest, flows_[slot].left / flows_[slot].rate);
  if (!order_.empty())
    wake_at(clock_.now() +
            std::max<Duration>(1us, std::chrono::ceil<Duration>(std::chrono::duration<double>(soonest))));
  for (const auto& done : ended)
    done();
}

/// Takes a flow that ended out of everything but order_.
void FluidNetwork::remove(Slot slot) {
  Flow& flow = flows_[slot];
  for (const Share& share : flow.shares) {
    LinkState& link = links_[share.link];
    const auto user = std::ranges::find(link.users, slot, &User::flow);
    *user = link.users.back();
    link.users.pop_back();
    link.used = link.users.empty() ? 0 : link.used - share.weight * flow.rate;
  }
  const auto same =
      std::lower_bound(by_limit_.begin(), by_limit_.end(), flow.max_rate,
                       [this](Slot other, double limit) { return flows_[other].max_rate < limit; });
  by_limit_.erase(std::find(same, by_limit_.end(), slot));
  refill_from_ = std::min(refill_from_, flow.rate);
  free_.push_back(slot);
}

void FluidNetwork::compute_rates() {
  const TimePoint began = settings_.stopwatch ? settings_.stopwatch->now() : TimePoint{};
  for (const Slot slot : begun_)
    flows_[slot].rate = kNever;
  double level = refill_from_;
  for (const Slot slot : begun_)
    level = std::min(level, level_of(flows_[slot]));
  if (level < kNever) {
    open_from(level * (1 - kRounding));
    fill();
  }
  begun_.clear();
  refill_from_ = kNever;
  if (settings_.stopwatch) seconds_spent_ += to_seconds(settings_.stopwatch->now() - began);
}

/// A lower bound of the rate that a flow will have which begins now. On each of its links the level x is looked for at
/// which all flows, each with min(its rate, x), fill the link: from below, by Newton's method on a concave function.
double FluidNetwork::level_of(const Flow& begun) const {
  double lowest = begun.max_rate;
  for (const Share& share : begun.shares) {
    const LinkState& link = links_[share.link];
    double level = 0, before = -1;
    for (int step = 0; step < 4 && level > before; ++step) {
      double slower = 0, weight = 0;
      for (const User& user : link.users) {
        const double rate = flows_[user.flow].rate;
        rate < level ? slower += user.weight* rate : weight += user.weight;
      }
      before = level;
      level = std::max(level, (link.capacity - slower) / weight);
      if (level >= lowest) break;
    }
    lowest = std::min(lowest, level);
  }
  return lowest;
}

/// Takes away the rates of all flows that have at least `level`.
void FluidNetwork::open_from(double level) {
  full_.clear();
  touched_.clear();
  for (const Slot slot : order_) {
    Flow& flow = flows_[slot];
    if (flow.rate < level) continue;
    const double had = flow.rate == kNever ? 0 : flow.rate;
    flow.open = true;
    share_visits_ += flow.shares.size();
    for (const Share& share : flow.shares) {
      LinkState& link = links_[share.link];
      if (link.open++ == 0) {
        link.weight = 0;
        touched_.push_back(share.link);
      }
      link.weight += share.weight;
      link.used -= share.weight * had;
    }
  }
  for (const Link link : touched_) {
    // What rounding left of flows that are gone would add up.
    LinkState& state = links_[link];
    if (state.open == state.users.size()) state.used = 0;
    full_.push_back({full_at(state), link});
  }
  std::ranges::make_heap(full_, std::greater<>());
}

double FluidNetwork::full_at(const LinkState& link) const {
  return std::max(0.0, link.capacity - link.used) / link.weight;
}

void FluidNetwork::settle(Flow& flow, double rate) {
  flow.rate = std::max(rate, kLeastRate);
  flow.open = false;
  for (const Share& share : flow.shares) {
    LinkState& link = links_[share.link];
    link.used += share.weight * flow.rate;
    link.weight -= share.weight;
    --link.open;
  }
}

/// Gives every open flow the least level of its links as they are now: no link gets more than it can carry, and some
/// get less than with progressive filling.
void FluidNetwork::rise_to_limits() {
  for (const Link link : touched_)
    if (links_[link].open > 0) links_[link].level = full_at(links_[link]);
  for (const Slot slot : order_) {
    Flow& flow = flows_[slot];
    if (!flow.open) continue;
    share_visits_ += flow.shares.size();
    double rate = flow.max_rate;
    for (const Share& share : flow.shares)
      rate = std::min(rate, links_[share.link].level);
    settle(flow, rate);
  }
}

void FluidNetwork::fill() {
  const auto pop = [this] {
    std::ranges::pop_heap(full_, std::greater<>());
    const Full top = full_.back();
    full_.pop_back();
    return top;
  };
  size_t full = 0;
  for (size_t limited = 0;;) {
    if (full == settings_.most_full_links) return rise_to_limits();
    while (limited < by_limit_.size() && !flows_[by_limit_[limited]].open)
      ++limited;
    if (limited == by_limit_.size()) return;
    // As flows settle, the level at which a link is full only rises: a level that was right once comes up too early.
    while (!full_.empty()) {
      const Full top = full_.front();
      const LinkState& link = links_[top.link];
      const double level = link.open > 0 ? full_at(link) : kNever;
      if (level <= top.level * (1 + 1e-12)) break;
      pop();
      if (level == kNever) continue;
      full_.push_back({level, top.link});
      std::ranges::push_heap(full_, std::greater<>());
    }
    Flow& slowest = flows_[by_limit_[limited]];
    if (full_.empty() || slowest.max_rate <= full_.front().level) {
      settle(slowest, slowest.max_rate);
      continue;
    }
    const Full top = pop();
    ++full;
    for (const User& user : links_[top.link].users)
      if (flows_[user.flow].open) settle(flows_[user.flow], top.level);
  }
}

}  // namespace kintsugi::what_if
