#include "repair_manager/manager/read_plans.h"

#include <algorithm>

#include "common/base/repair_shard.h"
#include "common/proto/agreed_numbers.h"

namespace kintsugi::repair_manager {
namespace {

// A reader's report is kept up to these bounds: it comes from a client.
constexpr size_t kMaxDetailBytes = 1024;
constexpr int kMaxServers = 64;

}  // namespace

Result<proto::PlanReadResponse> ReadPlans::plan(const proto::PlanReadRequest& request) {
  if (static_cast<size_t>(request.exclude_size()) > proto::kMaxExcludedFromPlan)
    return Status{Code::kInvalidArgument,
                  fmt::format("more than {} servers excluded", proto::kMaxExcludedFromPlan)};
  if (!proto::RepairShape_IsValid(request.shape()))
    return Status{Code::kInvalidArgument, fmt::format("no repair shape has number {}", int{request.shape()})};
  const PlanWishes wishes{.shape = request.shape(), .slice_bytes = request.slice_bytes()};
  PlanRequest wanted{.stripe = StripeId{request.stripe_id()}, .indexes = {request.index()}};
  for (uint64_t server : request.exclude())
    wanted.excluded.push_back(ServerId{server});

  planner_.refresh();
  KINTSUGI_ASSIGN(RepairPlan plan,
                  planner_.read(wanted, wishes, ByteRange{request.offset(), request.length()}));
  proto::PlanReadResponse response;
  *response.mutable_plan() = std::move(plan.sum_plan);
  response.mutable_plan()->set_plan_seconds(plan.plan_seconds);

  if (open_.size() >= kMaxOpen) forget(open_.find(by_expiry_.begin()->second), "too many reads began since");
  planner_.slots().add_helpers(plan.helpers, plan.helper_shares);
  records_.begin(describe(plan, runtime_.clock.wall_now()));
  const TimePoint now = runtime_.clock.now();
  // Compared as a double: the estimate may be longer than a Duration can be.
  const std::chrono::duration<double> estimated{plan.choice.seconds * kLeaseFactor};
  const auto lease = std::min<std::chrono::duration<double>>(estimated, kMaxLease);
  const TimePoint expires = now + std::max(kMinLease, std::chrono::duration_cast<Duration>(lease));
  const uint64_t ticket = ticket_of_shard(repair_shard(wanted.stripe), runtime_.random.next());
  response.mutable_plan()->set_repair_id(ticket);
  by_expiry_.emplace(expires, ticket);
  open_.emplace(ticket, Open{.plan = std::move(plan), .began = now, .expires = expires});
  return response;
}

Status ReadPlans::finish(const proto::FinishReadRequest& request) {
  const auto read = open_.find(request.repair_id());
  if (read == open_.end()) return {Code::kNotFound, "no such read is under way"};
  proto::RepairRecord record = records_.running(read->second.plan.id);
  record.set_detail(request.detail().substr(0, kMaxDetailBytes));
  const double plan_seconds = record.timing().plan_seconds();
  *record.mutable_timing() = request.timing();
  record.mutable_timing()->set_plan_seconds(plan_seconds);
  if (request.timing().seconds() == 0)
    record.mutable_timing()->set_seconds(to_seconds(runtime_.clock.now() - read->second.began));
  for (const proto::ServerTiming& server : request.servers())
    if (record.servers_size() < kMaxServers) *record.add_servers() = server;
  if (!request.ok()) {
    const ServerId culprit{request.culprit()};
    if (std::ranges::find(read->second.plan.helpers, culprit) != read->second.plan.helpers.end())
      planner_.suspect(culprit);
  }
  close(read, std::move(record), request.ok());
  return {};
}

TimePoint ReadPlans::expire(TimePoint now) {
  while (!by_expiry_.empty() && by_expiry_.begin()->first <= now)
    forget(open_.find(by_expiry_.begin()->second), "the reader never said how it ended");
  return by_expiry_.empty() ? TimePoint::max() : by_expiry_.begin()->first;
}

void ReadPlans::forget(OpenReads::iterator read, const std::string& why) {
  proto::RepairRecord record = records_.running(read->second.plan.id);
  record.set_detail(why);
  record.mutable_timing()->set_seconds(to_seconds(runtime_.clock.now() - read->second.began));
  close(read, std::move(record), /*ok=*/false);
}

void ReadPlans::close(OpenReads::iterator read, proto::RepairRecord record, bool ok) {
  planner_.slots().remove_helpers(read->second.plan.helpers, read->second.plan.helper_shares);
  by_expiry_.erase({read->second.expires, read->first});
  open_.erase(read);
  record.set_outcome(ok ? proto::RepairRecord::DONE : proto::RepairRecord::FAILED);
  records_.end(std::move(record));
}

}  // namespace kintsugi::repair_manager
