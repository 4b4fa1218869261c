#include "metaserver/cluster/garbage.h"

#include "common/log/log.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kMaxExamined = 10 * Garbage::kMaxVictims;  ///< of a queue, in one heartbeat

}  // namespace

void Garbage::wake_all_of(const FreedStripes& freed) {
  for (const auto& [id, stripe] : freed) {
    for (const proto::StoredChunk& chunk : stripe.chunks()) {
      if (chunk.server_id() != 0) wake(ServerId{chunk.server_id()});
    }
  }
}

Garbage::Verdict Garbage::judge(const Reader& reader, ServerId server, ChunkId chunk) const {
  const auto stripe = load_stripe(reader, chunk.stripe);
  if (!stripe) return Verdict::kDelete;
  if (chunk.index >= static_cast<uint32_t>(stripe->chunks_size())) return Verdict::kDelete;
  const proto::StoredChunk& place = stripe->chunks(static_cast<int>(chunk.index));
  if (ServerId{place.server_id()} == server) return Verdict::kKeep;
  return chunks_.available(chunk, place) ? Verdict::kDelete : Verdict::kLater;
}

std::vector<ChunkId> Garbage::exchange(Transaction& transaction, ServerId server, uint64_t incarnation) {
  Queue& queue = queues_[server];
  if (queue.incarnation == incarnation) {
    for (ChunkId done : queue.ordered)
      transaction.remove(keys::garbage(server, done));
  }
  // A process that restarted may not have come to what its predecessor was told: that is ordered again.
  const std::vector<ChunkId> confirmed =
      queue.incarnation == incarnation ? std::exchange(queue.ordered, {}) : std::vector<ChunkId>{};
  queue.ordered.clear();
  queue.incarnation = incarnation;
  if (clock_.now() < queue.idle_until) return {};

  size_t examined = 0;
  bool more = false;
  transaction.scan(
      keys::all(keys::Kind::kGarbage, server.value), [&](std::string_view key, std::string_view) {
        const ChunkId chunk = keys::chunk_of(key);
        if (std::binary_search(confirmed.begin(), confirmed.end(), chunk)) return true;
        if (queue.ordered.size() == kMaxVictims || ++examined > kMaxExamined) {
          more = true;
          return false;
        }
        switch (judge(transaction.store(), server, chunk)) {
          case Verdict::kDelete:
            queue.ordered.push_back(chunk);
            break;
          case Verdict::kKeep:
            log::warning("chunk {} on server {} was queued for deletion but is in use: kept", chunk, server);
            transaction.remove(std::string(key));
            break;
          case Verdict::kLater:
            break;
        }
        return true;
      });
  if (!more && queue.ordered.empty()) queue.idle_until = clock_.now() + kPostponed;
  return queue.ordered;
}

}  // namespace kintsugi::metaserver
