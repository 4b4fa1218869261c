#include "metaserver/cluster/server_registry.h"

#include <algorithm>

#include "common/base/operator_limits.h"
#include "common/base/server_name.h"
#include "common/log/log.h"
#include "common/rpc/metaserver_clock.h"

namespace kintsugi::metaserver {
namespace {

Status check_request(const proto::RegisterServerRequest& request) {
  if (request.server_id() == 0) return {Code::kInvalidArgument, "0 is not the id of a server"};
  if (request.rack().size() > 255 || request.address().size() > kMaxAddressBytes ||
      request.http_address().size() > kMaxAddressBytes) {
    return {Code::kInvalidArgument, "address or rack is too long"};
  }
  if (!request.name().empty()) KINTSUGI_TRY(check_server_name(request.name()));
  const auto address = runtime::Endpoint::parse(request.address());
  return address ? Status{} : address.error().with_context("address");
}

void supersede(proto::StoredServer& stored, uint64_t incarnation) {
  if (stored.incarnation() != 0) stored.add_superseded(stored.incarnation());
  auto* old = stored.mutable_superseded();
  if (old->size() > kMaxSupersededIncarnations) old->erase(old->begin());
  stored.set_incarnation(incarnation);
}

}  // namespace

void ServerRegistry::load(const Reader& reader) {
  reader.scan(keys::all(keys::Kind::kServer), [&](std::string_view key, std::string_view value) {
    const ServerId id{keys::first_id(key)};
    const auto stored = Reader::parse<proto::StoredServer>(value);
    const bool removed = stored.address().empty();
    names_.put(id, stored, removed ? ServerNames::Standing::kRemoved : ServerNames::Standing::kLiving);
    if (removed) {
      removed_[id] = stored;
      return true;
    }
    ServerRecord& server = servers_[id];
    server.id = id;
    server.stored = stored;
    server.last_heartbeat = clock_.now();
    return true;
  });
}

Status ServerRegistry::check_incarnation(ServerId id, const proto::StoredServer& stored,
                                         uint64_t incarnation) const {
  const auto& old = stored.superseded();
  if (std::find(old.begin(), old.end(), incarnation) == old.end()) return {};
  if (stored.address().empty())
    return {Code::kNotFound,
            fmt::format("server {} was removed from the cluster; it joins again when it is started again",
                        name_of(id))};
  return {Code::kAlreadyExists,
          fmt::format(
              "another process has registered as server {} since, at {}, and this one must end: unless the "
              "server was restarted on purpose, one of the two runs on a copy of the other's disks; keep "
              "only one",
              name_of(id), stored.address())};
}

Status ServerRegistry::check_removed(ServerId id, uint64_t incarnation) const {
  const auto removed = removed_.find(id);
  return removed == removed_.end() ? Status{} : check_incarnation(id, removed->second, incarnation);
}

bool ServerRegistry::set_draining(Transaction& transaction, ServerId id, bool draining) const {
  const ServerRecord* server = find(id);
  if (!server) return false;
  proto::StoredServer stored = server->stored;
  stored.set_draining(draining);
  transaction.put_message(keys::server(id), stored);
  return true;
}

bool ServerRegistry::set_maintenance(Transaction& transaction, ServerId id, WallTime until) const {
  const ServerRecord* server = find(id);
  if (!server) return false;
  proto::StoredServer stored = server->stored;
  stored.set_maintenance_until_ns(until.time_since_epoch().count());
  transaction.put_message(keys::server(id), stored);
  return true;
}

Duration ServerRegistry::maintenance_left(const ServerRecord& server) const {
  if (server.stored.maintenance_until_ns() == 0) return {};
  const WallTime until{std::chrono::nanoseconds(server.stored.maintenance_until_ns())};
  const Duration left = until - clock_.wall_now();
  if (left <= Duration::zero() || left > kMaxMaintenance + kClockPutRight) return {};
  return std::min<Duration>(left, kMaxMaintenance);
}

void ServerRegistry::follow(const Transaction& transaction) {
  for (const auto& [key, value] : transaction.written(keys::all(keys::Kind::kServer))) {
    const ServerId id{keys::first_id(key)};
    auto stored = Reader::parse<proto::StoredServer>(*value);  // servers are never forgotten
    const auto found = servers_.find(id);
    if (!stored.address().empty()) {
      if (found != servers_.end()) found->second.stored = std::move(stored);
      continue;
    }
    names_.put(id, stored, ServerNames::Standing::kRemoved);
    removed_[id] = std::move(stored);
    if (found != servers_.end()) servers_.erase(found);
  }
}

void ServerRegistry::remove(Transaction& transaction, ServerId id) const {
  const auto found = servers_.find(id);
  if (found == servers_.end()) return;
  proto::StoredServer stored = found->second.stored;
  supersede(stored, 0);
  if (stored.name().empty()) stored.set_name(stored.address());
  stored.clear_address();
  stored.clear_draining();
  stored.clear_maintenance_until_ns();
  transaction.put_message(keys::server(id), stored);
}

Result<ServerRegistry::Before> ServerRegistry::register_server(Transaction& transaction,
                                                               const proto::RegisterServerRequest& request) {
  KINTSUGI_TRY(check_request(request));
  const ServerId id{request.server_id()};
  const bool is_new = !servers_.contains(id);
  if (is_new && servers_.size() >= kMaxServers) return Status{Code::kLimitExceeded, "too many servers"};
  if (!is_new) {
    const proto::StoredServer& stored = servers_[id].stored;
    KINTSUGI_TRY(check_incarnation(id, stored, request.incarnation()));
    const bool same = stored.incarnation() == request.incarnation();
    if (!same && stored.incarnation() != request.replaces()) return Before::kReplaces;
  }
  if (const auto removed = removed_.find(id); removed != removed_.end()) {
    KINTSUGI_TRY(check_incarnation(id, removed->second, request.incarnation()));
    servers_[id].stored = std::move(removed->second);
    removed_.erase(removed);
  }
  ServerRecord& server = servers_[id];
  server.id = id;
  if (server.stored.incarnation() != request.incarnation()) {
    supersede(server.stored, request.incarnation());
    server.load.Clear();
  }
  server.stored.set_address(request.address());
  server.stored.set_rack(request.rack());
  server.stored.set_http_address(request.http_address());
  server.stored.set_name(request.name());
  if (server.stored.number() == 0) server.stored.set_number(names_.free_number(request.number()));
  transaction.put_message(keys::server(id), server.stored);
  names_.put(id, server.stored, ServerNames::Standing::kLiving);
  if (is_new)
    log::info("server {} joins with number {}: {} in rack '{}'", name_of(id), server.stored.number(),
              request.address(), request.rack());
  const bool was_dead = server.liveness == proto::ServerState::DEAD;
  if (was_dead) log::info("server {} is back", name_of(id));
  server.liveness = proto::ServerState::ALIVE;
  server.registered = true;
  server.newest_format = request.newest_format();
  server.hung_disks = {};
  server.last_heartbeat = clock_.now();
  server.wants_block_report = true;
  server.registered_at = clock_.now();
  server.first_report = true;
  server.block_report_due = clock_.now() + 5 * options_.heartbeat_interval;
  return is_new ? Before::kUnknown : was_dead ? Before::kDead : Before::kLiving;
}

Result<ServerRegistry::Verdict> ServerRegistry::heartbeat(const proto::HeartbeatRequest& request) {
  ServerRecord* server = find(ServerId{request.server_id()});
  KINTSUGI_TRY(check_removed(ServerId{request.server_id()}, request.incarnation()));
  if (!server) return Verdict::kRegisterAgain;
  KINTSUGI_TRY(check_incarnation(server->id, server->stored, request.incarnation()));
  if (!server->registered || server->stored.incarnation() != request.incarnation())
    return Verdict::kRegisterAgain;
  // Its caller has given it up, and said since what is so by now.
  if (request.sequence() != 0 && request.sequence() < server->load.sequence())
    return Status{Code::kConflict, "a heartbeat that comes after a later one"};
  server->load = request;
  server->load.clear_lost();
  server->load.clear_cache_changes();
  server->last_heartbeat = clock_.now();
  compare_clocks(*server, request.wall_clock_ns());
  const bool was_alive = server->liveness == proto::ServerState::ALIVE;
  if (request.leaving() && was_alive)
    log::info("server {} at {} is being stopped", name_of(server->id), server->stored.address());
  server->liveness = request.leaving() ? proto::ServerState::SUSPECT : proto::ServerState::ALIVE;
  return Verdict::kAccepted;
}

void ServerRegistry::compare_clocks(ServerRecord& server, int64_t its_wall_ns) const {
  if (its_wall_ns == 0) return;  // servers of earlier versions do not send it
  server.clock_ahead = WallTime(std::chrono::nanoseconds(its_wall_ns)) - clock_.wall_now();
  const Duration difference = std::chrono::abs(server.clock_ahead);
  if (!server.clock_told && difference >= rpc::MetaserverClock::kTold) {
    server.clock_told = true;
    log::warning(
        "the clock of server {} is {:.0f} s {} this metaserver's: nothing fails because of it, but dates in "
        "logs and "
        "of "
        "files are wrong somewhere; have all machines follow NTP",
        name_of(server.id), to_seconds(difference),
        server.clock_ahead > Duration::zero() ? "ahead of" : "behind");
  }
  if (difference < rpc::MetaserverClock::kMended) server.clock_told = false;
}

void ServerRegistry::suspect(ServerId id, std::string_view why) {
  ServerRecord* server = find(id);
  if (!server || server->liveness != proto::ServerState::ALIVE) return;
  log::warning("server {} at {} is suspect: its connection has ended, and it cannot be called: {}",
               name_of(id), server->stored.address(), why);
  server->liveness = proto::ServerState::SUSPECT;
}

bool ServerRegistry::silent(const ServerRecord& server) const {
  if (server.liveness != proto::ServerState::ALIVE) return server.liveness == proto::ServerState::SUSPECT;
  if (last_check_ == TimePoint::min()) return false;
  // The silence is that of the last check, which has taken into account how long this process itself stood still.
  return last_check_ - server.last_heartbeat >= (options_.heartbeat_interval + options_.suspect_after) / 2;
}

std::vector<ServerId> ServerRegistry::check_liveness() {
  const TimePoint now = clock_.now();
  if (last_check_ != TimePoint::min() && now - last_check_ > options_.heartbeat_interval) {
    for (auto& [id, server] : servers_)
      server.last_heartbeat += now - last_check_;
  }
  last_check_ = now;
  std::vector<ServerId> died;
  for (auto& [id, server] : servers_) {
    if (server.liveness == proto::ServerState::DEAD) continue;
    const Duration silence = now - server.last_heartbeat;
    if (silence >= options_.dead_after) {
      server.liveness = proto::ServerState::DEAD;
      server.registered = false;  // its chunks must be counted anew: it must register again
      log::warning("server {} at {} is dead", name_of(id), server.stored.address());
      names_.put(id, server.stored, ServerNames::Standing::kDead);
      died.push_back(id);
    } else if (silence >= options_.suspect_after && server.liveness == proto::ServerState::ALIVE) {
      log::warning("server {} at {} is suspect: silent for {:.1f} s", name_of(id), server.stored.address(),
                   to_seconds(silence));
      server.liveness = proto::ServerState::SUSPECT;
    }
  }
  return died;
}

const ServerRecord* ServerRegistry::find(ServerId id) const {
  auto found = servers_.find(id);
  return found == servers_.end() ? nullptr : &found->second;
}

ServerRecord* ServerRegistry::find(ServerId id) {
  auto found = servers_.find(id);
  return found == servers_.end() ? nullptr : &found->second;
}

bool ServerRegistry::is_dead(ServerId id) const {
  const ServerRecord* server = find(id);
  return !server || server->liveness == proto::ServerState::DEAD;
}

std::string ServerRegistry::random_peer(ServerId asking, runtime::Random& random) const {
  if (servers_.empty()) return {};
  // From the first server after a random id on; ids are random themselves.
  auto at = servers_.lower_bound(ServerId{random.next()});
  for (size_t i = 0; i < std::min(kPeerTries, servers_.size()); ++i) {
    if (at == servers_.end()) at = servers_.begin();
    const ServerRecord& server = (at++)->second;
    const bool fit = server.liveness == proto::ServerState::ALIVE && server.registered;
    if (fit && server.id != asking) return server.stored.address();
  }
  return {};
}

size_t ServerRegistry::count(Liveness liveness) const {
  return static_cast<size_t>(std::count_if(servers_.begin(), servers_.end(), [&](const auto& entry) {
    return entry.second.liveness == liveness;
  }));
}

proto::ServerState ServerRegistry::state_of(const ServerRecord& server) const {
  proto::ServerState state;
  state.set_server_id(server.id.value);
  state.set_address(server.stored.address());
  state.set_http_address(server.stored.http_address());
  state.set_rack(server.stored.rack());
  state.set_liveness(server.liveness);
  state.set_draining(server.stored.draining());
  state.set_maintenance_seconds(to_seconds(maintenance_left(server)));
  state.set_total_bytes(server.load.total_bytes());
  state.set_free_bytes(server.load.free_bytes());
  state.set_chunks(server.load.chunks());
  state.set_stored_bytes(server.load.stored_bytes());
  state.set_seconds_since_heartbeat(to_seconds(clock_.now() - server.last_heartbeat));
  state.set_disks(server.load.disks());
  state.set_failed_disks(server.load.failed_disks());
  *state.mutable_disk_states() = server.load.disk_states();
  state.set_user_bytes_per_second(server.load.user_bytes_per_second());
  state.set_repairs(server.load.repairs());
  state.set_repair_bytes_per_second(server.load.repair_bytes_per_second());
  state.set_up_bytes_per_second(server.load.up_bytes_per_second());
  state.set_down_bytes_per_second(server.load.down_bytes_per_second());
  state.set_busy(server.load.busy());
  state.set_number(server.stored.number());
  state.set_name(name_of(server.id));
  state.set_clock_difference_seconds(to_seconds(server.clock_ahead));
  state.set_repair_limit_bytes_per_second(server.load.repair_limit_bytes_per_second());
  return state;
}

}  // namespace kintsugi::metaserver
