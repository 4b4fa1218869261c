// The RPCs of RepairCoordinator.
#include <algorithm>

#include "common/log/log.h"
#include "metaserver/daemon/repair_coordinator.h"
#include "monitoring/sight/module.h"
#include "repair_manager/view/wire_views.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kFetch{"metaserver.fetch_repair_work", {}, {"events", "missing"}};
constexpr sight::Site kDescribe{"metaserver.describe_stripes", {"stripes"}};
constexpr sight::Site kCommit{"metaserver.commit_repair_of_manager"};

uint64_t milliseconds(Duration duration) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

void RepairCoordinator::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<proto::JoinRepairRequest, proto::JoinRepairResponse>(
      Method::kJoinRepair,
      [this](Context context, proto::JoinRepairRequest r) { return join(context, std::move(r)); });
  server.handle<proto::FetchRepairWorkRequest, proto::FetchRepairWorkResponse>(
      Method::kFetchRepairWork,
      [this](Context context, proto::FetchRepairWorkRequest r) { return fetch(context, std::move(r)); });
  server.handle<proto::DescribeStripesRequest, proto::DescribeStripesResponse>(
      Method::kDescribeStripes,
      [this](Context context, proto::DescribeStripesRequest r) { return describe(context, std::move(r)); });
  server.handle<proto::CommitRepairRequest, proto::CommitRepairResponse>(
      Method::kCommitRepair,
      [this](Context context, proto::CommitRepairRequest r) { return commit(context, std::move(r)); });
}

asio::awaitable<Result<proto::JoinRepairResponse>> RepairCoordinator::join(Context,
                                                                           proto::JoinRepairRequest request) {
  proto::JoinRepairResponse response;
  if (request.leaving()) {
    shards_.leave(request.manager_id());
    follow_shards();
    co_return response;
  }
  if (request.address().size() > kMaxAddressBytes || request.http_address().size() > kMaxAddressBytes)
    co_return Status{Code::kInvalidArgument, "address is too long"};
  const auto address = runtime::Endpoint::parse(request.address());
  if (!address) co_return address.error().with_context("address");
  KINTSUGI_CO_TRY(shards_.join(request.manager_id(), request.address(), request.http_address()));
  follow_shards();
  const auto managers = static_cast<uint32_t>(shards_.managers().size());
  response.set_epoch(shards_.find(request.manager_id())->epoch);
  for (uint32_t shard : shards_.shards_of(request.manager_id()))
    response.add_shards(shard);
  response.set_managers(managers);
  response.set_interval_ms(milliseconds(RepairShards::kInterval));
  response.set_lease_ms(milliseconds(RepairShards::kLease));
  response.set_max_per_server(std::max(1u, limits_.max_per_server / managers));
  response.set_repair_delay_ms(milliseconds(limits_.delay));
  co_return response;
}

asio::awaitable<Result<proto::FetchRepairWorkResponse>> RepairCoordinator::fetch(
    Context context, proto::FetchRepairWorkRequest request) {
  sight::Module module{context, kFetch};
  const RepairShards::Manager* manager = shards_.find(request.manager_id());
  if (!manager || manager->epoch != request.epoch()) {
    co_return module.finish(
        {Code::kConflict,
         fmt::format("repair manager {} has to join and learn its shards", request.manager_id())});
  }
  proto::FetchRepairWorkResponse response;
  if (request.has_missing()) {
    list_missing(request.manager_id(), request.missing(), response);
  } else {
    const auto wanted = [&](const proto::RepairEvent& event) {
      return event.stripe_id() == 0 || shards_.owner(StripeId{event.stripe_id()}) == request.manager_id();
    };
    log_.read(request.after(), request.limit(), wanted, response);
  }
  module.output(0, double(response.events_size()));
  module.output(1, double(response.missing_size()));
  KINTSUGI_CO_TRY(module.finish(co_await metaserver_.durable()));
  co_return response;
}

void RepairCoordinator::list_missing(RepairShards::ManagerId manager, const proto::MissingPage& page,
                                     proto::FetchRepairWorkResponse& answer) const {
  const size_t limit = page.limit() == 0 ? kMaxMissingPage : std::min<size_t>(page.limit(), kMaxMissingPage);
  size_t scanned = 0;
  const auto visit = [&](ChunkId chunk) {
    if (++scanned > kMaxScanned || answer.missing_size() >= static_cast<int>(limit)) {
      answer.set_more(true);
      return false;
    }
    answer.mutable_next_after()->set_stripe_id(chunk.stripe.value);
    answer.mutable_next_after()->set_index(chunk.index);
    if (shards_.owner(chunk.stripe) != manager) return true;
    proto::MissingChunk& missing = *answer.add_missing();
    missing.set_stripe_id(chunk.stripe.value);
    missing.set_index(chunk.index);
    return true;
  };
  const ChunkId after{StripeId{page.after_stripe()}, page.after_index()};
  const ServerId server{page.server_id()};
  if (page.reported()) {
    metaserver_.scan_reported(after, visit);
  } else if (!server || metaserver_.is_dead(server)) {
    metaserver_.scan_chunks_of(server, after, visit);
  }
}

asio::awaitable<Result<proto::DescribeStripesResponse>> RepairCoordinator::describe(
    Context context, proto::DescribeStripesRequest request) {
  sight::Module module{context, kDescribe, {double(request.stripe_ids_size())}};
  if (request.stripe_ids_size() > kMaxDescribed)
    co_return module.finish({Code::kLimitExceeded, fmt::format("more than {} stripes", kMaxDescribed)});
  proto::DescribeStripesResponse response;
  for (uint64_t id : request.stripe_ids()) {
    const auto stripe = view_.stripe(StripeId{id});
    if (stripe) repair_manager::describe(*stripe, *response.add_stripes());
  }
  KINTSUGI_CO_TRY(module.finish(co_await metaserver_.durable()));
  co_return response;
}

Status RepairCoordinator::check_owner(RepairShards::ManagerId manager, StripeId stripe) const {
  // It will have joined in a moment.
  if (!shards_.settled() || !shards_.find(manager))
    return {Code::kUnavailable, fmt::format("repair manager {} has no shards yet", manager)};
  if (shards_.owner(stripe) == manager) return {};
  return {Code::kConflict, fmt::format("stripe {} is another repair manager's by now", stripe)};
}

asio::awaitable<Result<proto::CommitRepairResponse>> RepairCoordinator::commit(
    Context context, proto::CommitRepairRequest request) {
  sight::Module module{context, kCommit};
  const ChunkId chunk{StripeId{request.stripe_id()}, request.index()};
  const ServerId old{request.expected_old()}, server{request.server_id()};
  Status status = check_owner(request.manager_id(), chunk.stripe);
  if (status.ok() && request.check_only()) {
    metaserver_.repair_begins(chunk);
    status = metaserver_.can_commit_repair(chunk, old, server);
  } else if (status.ok() && request.life() != life_) {
    status = {Code::kConflict, "the metaserver was started again since the repair began"};
  } else if (status.ok()) {
    status = co_await metaserver_.commit_repair(module.context(), chunk, old, server);
  }
  if (status.code() == Code::kConflict && !request.check_only()) {
    // The answer to the same request was lost.
    if (server != old && metaserver_.place_of(chunk) == server) co_return proto::CommitRepairResponse{};
    log::info("repair of chunk {} onto server {} came too late: {}", chunk, server, status.message());
    KINTSUGI_CO_TRY(module.finish(co_await metaserver_.discard_copy(chunk, server)));
  }
  KINTSUGI_CO_TRY(module.finish(std::move(status)));
  proto::CommitRepairResponse response;
  response.set_life(life_);
  co_return response;
}

}  // namespace kintsugi::metaserver
