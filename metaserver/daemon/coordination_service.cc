#include "metaserver/daemon/coordination_service.h"

#include <algorithm>

#include "common/log/log.h"
#include "metaserver/schema/stripes.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kFetch{"metaserver.fetch_repair_work", {}, {"events", "missing", "compact"}};
constexpr sight::Site kDescribe{"metaserver.describe_stripes", {"stripes"}};
constexpr sight::Site kCommit{"metaserver.commit_repair_of_manager"};

uint64_t milliseconds(Duration duration) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

/// What a repair manager has to know of a stripe.
void describe_stripe(const ChunkMap& chunks, const CacheMap& caches, StripeId id,
                     const proto::StoredStripe& stored, proto::StripeDescription& description) {
  proto::Stripe& stripe = *description.mutable_stripe();
  stripe.set_stripe_id(id.value);
  stripe.set_policy(stored.policy());
  stripe.set_length(stored.length());
  for (uint32_t i = 0; i < static_cast<uint32_t>(stored.chunks_size()); ++i) {
    const proto::StoredChunk& chunk = stored.chunks(static_cast<int>(i));
    const ServerId server{chunk.server_id()};
    proto::ChunkPlacement& place = *stripe.add_chunks();
    place.set_index(i);
    place.set_server_id(server.value);
    place.set_length(chunk.length());
    place.set_crc(chunk.crc());
    place.set_available(chunks.available({id, i}, chunk));
    const bool cached = caches.cached(server, {id, i});
    const auto heat = static_cast<float>(caches.heat(server, {id, i}));
    const bool lost = chunks.lost({id, i});
    if (!cached && heat == 0 && !lost) continue;
    proto::ChunkHint& hint = *description.add_hints();
    hint.set_index(i);
    hint.set_cached(cached);
    hint.set_heat(heat);
    hint.set_lost(lost);
  }
}

}  // namespace

void CoordinationService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&CoordinationService::join>(Method::kJoinRepair, *this);
  server.handle<&CoordinationService::fetch>(Method::kFetchRepairWork, *this);
  server.handle<&CoordinationService::describe>(Method::kDescribeStripes, *this);
  server.handle<&CoordinationService::commit>(Method::kCommitRepair, *this);
}

asio::awaitable<Status> CoordinationService::join(Context, const proto::JoinRepairRequest& request,
                                                  proto::JoinRepairResponse& response) {
  if (request.leaving()) {
    coordinator_.leave(request.manager_id());
    co_return Status{};
  }
  if (request.address().size() > kMaxAddressBytes || request.http_address().size() > kMaxAddressBytes)
    co_return Status{Code::kInvalidArgument, "address is too long"};
  const auto address = runtime::Endpoint::parse(request.address());
  if (!address) co_return address.error().with_context("address");
  KINTSUGI_CO_TRY(proto::check_daemon_format(request.newest_format(), store_.format));
  KINTSUGI_CO_TRY(coordinator_.join(request));
  const RepairShards& shards = coordinator_.shards();
  const auto managers = static_cast<uint32_t>(shards.managers().size());
  response.set_epoch(shards.find(request.manager_id())->epoch);
  for (uint32_t shard : shards.shards_of(request.manager_id()))
    response.add_shards(shard);
  response.set_managers(managers);
  response.set_interval_ms(milliseconds(RepairShards::kInterval));
  response.set_lease_ms(milliseconds(RepairShards::kLease));
  response.set_max_per_server(std::max(1u, coordinator_.limits().max_per_server / managers));
  response.set_wall_clock_ns(store_.runtime.clock.wall_now().time_since_epoch().count());
  response.set_repair_delay_ms(milliseconds(coordinator_.limits().delay));
  co_return Status{};
}

asio::awaitable<Status> CoordinationService::fetch(Context context,
                                                   const proto::FetchRepairWorkRequest& request,
                                                   proto::FetchRepairWorkResponse& response) {
  sight::Module module{context, kFetch};
  const bool foresees = request.manager_id() == 0 && request.missing().server_id() != 0;
  if (!foresees) KINTSUGI_CO_TRY(module.finish(check_joined(request)));
  if (request.has_missing()) {
    list_missing(request.manager_id(), request.missing(), response);
  } else {
    const Status read = co_await await_events(module.context(), request, response);
    if (!read.ok()) co_return module.finish(read);
    take_compactions(request, response);
  }
  module.output(0, double(response.events_size()));
  module.output(1, double(response.missing_size()));
  module.output(2, double(response.compact_size()));
  co_return module.finish(co_await store_.finish_read(module.context()));
}

Status CoordinationService::check_joined(const proto::FetchRepairWorkRequest& request) const {
  const RepairShards::Manager* manager = coordinator_.shards().find(request.manager_id());
  if (manager && manager->epoch == request.epoch()) return {};
  return {Code::kConflict,
          fmt::format("repair manager {} has to join and learn its shards", request.manager_id())};
}

bool CoordinationService::read_events(const proto::FetchRepairWorkRequest& request,
                                      proto::FetchRepairWorkResponse& answer) const {
  const auto wanted = [&](const proto::RepairEvent& event) {
    return event.stripe_id() == 0 ||
           coordinator_.shards().owner(StripeId{event.stripe_id()}) == request.manager_id();
  };
  const uint64_t after = std::max<uint64_t>(request.after(), answer.last());
  coordinator_.log().read(after, request.limit(), wanted, answer);
  return answer.events_size() > 0 || answer.start_over() || answer.more();
}

asio::awaitable<Status> CoordinationService::await_events(Context context,
                                                          const proto::FetchRepairWorkRequest& request,
                                                          proto::FetchRepairWorkResponse& answer) {
  const TimePoint give_up = store_.runtime.clock.now() + kHold;
  while (!read_events(request, answer)) {
    const sight::Wait wait(context, sight::WaitKind::kIdle);
    const bool news = co_await coordinator_.await_news(give_up);
    if (!news) break;
    KINTSUGI_CO_TRY(check_joined(request));
  }
  co_return Status{};
}

void CoordinationService::take_compactions(const proto::FetchRepairWorkRequest& request,
                                           proto::FetchRepairWorkResponse& answer) {
  const auto mine = [&](InodeId inode) {
    return coordinator_.shards().owner_of(repair_shard(inode)) == request.manager_id();
  };
  const size_t wanted = std::min<size_t>(request.compacts(), kMaxCompactions);
  for (const InodeId inode : compactions_.take(mine, wanted))
    answer.add_compact(inode.value);
}

void CoordinationService::list_missing(RepairShards::ManagerId manager, const proto::MissingPage& page,
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
    if (manager != 0 && coordinator_.shards().owner(chunk.stripe) != manager) return true;
    proto::MissingChunk& missing = *answer.add_missing();
    missing.set_stripe_id(chunk.stripe.value);
    missing.set_index(chunk.index);
    return true;
  };
  const ChunkId after{StripeId{page.after_stripe()}, page.after_index()};
  const ServerId server{page.server_id()};
  if (page.reported()) {
    chunks_.scan_lost(after, visit);
  } else if (manager == 0 || !server || chunks_.servers().is_dead(server)) {
    scan_chunks_of(store_.kv, server, after, visit);
  }
}

asio::awaitable<Status> CoordinationService::describe(Context context,
                                                      const proto::DescribeStripesRequest& request,
                                                      proto::DescribeStripesResponse& response) {
  sight::Module module{context, kDescribe, {double(request.stripe_ids_size())}};
  if (request.stripe_ids_size() > kMaxDescribed)
    co_return module.finish({Code::kLimitExceeded, fmt::format("more than {} stripes", kMaxDescribed)});
  for (uint64_t id : request.stripe_ids()) {
    const auto stored = load_stripe(store_.kv, StripeId{id});
    if (stored) describe_stripe(chunks_, caches_, StripeId{id}, *stored, *response.add_stripes());
  }
  co_return module.finish(co_await store_.finish_read(module.context()));
}

Status CoordinationService::check_owner(RepairShards::ManagerId manager, StripeId stripe) const {
  const RepairShards& shards = coordinator_.shards();
  // After a restart of the metaserver the manager is unknown until it has joined, in a moment: its repair may wait.
  if (!shards.settled() || !shards.find(manager))
    return {Code::kUnavailable, fmt::format("repair manager {} has no shards yet", manager)};
  if (shards.owner(stripe) == manager) return {};
  return {Code::kConflict, fmt::format("stripe {} is another repair manager's by now", stripe)};
}

uint64_t CoordinationService::incarnation_of(ServerId server) const {
  const ServerRecord* record = chunks_.servers().find(server);
  return record == nullptr ? 0 : record->stored.incarnation();
}

asio::awaitable<Status> CoordinationService::commit(Context context,
                                                    const proto::CommitRepairRequest& request,
                                                    proto::CommitRepairResponse& response) {
  sight::Module module{context, kCommit};
  const ChunkId chunk{StripeId{request.stripe_id()}, request.index()};
  const ServerId old{request.expected_old()}, server{request.server_id()};
  Status status = check_owner(request.manager_id(), chunk.stripe);
  if (status.ok() && request.check_only()) {
    repairs_.begins(chunk, server);
    status = repairs_.can_commit(chunk, old, server);
  } else if (status.ok() && request.life() != coordinator_.life()) {
    // A copy that this life has not seen begin may have been found in a block report, and ordered to be deleted.
    status = {Code::kConflict, "the metaserver was started again since the repair began"};
  } else if (status.ok() && request.server_incarnation() != 0 &&
             request.server_incarnation() != incarnation_of(server)) {
    status = {Code::kConflict,
              fmt::format("server {} was started again since the repair began, and may have lost the copy",
                          chunks_.servers().name_of(server))};
  } else if (status.ok()) {
    status = co_await repairs_.commit(module.context(), chunk, old, server);
  }
  const bool refused = status.code() == Code::kConflict || status.code() == Code::kNotFound;
  if (refused && !request.check_only()) {
    // The answer to the same request was lost: the first one has made it the chunk's place.
    if (server != old && repairs_.place_of(chunk) == server) co_return Status{};
    log::info("repair of chunk {} onto server {} came too late: {}", chunk, chunks_.servers().name_of(server),
              status.message());
    // A stripe that is gone since this process let the repair begin was deleted. To another process its absence says
    // nothing: it may have had other metadata.
    const bool is_garbage = repairs_.knows(chunk.stripe) || request.life() == coordinator_.life();
    if (is_garbage) KINTSUGI_CO_TRY(module.finish(co_await repairs_.discard_copy(chunk, server)));
  }
  response.set_life(coordinator_.life());
  response.set_server_incarnation(incarnation_of(server));
  co_return module.finish(std::move(status));
}

}  // namespace kintsugi::metaserver
