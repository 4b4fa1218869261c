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
    tasks_.spawn(take_over());
  } else {
    log::info("{} other repair managers make the repairs", shards_.managers().size());
    hosted_.keep_only([](StripeId) { return false; });
  }
}

asio::awaitable<void> RepairCoordinator::take_over() {
  for (const auto& [id, server] : state_.servers.servers())
    if (server.liveness == proto::ServerState::DEAD) tell_all_of(id);
  const auto turn = [this] { return asio::post(state_.runtime.executor, asio::use_awaitable); };
  size_t told = 0;
  ChunkId after;
  const auto tell = [&](ChunkId chunk, const char* why) {
    if (told++ == kPage) return false;
    hosted_.chunk_lost(chunk, why, /*delay_ok=*/false);
    after = chunk;
    return true;
  };
  for (bool more = true; more && hosted_works_ && !tasks_.stopping(); more = told > kPage) {
    told = 0;
    state_.scan_chunks_of(ServerId{}, after,
                          [&](ChunkId chunk) { return tell(chunk, "missing since the write"); });
    co_await turn();
  }
  after = {};
  for (bool more = true; more && hosted_works_ && !tasks_.stopping(); more = told > kPage) {
    told = 0;
    state_.chunks.scan_lost(after, [&](ChunkId chunk) { return tell(chunk, "reported lost"); });
    co_await turn();
  }
}

void RepairCoordinator::tell_all_of(ServerId server) {
  ChunkId after;
  deaths_.erase(server);
  if (!tell_page(server, after)) return;
  deaths_[server] = ++last_death_;
  tasks_.spawn(tell_rest(server, after, last_death_));
}

bool RepairCoordinator::tell_page(ServerId server, ChunkId& after) {
  std::vector<ChunkId> page;
  bool more = false;
  state_.scan_chunks_of(server, after, [&](ChunkId chunk) {
    more = page.size() == kPage;
    if (!more) page.push_back(chunk);
    return !more;
  });
  if (!page.empty()) after = page.back();
  const ServerRecord* record = state_.servers.find(server);
  const Duration ago = record != nullptr && record->liveness == proto::ServerState::DEAD
                           ? state_.runtime.clock.now() - record->last_heartbeat
                           : Duration{};
  hosted_.server_dead(server, std::move(page), std::max(Duration{}, ago - state_.options.dead_after));
  return more;
}

asio::awaitable<void> RepairCoordinator::tell_rest(ServerId server, ChunkId after, uint64_t death) {
  const auto goes_on = [&] {
    const auto found = deaths_.find(server);
    return found != deaths_.end() && found->second == death && hosted_works_ && !tasks_.stopping();
  };
  bool more = true;
  while (more) {
    co_await asio::post(state_.runtime.executor, asio::use_awaitable);
    if (!goes_on()) co_return;
    more = tell_page(server, after);
  }
  deaths_.erase(server);
}

// ---- events ----------------------------------------------------------------------------------------------

void RepairCoordinator::server_dead(ServerId server) {
  if (hosted_works_) {
    tell_all_of(server);
  } else {
    hosted_.end_attempts_with(server);  // repairs it began before it left the rest to others
    log_.append(make_event(proto::RepairEvent::SERVER_DEAD, server));
  }
}

void RepairCoordinator::block_report_complete(ServerId server) {
  server_returned(server);
}

void RepairCoordinator::server_returned(ServerId server) {
  deaths_.erase(server);
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
