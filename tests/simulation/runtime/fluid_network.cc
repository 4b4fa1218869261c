#include "tests/simulation/runtime/fluid_network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "common/base/assert.h"

namespace kintsugi::simulation {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNoWeight = 1e-9;
// Flows that end within this time of one another end together: one computation of rates instead of many.
constexpr double kTogetherSeconds = 100e-6;

}  // namespace

FluidNetwork::~FluidNetwork() {
  if (timer_ != runtime::TimerId{}) clock_.cancel(timer_);
}

FluidNetwork::Link FluidNetwork::add_link(double bytes_per_second) {
  links_.push_back({.capacity = bytes_per_second});
  return static_cast<Link>(links_.size() - 1);
}

void FluidNetwork::start(std::vector<Share> shares, double bytes, double max_rate,
                         std::function<void()> done) {
  KINTSUGI_ASSERT(!shares.empty() && max_rate > 0);
  advance(clock_.now());
  flows_.emplace(next_flow_++, Flow{.shares = std::move(shares),
                                    .left = std::max(bytes, 1.0),
                                    .max_rate = max_rate,
                                    .done = std::move(done)});
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
  const double seconds = std::chrono::duration<double>(now - as_of_).count();
  as_of_ = now;
  if (seconds <= 0) return;
  for (auto& [id, flow] : flows_)
    flow.left -= flow.rate * seconds;
}

void FluidNetwork::turn() {
  timer_ = {};
  advance(clock_.now());
  std::vector<std::function<void()>> ended;
  for (auto at = flows_.begin(); at != flows_.end();) {
    const auto flow = at++;
    if (flow->second.left > flow->second.rate * kTogetherSeconds) continue;
    ended.push_back(std::move(flow->second.done));
    flows_.erase(flow);
  }
  compute_rates();
  double soonest = kNever;
  for (const auto& [id, flow] : flows_)
    soonest = std::min(soonest, flow.left / flow.rate);
  if (!flows_.empty())
    wake_at(clock_.now() +
            std::max<Duration>(1us, std::chrono::ceil<Duration>(std::chrono::duration<double>(soonest))));
  for (const auto& done : ended)
    done();
}

void FluidNetwork::compute_rates() {
  const auto began = std::chrono::steady_clock::now();
  ++computations_;
  for (LinkState& link : links_) {
    link.weight = link.level = 0;
    link.free = link.capacity;
    link.flows.clear();
  }
  std::vector<Flow*> by_limit;
  for (auto& [id, flow] : flows_) {
    flow.rate = -1;
    by_limit.push_back(&flow);
    for (const Share& share : flow.shares) {
      links_[share.link].weight += share.weight;
      links_[share.link].flows.push_back(&flow);
    }
  }
  std::ranges::stable_sort(by_limit, {}, &Flow::max_rate);

  const auto full_at = [&](Link link) {
    const LinkState& state = links_[link];
    return state.weight > kNoWeight ? state.level + std::max(0.0, state.free) / state.weight : kNever;
  };
  using Full = std::pair<double, Link>;
  std::priority_queue<Full, std::vector<Full>, std::greater<>> next;
  for (Link link = 0; link < links_.size(); ++link)
    if (links_[link].weight > kNoWeight) next.emplace(full_at(link), link);
  const auto settle = [&](Flow& flow, double rate) {
    flow.rate = std::max(rate, 1.0);
    for (const Share& share : flow.shares) {
      LinkState& link = links_[share.link];
      link.free -= link.weight * (rate - link.level);
      link.level = rate;
      link.weight -= share.weight;
      if (link.weight > kNoWeight) next.emplace(full_at(share.link), share.link);
    }
  };
  for (size_t limited = 0;;) {
    while (limited < by_limit.size() && by_limit[limited]->rate >= 0)
      ++limited;
    if (limited == by_limit.size()) break;
    while (!next.empty() && next.top().first < full_at(next.top().second) * (1 - 1e-12))
      next.pop();  // this entry is outdated: flows have left the link since
    if (next.empty() || by_limit[limited]->max_rate <= next.top().first) {
      settle(*by_limit[limited], by_limit[limited]->max_rate);
      continue;
    }
    const auto [rate, link] = next.top();
    next.pop();
    const std::vector<Flow*> flows = links_[link].flows;
    for (Flow* flow : flows)
      if (flow->rate < 0) settle(*flow, rate);
  }
  seconds_spent_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace kintsugi::simulation
