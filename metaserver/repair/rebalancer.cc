#include "metaserver/repair/rebalancer.h"

#include <algorithm>
#include <set>

#include "common/log/log.h"

namespace kintsugi::metaserver {
namespace {

bool hangs(const proto::DiskState& disk) {
  return disk.health() == proto::DiskState::HUNG;
}

}  // namespace

Rebalancer::Changes Rebalancer::step(const Reader& reader) {
  Changes changes;
  forget_ended(reader, changes);
  remind(changes);
  bool draining = false;
  for (const auto& [id, server] : servers_.servers()) {
    if (!server.stored.draining()) continue;
    draining = true;
    // The chunks of a dead server are repaired, not moved.
    if (server.liveness == proto::ServerState::ALIVE) drain(reader, id, changes);
  }
  if (!draining) balance(reader, changes);
  return changes;
}

// ---- what is wanted --------------------------------------------------------------------------------------

void Rebalancer::forget_ended(const Reader& reader, Changes& changes) {
  std::set<ServerId> undrained;
  for (auto at = wanted_.begin(); at != wanted_.end();) {
    const auto& [chunk, wanted] = *at;
    const auto stripe = load_stripe(reader, chunk.stripe);
    const uint64_t place = stripe ? stripe->chunks(static_cast<int>(chunk.index)).server_id() : 0;
    const bool there = stripe && place == wanted.from.value;
    const ServerRecord* from = servers_.find(wanted.from);
    const bool alive = from && from->liveness != proto::ServerState::DEAD;
    const bool still_drained = alive && from->stored.draining();
    if (there && alive && wanted.drain && !still_drained) undrained.insert(wanted.from);
    const bool failed = !wanted.drain && clock_.now() >= wanted.since + kPatience;
    if (there && alive && (wanted.drain ? still_drained : !failed)) {
      ++at;
      continue;
    }
    if (there && alive && failed) note_failed(chunk, wanted);
    if (!wanted.drain && place == wanted.to.value) backoff_.succeeded(wanted.from, wanted.to);
    if (wanted.drain) {
      if (--drained_[wanted.from] == 0) drained_.erase(wanted.from);
    } else {
      balance_bytes_ -= wanted.bytes;
      --balance_moves_;
      if (!there) leaving_.push_back({clock_.now() + kDeletion, wanted.from, wanted.bytes});
    }
    at = wanted_.erase(at);
  }
  changes.cancelled.assign(undrained.begin(), undrained.end());
}

void Rebalancer::forget_wanted() {
  wanted_.clear();
  drained_.clear();
  balance_bytes_ = 0;
  balance_moves_ = 0;
}

void Rebalancer::note_failed(ChunkId chunk, const Wanted& wanted) {
  const Duration pause = backoff_.failed(wanted.from, wanted.to, clock_.now());
  if (pause == Duration::zero()) return;
  log::warning(
      "chunks cannot be moved from server {} to server {}, which is emptier (chunk {} for {:.0f} s): no "
      "others "
      "are moved between "
      "them for {:.0f} s; `kintsugi repair history` shows what happened to them",
      servers_.name_of(wanted.from), servers_.name_of(wanted.to), chunk, to_seconds(kPatience),
      to_seconds(pause));
}

std::optional<proto::HeldBackMoves> Rebalancer::held_back(ServerId to) const {
  const TimePoint now = clock_.now();
  const auto held = backoff_.held_back(to, now);
  if (!held) return {};
  proto::HeldBackMoves moves;
  moves.set_server_id(to.value);
  moves.set_server(servers_.name_of(to));
  moves.set_ms_left(
      static_cast<uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(held->until - now).count()));
  for (const ServerId from : held->from)
    moves.add_from(servers_.name_of(from));
  return moves;
}

void Rebalancer::remind(Changes& changes) {
  const TimePoint now = clock_.now();
  for (auto& [chunk, wanted] : wanted_)
    if (now >= wanted.told + kRemind) tell(chunk, wanted, changes);
}

void Rebalancer::want(ChunkId chunk, Wanted wanted, Changes& changes) {
  if (wanted.drain) {
    ++drained_[wanted.from];
  } else {
    balance_bytes_ += wanted.bytes;
    ++balance_moves_;
  }
  wanted.since = clock_.now();
  tell(chunk, wanted_.emplace(chunk, wanted).first->second, changes);
}

void Rebalancer::tell(ChunkId chunk, Wanted& wanted, Changes& changes) {
  wanted.told = clock_.now();
  changes.wanted.push_back(
      {.chunk = chunk,
       .from = wanted.from,
       .to = wanted.to,
       .why = wanted.drain ? fmt::format("server {} is drained", servers_.name_of(wanted.from))
                           : fmt::format("server {} is fuller than server {}", servers_.name_of(wanted.from),
                                         servers_.name_of(wanted.to))});
}

void Rebalancer::scan(const Reader& reader, ServerId server, size_t at_most,
                      const std::function<bool(ChunkId, const proto::StoredStripe&)>& visit) {
  const keys::Range range = keys::all(keys::Kind::kServerChunk, server.value);
  ChunkId& scanned_to = scanned_to_[server];
  size_t scanned = 0;
  bool go_on = true;
  const auto scan_range = [&](const std::string& begin, const std::string& end) {
    reader.scan({begin, end}, [&](std::string_view key, std::string_view) {
      const ChunkId chunk = keys::chunk_of(key);
      const auto stripe = load_stripe(reader, chunk.stripe);
      scanned_to = chunk;
      go_on = ++scanned < at_most && (!stripe || visit(chunk, *stripe));
      return go_on;
    });
  };
  const std::string middle = keys::server_chunk(server, scanned_to) + '\0';
  scan_range(middle, range.end);
  if (go_on) scan_range(range.begin, middle);
}

// ---- drain -----------------------------------------------------------------------------------------------

void Rebalancer::drain(const Reader& reader, ServerId server, Changes& changes) {
  const auto known = drained_.find(server);
  size_t count = known == drained_.end() ? 0 : known->second;
  // More are wanted only once half of them have ended: else each scan would look at the same chunks again and again.
  if (count > kMaxOfADrain / 2 || wanted_.size() >= kMaxWanted) return;
  scan(reader, server, kMaxScanned, [&](ChunkId chunk, const proto::StoredStripe& stripe) {
    const proto::StoredChunk& place = stripe.chunks(static_cast<int>(chunk.index));
    if (wanted_.contains(chunk) || chunks_.lost(chunk)) return true;
    want(chunk, {.from = server, .bytes = place.length(), .drain = true}, changes);
    return ++count < kMaxOfADrain && wanted_.size() < kMaxWanted;
  });
}

// ---- balance ---------------------------------------------------------------------------------------------

std::vector<Rebalancer::Fill> Rebalancer::fills() const {
  std::map<ServerId, Fill> fills;
  for (const auto& [id, server] : servers_.servers()) {
    if (server.liveness != proto::ServerState::ALIVE || server.load.total_bytes() == 0) continue;
    if (servers_.in_maintenance(server)) continue;
    // What is free on a disk that hangs is not counted, so that its server only looks full.
    if (std::ranges::any_of(server.load.disk_states(), hangs)) continue;
    const auto total = static_cast<double>(server.load.total_bytes());
    const auto free = static_cast<double>(std::min(server.load.free_bytes(), server.load.total_bytes()));
    fills[id] = {.server = id, .rack = server.stored.rack(), .total = total, .used = total - free};
  }
  for (const auto& [chunk, wanted] : wanted_) {
    if (const auto from = fills.find(wanted.from); from != fills.end())
      from->second.used -= static_cast<double>(wanted.bytes);
    if (const auto to = fills.find(wanted.to); to != fills.end())
      to->second.used += static_cast<double>(wanted.bytes);
  }
  for (const Leaving& leaving : leaving_)
    if (const auto from = fills.find(leaving.from); from != fills.end())
      from->second.used -= static_cast<double>(leaving.bytes);
  std::vector<Fill> all;
  all.reserve(fills.size());
  for (auto& [id, fill] : fills)
    all.push_back(std::move(fill));
  return all;
}

void Rebalancer::balance(const Reader& reader, Changes& changes) {
  if (clock_.now() < next_balance_ || balance_bytes_ >= kMaxBalanceBytes ||
      balance_moves_ >= kMaxBalanceMoves)
    return;
  next_balance_ = clock_.now() + 1s;
  backoff_.forget_old(clock_.now());
  while (!leaving_.empty() && leaving_.front().until <= clock_.now())
    leaving_.pop_front();
  std::vector<Fill> servers = fills();
  const uint64_t before = balance_bytes_;
  size_t scanned = 0;
  while (servers.size() >= 2 && scanned < kMaxScanned && balance_bytes_ - before < kBalanceBytesASecond &&
         balance_bytes_ < kMaxBalanceBytes && balance_moves_ < kMaxBalanceMoves) {
    const auto by_share = [](const Fill& a, const Fill& b) { return a.share() < b.share(); };
    const auto [emptiest, fullest] = std::minmax_element(servers.begin(), servers.end(), by_share);
    // A slow one would get what others go around.
    if (slow_.contains(emptiest->server) || backoff_.target_left_alone(emptiest->server, clock_.now())) {
      servers.erase(emptiest);
      continue;
    }
    if (fullest->share() - emptiest->share() <= kTolerated) return;
    if (backoff_.left_alone(fullest->server, emptiest->server, clock_.now())) {
      servers.erase(fullest);
      continue;
    }
    if (!want_one(reader, *fullest, *emptiest, scanned, changes)) servers.erase(fullest);
  }
}

bool Rebalancer::want_one(const Reader& reader, Fill& from, Fill& to, size_t& scanned, Changes& changes) {
  bool found = false;
  scan(reader, from.server, kMaxScanned - scanned, [&](ChunkId chunk, const proto::StoredStripe& stripe) {
    ++scanned;
    const uint64_t bytes = stripe.chunks(static_cast<int>(chunk.index)).length();
    if (bytes == 0 || !may_move(stripe, chunk, to)) return true;
    want(chunk, {.from = from.server, .to = to.server, .bytes = bytes}, changes);
    from.used -= static_cast<double>(bytes);
    to.used += static_cast<double>(bytes);
    found = true;
    return false;
  });
  return found;
}

bool Rebalancer::may_move(const proto::StoredStripe& stripe, ChunkId chunk, const Fill& to) const {
  if (chunks_.lost(chunk)) return false;
  // Only one chunk of a stripe moves at a time: the next one is judged when the place of this one is known.
  const auto wanted = wanted_.lower_bound({chunk.stripe, 0});
  if (wanted != wanted_.end() && wanted->first.stripe == chunk.stripe) return false;
  // The stripe must not come to stand more crowded in a rack than it does.
  std::map<std::string, size_t> in_rack;
  for (const proto::StoredChunk& place : stripe.chunks()) {
    if (place.server_id() == to.server.value) return false;
    if (const ServerRecord* server = servers_.find(ServerId{place.server_id()}))
      ++in_rack[server->stored.rack()];
  }
  const ServerRecord* from =
      servers_.find(ServerId{stripe.chunks(static_cast<int>(chunk.index)).server_id()});
  return from && (from->stored.rack() == to.rack || in_rack[to.rack] < in_rack[from->stored.rack()]);
}

}  // namespace kintsugi::metaserver
