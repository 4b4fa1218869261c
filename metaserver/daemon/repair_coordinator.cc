#include "metaserver/daemon/repair_coordinator.h"

#include <algorithm>

#include "common/log/log.h"

namespace kintsugi::metaserver {
namespace {

/// Grows over restarts, as long as less than one event happens a nanosecond.
uint64_t first_number(const runtime::Clock& clock) {
  return static_cast<uint64_t>(clock.wall_now().time_since_epoch().count());
}

Duration seconds_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

proto::RepairEvent make_event(proto::RepairEvent::Kind kind, ServerId server) {
  proto::RepairEvent event;
  event.set_kind(kind);
  event.set_server_id(server.value);
  return event;
}

}  // namespace

RepairCoordinator::RepairCoordinator(const runtime::Runtime& runtime, MetaServer& metaserver,
                                     const repair_manager::ClusterView& view,
                                     repair_manager::RepairManager& hosted, rpc::Client& client,
                                     RepairLimits limits)
    : runtime_(runtime),
      metaserver_(metaserver),
      view_(view),
      hosted_(hosted),
      client_(client),
      limits_(limits),
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
  for (const proto::ServerState& server : metaserver_.servers()) {
    if (server.liveness() != proto::ServerState::DEAD) continue;
    const ServerId id{server.server_id()};
    hosted_.server_dead(id, metaserver_.chunks_of(id), seconds_of(server.seconds_since_heartbeat()));
  }
  for (ChunkId chunk : metaserver_.chunks_of(ServerId{}))
    hosted_.chunk_lost(chunk, "missing since the write", /*delay_ok=*/false);
  metaserver_.scan_reported({}, [this](ChunkId chunk) {
    hosted_.chunk_lost(chunk, "reported lost", /*delay_ok=*/false);
    return true;
  });
}

// ---- events ----------------------------------------------------------------------------------------------

void RepairCoordinator::server_dead(ServerId server) {
  if (hosted_works_) {
    hosted_.server_dead(server, metaserver_.chunks_of(server));
  } else {
    hosted_.end_attempts_with(server);  // what it began before it left the rest to others
    log_.append(make_event(proto::RepairEvent::SERVER_DEAD, server));
  }
}

void RepairCoordinator::server_returned(ServerId server) {
  hosted_.server_returned(server);
  if (!hosted_works_) log_.append(make_event(proto::RepairEvent::SERVER_RETURNED, server));
}

void RepairCoordinator::chunk_lost(ChunkId chunk, const std::string& why) {
  // Bad or missing on a living server: waiting does not bring it back.
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

// ---- what people ask -------------------------------------------------------------------------------------

std::optional<runtime::Endpoint> RepairCoordinator::owner_address(StripeId stripe) const {
  const RepairShards::Manager* manager = shards_.find(shards_.owner(stripe));
  if (!manager) return std::nullopt;
  const auto address = runtime::Endpoint::parse(manager->address);
  return address ? std::optional(*address) : std::nullopt;
}

template <class Response>
asio::awaitable<std::vector<Response>> RepairCoordinator::ask_all(Context context, rpc::Method method,
                                                                  std::string request) {
  const Context limited = context.with_deadline(runtime_.clock.now() + kAskLimit);
  std::vector<Response> answers;
  runtime::TaskGroup calls(runtime_);
  const auto ask = [&](std::string address) -> asio::awaitable<void> {
    const auto endpoint = runtime::Endpoint::parse(address);
    if (!endpoint) co_return;
    const auto bytes = co_await client_.call_raw(limited, *endpoint, method, request);
    Response answer;
    if (bytes && answer.ParseFromString(*bytes)) answers.push_back(std::move(answer));
  };
  for (const auto& [id, manager] : shards_.managers())
    calls.spawn(ask(manager.address));
  co_await calls.join();
  co_return answers;
}

asio::awaitable<Result<proto::RepairStatusResponse>> RepairCoordinator::status(Context context) {
  std::string request = proto::Empty().SerializeAsString();
  const auto others =
      co_await ask_all<proto::RepairStatusResponse>(context, rpc::Method::kRepairStatus, std::move(request));
  proto::RepairStatusResponse all = hosted_.status();
  for (const proto::RepairStatusResponse& one : others) {
    all.set_queued(all.queued() + one.queued());
    all.set_delayed(all.delayed() + one.delayed());
    all.set_done(all.done() + one.done());
    all.set_failed(all.failed() + one.failed());
    all.set_bytes_repaired(all.bytes_repaired() + one.bytes_repaired());
    all.set_unrepairable(all.unrepairable() + one.unrepairable());
    all.mutable_running()->MergeFrom(one.running());
  }
  co_return all;
}

asio::awaitable<Result<proto::RepairHistoryResponse>> RepairCoordinator::history(Context context,
                                                                                 uint32_t limit) {
  proto::RepairHistoryRequest wanted;
  wanted.set_limit(limit);
  std::string request = wanted.SerializeAsString();
  const auto others = co_await ask_all<proto::RepairHistoryResponse>(context, rpc::Method::kRepairHistory,
                                                                     std::move(request));
  proto::RepairHistoryResponse all;
  for (proto::RepairRecord& record : hosted_.history(limit))
    *all.add_records() = std::move(record);
  if (others.empty()) co_return all;
  for (const proto::RepairHistoryResponse& one : others)
    all.mutable_records()->MergeFrom(one.records());
  const auto ended = [](const proto::RepairRecord& record) {
    return static_cast<double>(record.started_ns()) + record.timing().seconds() * 1e9;
  };
  std::stable_sort(all.mutable_records()->begin(), all.mutable_records()->end(),
                   [&](const auto& a, const auto& b) { return ended(a) > ended(b); });
  if (all.records_size() > static_cast<int>(limit))
    all.mutable_records()->DeleteSubrange(static_cast<int>(limit),
                                          all.records_size() - static_cast<int>(limit));
  co_return all;
}

}  // namespace kintsugi::metaserver
