#include "metaserver/daemon/repair_coordinator.h"

#include "common/log/log.h"

namespace kintsugi::metaserver {
namespace {

/// A number that grows over restarts, as long as less than one event happens a nanosecond.
uint64_t first_number(const runtime::Clock& clock) {
  return static_cast<uint64_t>(clock.wall_now().time_since_epoch().count());
}

proto::RepairEvent make_event(proto::RepairEvent::Kind kind, ServerId server) {
  proto::RepairEvent event;
  event.set_kind(kind);
  event.set_server_id(server.value);
  return event;
}

}  // namespace

RepairCoordinator::RepairCoordinator(const runtime::Runtime& runtime, const MetaState& state,
                                     repair_manager::RepairManager& hosted, Duration repair_delay)
    : state_(state),
      hosted_(hosted),
      repair_delay_(repair_delay),
      life_(first_number(runtime.clock)),
      shards_(runtime.clock, life_),
      log_(life_),
      tasks_(runtime) {}

void RepairCoordinator::start() {
  tasks_.spawn(watch());
}

asio::awaitable<void> RepairCoordinator::stop() {
  tasks_.request_stop();
  co_await tasks_.join();
}

asio::awaitable<void> RepairCoordinator::watch() {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(kLook);
    if (!slept) co_return;
    shards_.expire();
    follow_shards();
  }
}

Status RepairCoordinator::join(RepairShards::ManagerId id, const std::string& address,
                               const std::string& http_address) {
  KINTSUGI_TRY(shards_.join(id, address, http_address));
  follow_shards();
  return {};
}

void RepairCoordinator::leave(RepairShards::ManagerId id) {
  shards_.leave(id);
  follow_shards();
}

void RepairCoordinator::follow_shards() {
  const bool works = shards_.owner(StripeId{}) == 0;
  if (works == hosted_works_) return;
  hosted_works_ = works;
  if (works) {
    log::info("no other repair manager is there: repairs are made from here");
    take_over();
  } else {
    log::info("{} other repair managers make the repairs", shards_.managers().size());
    hosted_.keep_only([](StripeId) { return false; });
  }
}

void RepairCoordinator::take_over() {
  for (const auto& [id, server] : state_.servers.servers())
    if (server.liveness == proto::ServerState::DEAD)
      hosted_.server_dead(id, state_.chunks_of(id), state_.runtime.clock.now() - server.last_heartbeat);
  for (ChunkId chunk : state_.chunks_of(ServerId{}))
    hosted_.chunk_lost(chunk, "missing since the write", /*delay_ok=*/false);
  state_.chunks.scan_lost({}, [this](ChunkId chunk) {
    hosted_.chunk_lost(chunk, "reported lost", /*delay_ok=*/false);
    return true;
  });
}

// ---- events ----------------------------------------------------------------------------------------------

void RepairCoordinator::server_dead(ServerId server) {
  if (hosted_works_) {
    hosted_.server_dead(server, state_.chunks_of(server));
  } else {
    hosted_.end_attempts_with(server);  // repairs it began before it left the rest to others
    log_.append(make_event(proto::RepairEvent::SERVER_DEAD, server));
  }
}

void RepairCoordinator::block_report_complete(ServerId server) {
  server_returned(server);
}

void RepairCoordinator::server_returned(ServerId server) {
  hosted_.server_returned(server);
  if (!hosted_works_) log_.append(make_event(proto::RepairEvent::SERVER_RETURNED, server));
}

void RepairCoordinator::chunk_lost(ChunkId chunk, const std::string& why) {
  // The chunk is bad or missing on a living server: waiting does not bring it back.
  if (hosted_works_) return hosted_.chunk_lost(chunk, why, /*delay_ok=*/false);
  proto::RepairEvent event = make_event(proto::RepairEvent::CHUNK_LOST, ServerId{});
  event.set_stripe_id(chunk.stripe.value);
  event.set_index(chunk.index);
  event.set_reason(why);
  log_.append(std::move(event));
}

void RepairCoordinator::stripe_deleted(StripeId stripe) {
  hosted_.stripe_deleted(stripe);
  if (hosted_works_) return;
  proto::RepairEvent event = make_event(proto::RepairEvent::STRIPE_DELETED, ServerId{});
  event.set_stripe_id(stripe.value);
  log_.append(std::move(event));
}

void RepairCoordinator::move_wanted(const WantedMove& move) {
  if (hosted_works_) return hosted_.move_wanted(move.chunk, move.from, move.why, move.to);
  proto::RepairEvent event = make_event(proto::RepairEvent::MOVE_WANTED, move.from);
  event.set_stripe_id(move.chunk.stripe.value);
  event.set_index(move.chunk.index);
  event.set_destination(move.to.value);
  event.set_reason(move.why);
  log_.append(std::move(event));
}

void RepairCoordinator::moves_cancelled(ServerId from) {
  hosted_.moves_cancelled(from);
  if (!hosted_works_) log_.append(make_event(proto::RepairEvent::MOVES_CANCELLED, from));
}

std::optional<runtime::Endpoint> RepairCoordinator::owner_address(StripeId stripe) const {
  const RepairShards::Manager* manager = shards_.find(shards_.owner(stripe));
  if (!manager) return std::nullopt;
  const auto address = runtime::Endpoint::parse(manager->address);
  return address ? std::optional(*address) : std::nullopt;
}

}  // namespace kintsugi::metaserver
