#include "repair_manager/plan/planner.h"

#include <algorithm>

#include "erasure/policy.h"

namespace kintsugi::repair_manager {
namespace {

// They are shown when an attempt begins, however long it takes afterwards.
constexpr Duration kCapabilityLife = 1h;
// The picture of the servers may be this old. It may be older with many servers, because it takes longer to make.
constexpr Duration kServersFresh = 100ms;
constexpr Duration kServersFreshEach = 100us;

// How long a server that failed a repair is avoided.
constexpr Duration kSuspicion = 30s;

bool same_servers(const ServerTable& a, const ServerTable& b) {
  return std::ranges::equal(a.all(), b.all(),
                            [](const ServerView& x, const ServerView& y) { return x.id == y.id; });
}

}  // namespace

void RepairPlanner::refresh() {
  const TimePoint now = runtime_.clock.now();
  if (now >= fresh_until_) {
    ServerTable servers(look_at_servers());
    if (!same_servers(servers, servers_)) ++membership_;
    servers_ = std::move(servers);
    fresh_until_ = now + kServersFresh + kServersFreshEach * servers_.all().size();
  }
  std::erase_if(suspect_until_, [now](const auto& suspect) { return suspect.second <= now; });
  suspects_.clear();
  for (const auto& [server, until] : suspect_until_)
    suspects_.insert(server);
}

std::vector<ServerView> RepairPlanner::look_at_servers() {
  std::vector<ServerView> servers = view_.servers();
  for (ServerView& server : servers) {
    const auto full = full_.find(server.id);
    if (full == full_.end()) continue;
    if (server.free_bytes > full->second.free_bytes || runtime_.clock.now() >= full->second.until) {
      full_.erase(full);
    } else {
      server.free_bytes = 0;
    }
  }
  return servers;
}

void RepairPlanner::full(ServerId server) {
  const ServerView* known = servers_.find(server);
  if (known == nullptr) return;
  // A second refusal comes when its free bytes are taken for none already.
  const auto full = full_.try_emplace(server, Full{.free_bytes = known->free_bytes, .until = {}}).first;
  full->second.until = runtime_.clock.now() + kFullFor;
  servers_changed();
}

void RepairPlanner::suspect(ServerId server) {
  suspect_until_[server] = runtime_.clock.now() + kSuspicion;
}

PlanBasis RepairPlanner::basis() const {
  return {.link = options_.link,
          .view = view_,
          .expiry = runtime_.clock.wall_now() - view_.clock_ahead() + kCapabilityLife,
          .id = RepairId{runtime_.random.next() | 1}};  // 0 would mean no id
}

template <class Make>
Result<RepairPlan> RepairPlanner::make(const PlanRequest& request, Make make) const {
  const TimePoint began = runtime_.clock.now();
  const std::optional<StripeView> stripe = view_.stripe(request.stripe);
  if (!stripe) return Status{Code::kNotFound, fmt::format("stripe {} does not exist", request.stripe)};
  for (uint32_t index : request.indexes)
    if (index >= stripe->chunks.size())
      return Status{Code::kNotFound, fmt::format("no such chunk: {}", ChunkId{request.stripe, index})};
  KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(stripe->policy));
  if (stripe->chunks.size() != policy.chunks())
    return Status{Code::kInternal, fmt::format("stripe {} has {} chunks", stripe->id, stripe->chunks.size())};
  const SelectionInput input{.stripe = *stripe,
                             .lost = request.indexes,
                             .policy = policy,
                             .servers = servers_,
                             .slots = slots_,
                             .excluded = request.excluded,
                             .suspects = suspects_,
                             .receiving = request.receiving,
                             .rotation = request.rotation,
                             .urgent = request.urgent};
  Result<RepairPlan> plan = make(input);
  if (plan) plan->plan_seconds = to_seconds(runtime_.clock.now() - began);
  return plan;
}

Result<RepairPlan> RepairPlanner::repair(const PlanRequest& request, const PlanWishes& wishes,
                                         bool requested) const {
  return make(request, [&](const SelectionInput& input) -> Result<RepairPlan> {
    const bool all_there = std::ranges::all_of(
        request.indexes, [&](uint32_t index) { return input.stripe.chunks[index].available; });
    if (all_there && !requested) return Status{Code::kConflict, "it is available again"};
    return make_plan(input, wishes, basis());
  });
}

Result<RepairPlan> RepairPlanner::move(const PlanRequest& request, const PlanWishes& wishes,
                                       ServerId from) const {
  return make(request, [&](const SelectionInput& input) -> Result<RepairPlan> {
    if (input.stripe.chunks[request.indexes.front()].server != from)
      return Status{Code::kConflict, fmt::format("it is no longer on server {}", servers_.name_of(from))};
    return make_move_plan(input, wishes, basis());
  });
}

Result<RepairPlan> RepairPlanner::read(const PlanRequest& request, const PlanWishes& wishes,
                                       ByteRange range) const {
  return make(request, [&](const SelectionInput& input) -> Result<RepairPlan> {
    return make_read_plan(input, wishes, range, basis());
  });
}

void RepairPlanner::take_slots(const RepairPlan& plan) {
  const RepairTarget& first = plan.targets.front();
  const bool urgent = plan.request.urgent();
  slots_.acquire(plan.helpers, first.destination, first.bytes, plan.helper_shares, urgent);
  for (const RepairTarget& target : std::span(plan.targets).subspan(1))
    slots_.add_destination(target.destination, target.bytes, urgent);
}

void RepairPlanner::give_back_slots(const RepairPlan& plan) {
  const bool urgent = plan.request.urgent();
  slots_.remove_helpers(plan.helpers, plan.helper_shares, urgent);
  for (const RepairTarget& target : plan.targets)
    slots_.remove_destination(target.destination, target.bytes, urgent);
}

}  // namespace kintsugi::repair_manager
