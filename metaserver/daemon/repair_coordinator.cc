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

RepairCoordinator::RepairCoordinator(const runtime::Runtime& runtime, const StripeHealth& health,
                                     const RepairLimits& limits)
    : clock_(runtime.clock),
      health_(health),
      limits_(limits),
      life_(first_number(runtime.clock)),
      shards_(runtime.clock, life_),
      log_(life_),
      notified_epoch_(shards_.last_epoch()),
      news_(runtime),
      tasks_(runtime) {}

void RepairCoordinator::start(bool new_cluster) {
  if (new_cluster) shards_.settle();
  tell_of_shards();
  // Managers need a moment to come.
  next_complaint_ = clock_.now() + RepairShards::kSettle;
  tasks_.spawn(watch());
}

asio::awaitable<void> RepairCoordinator::stop() {
  stopping_ = true;
  news_.notify_all();
  co_await tasks_.stop();
}

asio::awaitable<void> RepairCoordinator::watch() {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(kCheckInterval);
    if (!slept) co_return;
    shards_.expire();
    tell_of_shards();
    complain();
  }
}

void RepairCoordinator::complain() {
  const TimePoint now = clock_.now();
  if (now < next_complaint_ || health_.counts().missing_chunks() == 0) return;
  const std::string nobody = nobody_repairs();
  if (nobody.empty()) return;
  log::warning("{}", nobody);
  next_complaint_ = now + kWarnInterval;
}

std::string RepairCoordinator::nobody_repairs() const {
  if (anybody_repairs()) return {};
  return fmt::format(
      "no repair manager is registered: nothing is repaired, {} missing chunks wait; start "
      "kintsugi-repair-manager "
      "(`kintsugi cluster start` does)",
      health_.counts().missing_chunks());
}

// ---- shards ----------------------------------------------------------------------------------------------

Status RepairCoordinator::join(const proto::JoinRepairRequest& request) {
  KINTSUGI_TRY(
      shards_.join(request.manager_id(), request.address(), request.http_address(), request.newest_format()));
  tell_of_shards();
  return {};
}

Status RepairCoordinator::check_all_know(uint32_t format) const {
  for (const auto& [id, manager] : shards_.managers())
    KINTSUGI_TRY(proto::check_daemon_knows(manager.newest_format, format,
                                           fmt::format("the repair manager at {}", manager.address)));
  return {};
}

void RepairCoordinator::list(proto::ListDaemonsResponse& into) const {
  for (const auto& [id, manager] : shards_.managers()) {
    proto::ListedDaemon& listed = *into.add_daemons();
    listed.set_kind("repair manager");
    listed.set_name(fmt::format("repair manager at {}", manager.address));
    listed.set_address(manager.address);
  }
}

void RepairCoordinator::leave(RepairShards::ManagerId id) {
  shards_.leave(id);
  tell_of_shards();
}

void RepairCoordinator::tell_of_shards() {
  if (std::exchange(notified_epoch_, shards_.last_epoch()) != shards_.last_epoch()) news_.notify_all();
}

std::optional<runtime::Endpoint> RepairCoordinator::owner_address(uint32_t shard) const {
  const RepairShards::Manager* manager = shards_.find(shards_.owner_of(shard));
  if (!manager) return std::nullopt;
  const auto address = runtime::Endpoint::parse(manager->address);
  return address ? std::optional(*address) : std::nullopt;
}

asio::awaitable<bool> RepairCoordinator::await_news(TimePoint give_up) {
  if (stopping_) co_return false;
  const bool news = co_await news_.wait_until(give_up);
  co_return news && !stopping_;
}

asio::awaitable<void> RepairCoordinator::await_shards() {
  const TimePoint give_up = clock_.now() + RepairShards::kSettle;
  while (!shards_.settled()) {
    const bool news = co_await await_news(give_up);
    if (!news) co_return;
  }
}

// ---- events ----------------------------------------------------------------------------------------------

void RepairCoordinator::append(proto::RepairEvent event) {
  log_.append(std::move(event));
  news_.notify_all();
}

void RepairCoordinator::server_dead(ServerId server) {
  append(make_event(proto::RepairEvent::SERVER_DEAD, server));
}

void RepairCoordinator::block_report_complete(ServerId server) {
  server_returned(server);
}

void RepairCoordinator::server_returned(ServerId server) {
  append(make_event(proto::RepairEvent::SERVER_RETURNED, server));
}

void RepairCoordinator::maintenance_changed(ServerId server) {
  append(make_event(proto::RepairEvent::MAINTENANCE_CHANGED, server));
}

void RepairCoordinator::chunk_lost(ChunkId chunk, const std::string& why) {
  proto::RepairEvent event = make_event(proto::RepairEvent::CHUNK_LOST, ServerId{});
  event.set_stripe_id(chunk.stripe.value);
  event.set_index(chunk.index);
  event.set_reason(why);
  append(std::move(event));
}

void RepairCoordinator::stripe_deleted(StripeId stripe) {
  proto::RepairEvent event = make_event(proto::RepairEvent::STRIPE_DELETED, ServerId{});
  event.set_stripe_id(stripe.value);
  append(std::move(event));
}

void RepairCoordinator::move_wanted(const WantedMove& move) {
  proto::RepairEvent event = make_event(proto::RepairEvent::MOVE_WANTED, move.from);
  event.set_stripe_id(move.chunk.stripe.value);
  event.set_index(move.chunk.index);
  event.set_destination(move.to.value);
  event.set_reason(move.why);
  append(std::move(event));
}

void RepairCoordinator::moves_cancelled(ServerId from) {
  append(make_event(proto::RepairEvent::MOVES_CANCELLED, from));
}

}  // namespace kintsugi::metaserver
