#include "client/lib/degraded/read_plans.h"

#include <algorithm>

#include "common/base/math.h"
#include "monitoring/sight/module.h"
#include "partial_sum/check_tree.h"
#include "partial_sum/sum_receiver.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kFinishRead{"client.finish_read"};
constexpr sight::Site kPlanRead{"client.plan_read", {"bytes"}};
constexpr Duration kFinishLimit = 5s;

asio::awaitable<void> send_outcome(MetaLink& meta, Context context, proto::FinishReadRequest request) {
  const sight::Task task(context, kFinishRead);
  proto::Empty nothing;
  (void)co_await meta.call_once(task.context(), rpc::Method::kFinishRead, request, nothing, kFinishLimit);
}

void collect_servers(const google::protobuf::RepeatedPtrField<proto::RepairNode>& nodes,
                     std::vector<uint64_t>& servers) {
  for (const proto::RepairNode& node : nodes) {
    servers.push_back(node.server_id());
    collect_servers(node.children(), servers);
  }
}

}  // namespace

std::vector<uint64_t> servers_of(const proto::SumPlan& plan) {
  std::vector<uint64_t> servers;
  collect_servers(plan.children(), servers);
  return servers;
}

asio::awaitable<Status> ReadPlans::ask(Context context, const TreeWishes& wishes, uint64_t begin,
                                       proto::PlanReadResponse& answer) {
  sight::Module module(context, kPlanRead, {static_cast<double>(range_.end - begin)});
  proto::PlanReadRequest request;
  request.set_stripe_id(range_.stripe_id);
  request.set_index(range_.chunk.index());
  request.set_offset(begin);
  request.set_length(range_.end - begin);
  request.set_shape(wishes.shape);
  request.set_slice_bytes(wishes.slice_bytes);
  request.set_capability(range_.chunk.capability());
  for (const ServerId server : servers_to_exclude())
    request.add_exclude(server.value);
  co_return module.finish(co_await resources_.meta.call_once(module.context(), rpc::Method::kPlanRead,
                                                             request, answer, kPlanLimit));
}

std::vector<ServerId> ReadPlans::servers_to_exclude() const {
  std::vector<ServerId> servers = excluded_;  // they come first, because the end of a long list is cut off
  const auto has = [](const std::vector<ServerId>& list, ServerId server) {
    return std::ranges::find(list, server) != list.end();
  };
  for (const ServerId server : resources_.health.avoided()) {
    if (has(range_.holders, server) && !has(servers, server)) servers.push_back(server);
  }
  if (servers.size() > proto::kMaxExcludedFromPlan) servers.resize(proto::kMaxExcludedFromPlan);
  return servers;
}

Result<partial_sum::SumRange> ReadPlans::check(const proto::SumPlan& plan, uint64_t begin) const {
  const uint32_t rows = std::max<uint32_t>(plan.rows(), 1);
  KINTSUGI_ASSIGN(const partial_sum::SumRange range,
                  partial_sum::SumRange::make(partial_sum::request_of(plan), rows));
  // Sub-chunks hold `sub` of every `cell` bytes of the chunk.
  const uint64_t sub = range.rows > 1 ? range.sub_cell_bytes() : 1, cell = sub * range.rows;
  const bool begins = range.offset % sub == 0 && range.offset / sub * cell <= begin;
  const bool ends = divide_up(range.offset + range.length, sub) * cell >= range_.end;
  if (plan.stripe_id() != range_.stripe_id || !begins || !ends)
    return Status{Code::kInternal, "the plan is for something else than was asked"};
  KINTSUGI_TRY(partial_sum::check_children(range, plan.children(), range_.chunk.index()));
  return range;
}

bool ReadPlans::exclude_culprit(const Status& failure, const proto::SumPlan& plan) {
  const ServerId culprit = failure.culprit().server;
  const auto servers = servers_of(plan);
  if (!culprit || std::ranges::find(servers, culprit.value) == servers.end()) return false;
  excluded_.push_back(culprit);
  resources_.health.failed(culprit);
  return true;
}

void ReadPlans::finish(Context context, const proto::SumPlan& plan, const Status& status,
                       proto::FinishReadRequest outcome) {
  outcome.set_repair_id(plan.repair_id());
  outcome.set_ok(status.ok());
  if (!status.ok()) outcome.set_detail(status.to_string());
  outcome.set_culprit(status.culprit().server.value);
  resources_.background.spawn(send_outcome(resources_.meta, context, std::move(outcome)));
}

}  // namespace kintsugi::client
