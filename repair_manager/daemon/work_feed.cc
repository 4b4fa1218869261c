#include "repair_manager/daemon/work_feed.h"

#include <algorithm>

#include "common/log/log.h"
#include "common/proto/formats.h"

namespace kintsugi::repair_manager {

WorkFeed::WorkFeed(const runtime::Runtime& runtime, rpc::Client& client, runtime::Endpoint metaserver,
                   uint64_t manager_id, RemoteClusterView& view, WorkTakers takers)
    : runtime_(runtime),
      client_(client),
      metaserver_(std::move(metaserver)),
      manager_id_(manager_id),
      view_(view),
      repairs_(takers.repairs),
      compactor_(takers.compactor),
      tasks_(runtime) {}

void WorkFeed::start(std::string address, std::string http_address) {
  request_.set_manager_id(manager_id_);
  request_.set_address(std::move(address));
  request_.set_newest_format(proto::kNewestFormat);
  request_.set_http_address(std::move(http_address));
  tasks_.spawn(follow());
}

asio::awaitable<void> WorkFeed::stop() {
  co_await tasks_.stop();
}

asio::awaitable<void> WorkFeed::leave() {
  tasks_.request_stop();
  proto::JoinRepairRequest leaving = request_;
  leaving.set_leaving(true);
  proto::JoinRepairResponse response;
  // Unheard it costs no more than time: others take over when the lease is over.
  (void)co_await client_.call(context(kLeaveLimit), metaserver_, rpc::Method::kJoinRepair, leaving, response);
}

asio::awaitable<void> WorkFeed::follow() {
  std::string last_error;
  while (!tasks_.stopping()) {
    const Status status = co_await turn();
    // A lasting error is logged once, not five times a second. kConflict says only that shards changed hands.
    if (!status.ok() && status.code() != Code::kConflict && status.to_string() != last_error)
      log::warning("metaserver {}: {}", metaserver_.to_string(), status.to_string());
    last_error = status.ok() ? std::string() : status.to_string();
    if (epoch_ != 0 && view_.lease_over()) {
      log::warning("the metaserver has not answered in time: repairs are left to others");
      epoch_ = 0;
      repairs_.keep_only([](StripeId) { return false; });
    }
    const bool asks_on = status.ok() || status.code() == Code::kConflict;
    const bool slept = co_await tasks_.sleep_for(asks_on ? kPace : kRetry);
    if (!slept) co_return;
  }
}

asio::awaitable<void> WorkFeed::await_stripe(StripeId stripe) {
  const TimePoint give_up = runtime_.clock.now() + kCallLimit;
  while (!view_.mine(stripe) && runtime_.clock.now() < give_up) {
    const bool slept = co_await tasks_.sleep_for(kPace);
    if (!slept) co_return;
  }
}

asio::awaitable<Status> WorkFeed::turn() {
  if (runtime_.clock.now() >= next_join_) {
    KINTSUGI_CO_TRY((co_await join()).with_context("join"));
    KINTSUGI_CO_TRY((co_await view_.refresh_servers(context(kCallLimit))).with_context("servers"));
  }
  if (epoch_ == 0) co_return Status{};
  if (list_all_wanted_) {
    list_all_wanted_ = false;  // until shards change hands during the list
    const Status listed = co_await list_all();
    if (!listed.ok()) {
      list_all_wanted_ = true;
      co_return listed.with_context("what is missing");
    }
  }
  co_return (co_await fetch_events()).with_context("events");
}

// ---- shards ----------------------------------------------------------------------------------------------

asio::awaitable<Status> WorkFeed::join() {
  const TimePoint asked = runtime_.clock.now();
  proto::JoinRepairResponse answer;
  KINTSUGI_CO_TRY(
      co_await client_.call(context(kCallLimit), metaserver_, rpc::Method::kJoinRepair, request_, answer));
  if (tasks_.stopping()) co_return Status{};
  take_shards(answer, asked);
  next_join_ = asked + std::chrono::milliseconds(std::clamp<uint64_t>(answer.interval_ms(), 10, 60'000));
  co_return Status{};
}

void WorkFeed::take_shards(const proto::JoinRepairResponse& answer, TimePoint asked) {
  // Repairs that were queued may have been dropped while the lease was over.
  const bool anew = answer.epoch() != epoch_ || view_.lease_over();
  view_.metaserver_clock().heard(answer.wall_clock_ns(), asked);
  view_.set_shards(answer, asked + std::chrono::milliseconds(answer.lease_ms()));
  repairs_.set_limits(std::chrono::milliseconds(answer.repair_delay_ms()),
                      std::max(1u, answer.max_per_server()));
  managers_ = std::max(1u, answer.managers());
  if (!anew) return;
  epoch_ = answer.epoch();
  shards_ = static_cast<size_t>(answer.shards_size());
  log::info("{} of {} shards are ours, of {} repair managers", shards_, kRepairShards, answer.managers());
  view_.forget_all();
  repairs_.keep_only([this](StripeId stripe) { return view_.mine(stripe); });
  list_all_wanted_ = true;
}

// ---- what is lost ----------------------------------------------------------------------------------------

asio::awaitable<Status> WorkFeed::call(proto::FetchRepairWorkRequest& request,
                                       proto::FetchRepairWorkResponse& response) {
  request.set_manager_id(manager_id_);
  request.set_epoch(epoch_);
  // A page must not keep this manager from joining in time.
  const TimePoint deadline = std::min(runtime_.clock.now() + kPageLimit, next_join_ + kCallLimit);
  const Status status = co_await client_.call(Context{}.with_deadline(deadline), metaserver_,
                                              rpc::Method::kFetchRepairWork, request, response);
  // Shards changed hands: learn which.
  if (status.code() == Code::kConflict) next_join_ = {};
  co_return status;
}

asio::awaitable<Status> WorkFeed::fetch_events() {
  proto::FetchRepairWorkRequest request;
  bool more = true;
  while (more && !tasks_.stopping() && runtime_.clock.now() < next_join_) {
    request.set_after(last_);
    request.set_compacts(compactor_.room());
    proto::FetchRepairWorkResponse response;
    KINTSUGI_CO_TRY(co_await call(request, response));
    if (tasks_.stopping()) co_return Status{};
    for (const uint64_t inode : response.compact())
      compactor_.want(InodeId{inode});
    if (response.start_over()) {
      last_ = response.last();
      list_all_wanted_ = true;
      co_return Status{};
    }
    for (const proto::RepairEvent& event : response.events())
      KINTSUGI_CO_TRY(co_await apply(event));
    last_ = response.last();
    more = response.more();
  }
  co_return Status{};
}

asio::awaitable<Status> WorkFeed::apply(proto::RepairEvent event) {
  const StripeId stripe{event.stripe_id()};
  const ServerId server{event.server_id()};
  switch (event.kind()) {
    case proto::RepairEvent::CHUNK_LOST:
      view_.forget(stripe);
      repairs_.chunk_lost({stripe, event.index()}, event.reason(), /*delay_ok=*/false);
      break;
    case proto::RepairEvent::STRIPE_DELETED:
      view_.forget(stripe);
      repairs_.stripe_deleted(stripe);
      break;
    case proto::RepairEvent::SERVER_RETURNED:
      view_.forget_all();
      KINTSUGI_CO_TRY(co_await view_.refresh_servers(context(kCallLimit)));
      repairs_.server_returned(server);
      break;
    case proto::RepairEvent::SERVER_DEAD:
      repairs_.end_attempts_with(server);
      view_.forget_all();
      KINTSUGI_CO_TRY(co_await view_.refresh_servers(context(kCallLimit)));
      co_return co_await list_server(server, Duration{});
    case proto::RepairEvent::MAINTENANCE_CHANGED:
      view_.forget_all();
      KINTSUGI_CO_TRY(co_await view_.refresh_servers(context(kCallLimit)));
      repairs_.maintenance_changed(server);
      co_return co_await list_if_dead(server);
    case proto::RepairEvent::MOVE_WANTED:
      repairs_.move_wanted({stripe, event.index()}, server, event.reason(), ServerId{event.destination()});
      break;
    case proto::RepairEvent::MOVES_CANCELLED: repairs_.moves_cancelled(server); break;
    default: break;  // of a later version
  }
  co_return Status{};
}

asio::awaitable<Status> WorkFeed::list_all() {
  KINTSUGI_CO_TRY(co_await view_.refresh_servers(context(kCallLimit)));
  KINTSUGI_CO_TRY(co_await list_server(ServerId{}, Duration{}));
  const std::vector<proto::ServerState> states = view_.server_states();
  for (const proto::ServerState& server : states) {
    if (server.liveness() != proto::ServerState::DEAD) continue;
    repairs_.end_attempts_with(ServerId{server.server_id()});
    // Events that are not known any more may have said so, and what waits would keep the time that it had.
    repairs_.maintenance_changed(ServerId{server.server_id()});
    KINTSUGI_CO_TRY(co_await list_if_dead(ServerId{server.server_id()}));
  }
  proto::MissingPage reported;
  reported.set_reported(true);
  co_return co_await list(std::move(reported), Duration{});
}

asio::awaitable<Status> WorkFeed::list_if_dead(ServerId server) {
  const auto state = std::ranges::find(view_.server_states(), server.value, &proto::ServerState::server_id);
  if (state == view_.server_states().end() || state->liveness() != proto::ServerState::DEAD)
    co_return Status{};
  const std::chrono::duration<double> dead_for{state->seconds_since_heartbeat()};
  co_return co_await list_server(server, std::chrono::duration_cast<Duration>(dead_for));
}

asio::awaitable<Status> WorkFeed::list_server(ServerId server, Duration dead_for) {
  proto::MissingPage page;
  page.set_server_id(server.value);
  co_return co_await list(std::move(page), dead_for);
}

asio::awaitable<Status> WorkFeed::list(proto::MissingPage page, Duration dead_for) {
  const ServerId server{page.server_id()};
  bool more = true;
  while (more && !tasks_.stopping()) {
    proto::FetchRepairWorkRequest request;
    *request.mutable_missing() = page;
    proto::FetchRepairWorkResponse response;
    KINTSUGI_CO_TRY(co_await call(request, response));
    std::vector<ChunkId> chunks;
    for (const proto::MissingChunk& chunk : response.missing())
      chunks.push_back({StripeId{chunk.stripe_id()}, chunk.index()});
    for (ChunkId chunk : chunks) {
      view_.forget(chunk.stripe);
      if (!server)
        repairs_.chunk_lost(chunk, page.reported() ? "reported lost" : "missing since the write", false);
    }
    if (server && !chunks.empty()) repairs_.server_dead(server, std::move(chunks), dead_for);
    more = response.more();
    page.set_after_stripe(response.next_after().stripe_id());
    page.set_after_index(response.next_after().index());
    // The lease is kept during a long list.
    if (more && runtime_.clock.now() >= next_join_) KINTSUGI_CO_TRY(co_await join());
  }
  co_return Status{};
}

}  // namespace kintsugi::repair_manager
