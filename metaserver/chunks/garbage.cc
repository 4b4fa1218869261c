#include "metaserver/chunks/garbage.h"

#include "common/log/log.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kMaxExamined = 10 * Garbage::kMaxVictims;  ///< keys examined in one heartbeat

}  // namespace

void Garbage::wake_all_of(const FreedStripes& freed) {
  for (const auto& [id, stripe] : freed) {
    for (const proto::StoredChunk& chunk : stripe.chunks()) {
      if (chunk.server_id() != 0) wake(ServerId{chunk.server_id()});
    }
  }
}

void Garbage::wake_all() {
  for (auto& [server, queue] : queues_)
    queue.idle_until = TimePoint::min();
}

bool Garbage::withdrawable(ServerId server, ChunkId chunk) const {
  // The orders of the process before this one are not known: its calls must have ended first.
  if (clock_.now() < started_ + kOrdersOfLastProcess) return false;
  const auto queue = queues_.find(server);
  return queue == queues_.end() || !queue->second.in_flight.contains(chunk);
}

void Garbage::named_again(ServerId server, ChunkId chunk) {
  const auto queue = queues_.find(server);
  if (queue == queues_.end()) return;
  const auto ordered = queue->second.in_flight.find(chunk);
  if (ordered != queue->second.in_flight.end()) ordered->second = true;
}

Garbage::Verdict Garbage::judge(const Reader& reader, ServerId server, ChunkId chunk) const {
  const auto stripe = load_stripe(reader, chunk.stripe);
  // Without a record the stripe was deleted, or was never sealed and no longer can be: whoever queues a chunk of an
  // unsealed stripe has made sure that nothing protects it, and seal() refuses a stripe with a queued chunk.
  if (!stripe) return Verdict::kDeleteOrphan;
  if (chunk.index >= static_cast<uint32_t>(stripe->chunks_size())) return Verdict::kDeleteOrphan;
  const proto::StoredChunk& place = stripe->chunks(static_cast<int>(chunk.index));
  // The record is what counts, whatever the queue says: a mistake in the queue costs space, never data.
  if (ServerId{place.server_id()} == server) return Verdict::kKeep;
  // While the chunk at its place cannot be read, this stale copy may hold the only bytes: the server may return
  // with them. So it may while the server of the place has yet to say what it has, as after a start of this process,
  // when nobody counts as dead.
  return chunks_.confirmed(chunk, place) ? Verdict::kDeleteStale : Verdict::kLater;
}

std::set<ChunkId> Garbage::confirm(Transaction& transaction, const proto::HeartbeatRequest& heartbeat,
                                   Queue& queue) {
  const ServerId server{heartbeat.server_id()};
  // A process that was started again may not have carried out what its predecessor was ordered: its keys are still in
  // the store, and are ordered anew.
  if (queue.incarnation != heartbeat.incarnation()) {
    // Or it has: a repair that has made such a copy must not commit it.
    for (const Order& order : queue.ordered)
      if (order.stale) gone_.add(server, order.chunk, clock_.now());
    queue = {};
    queue.incarnation = heartbeat.incarnation();
  }
  // A server sends its heartbeats one after the other: the call that carried an order it does not know has ended, and
  // the order can no longer arrive. Its key is in the store, so it is given again.
  while (!queue.ordered.empty() && queue.ordered.back().number > heartbeat.orders_received()) {
    queue.in_flight.erase(queue.ordered.back().chunk);
    queue.ordered.pop_back();
  }
  std::set<ChunkId> confirmed;
  const TimePoint now = clock_.now();
  while (!queue.ordered.empty() && queue.ordered.front().number <= heartbeat.orders_done() &&
         queue.ordered.front().when + kConfirmAfter <= now) {
    const Order done = queue.ordered.front();
    queue.ordered.pop_front();
    // The key that made commits of such a copy fail is gone, or may be taken back: from here on gone_lately() does.
    // Nobody repairs an orphan.
    (done.stale ? gone_ : orphans_).add(server, done.chunk, now);
    const auto known = queue.in_flight.extract(done.chunk);
    if (!known.empty() && known.mapped()) {
      queue.idle_until = TimePoint::min();  // its key stays, so that it is ordered again
      continue;
    }
    transaction.remove(keys::garbage(server, done.chunk));
    confirmed.insert(done.chunk);
  }
  return confirmed;
}

void Garbage::copy_begins(ServerId server, ChunkId chunk) {
  gone_.forget(server, chunk);
}

void Garbage::copy_lost(ServerId server, ChunkId chunk) {
  gone_.add(server, chunk, clock_.now());
}

Garbage::Orders Garbage::exchange(Transaction& transaction, const proto::HeartbeatRequest& heartbeat,
                                  bool hold) {
  const ServerId server{heartbeat.server_id()};
  Queue& queue = queues_[server];
  const std::set<ChunkId> confirmed = confirm(transaction, heartbeat, queue);
  // Most heartbeats end here, without a scan.
  if (hold || clock_.now() < queue.idle_until || queue.in_flight.size() >= kMaxInFlight) return {};

  Orders orders;
  size_t examined = 0, stale = 0;
  bool more = false;
  keys::Range range = keys::all(keys::Kind::kGarbage, server.value);
  if (!queue.next_key.empty()) range.begin = queue.next_key;
  transaction.scan(range, [&](std::string_view key, std::string_view) {
    const ChunkId chunk = keys::chunk_of(key);
    // Keys that were removed just now are in the store until the transaction is committed.
    if (queue.in_flight.contains(chunk) || confirmed.contains(chunk)) return true;
    if (orders.victims.size() == kMaxVictims || ++examined > kMaxExamined) {
      more = true;
      queue.next_key = key;
      return false;
    }
    const Verdict verdict = judge(transaction.store(), server, chunk);
    switch (verdict) {
      case Verdict::kDeleteOrphan:
      case Verdict::kDeleteStale:
        // Its key stays until the order is confirmed, so that nothing is placed there meanwhile.
        stale += verdict == Verdict::kDeleteStale ? 1 : 0;
        queue.ordered.push_back({queue.next_number, clock_.now(), chunk, verdict == Verdict::kDeleteStale});
        queue.in_flight.emplace(chunk, false);
        orders.victims.push_back(chunk);
        break;
      case Verdict::kKeep:
        log::warning("chunk {} on server {} was queued for deletion but is in use: kept", chunk,
                     chunks_.servers().name_of(server));
        transaction.remove(std::string(key));
        break;
      case Verdict::kLater: break;  // the key stays; idle_until makes us return to it
    }
    return true;
  });
  if (!orders.victims.empty()) {
    orders.number = queue.next_number++;
    log::info("server {} is to delete {} chunks, {} of which have another place, from {} to {}",
              chunks_.servers().name_of(server), orders.victims.size(), stale, orders.victims.front(),
              orders.victims.back());
  }
  queue.found = queue.found || !orders.victims.empty();
  if (more) return orders;
  if (!queue.found) queue.idle_until = clock_.now() + kPostponed;
  queue.next_key.clear();
  queue.found = false;
  return orders;
}

}  // namespace kintsugi::metaserver
