#include "metaserver/chunks/chunk_map.h"

namespace kintsugi::metaserver {

bool ChunkMap::available(ChunkId id, const proto::StoredChunk& chunk) const {
  if (chunk.length() == 0) return true;
  if (chunk.server_id() == 0) return false;
  return !servers_.is_dead(ServerId{chunk.server_id()}) && !lost_.contains(id);
}

bool ChunkMap::confirmed(ChunkId id, const proto::StoredChunk& chunk) const {
  if (!available(id, chunk)) return false;
  if (chunk.length() == 0) return true;
  const ServerRecord* server = servers_.find(ServerId{chunk.server_id()});
  return server != nullptr && server->registered && !server->first_report;
}

std::vector<uint32_t> ChunkMap::available_chunks(StripeId id, const proto::StoredStripe& stripe) const {
  std::vector<uint32_t> indices;
  for (int i = 0; i < stripe.chunks_size(); ++i) {
    if (available({id, static_cast<uint32_t>(i)}, stripe.chunks(i)))
      indices.push_back(static_cast<uint32_t>(i));
  }
  return indices;
}

bool ChunkMap::set_lost(ChunkId chunk, bool proven) {
  const TimePoint believed_from = proven ? clock_.now() + kDistrust : clock_.now();
  auto [entry, is_new] = lost_.try_emplace(chunk, believed_from);
  entry->second = std::max(entry->second, believed_from);
  return is_new;
}

std::optional<TimePoint> ChunkMap::set_present(ChunkId chunk) {
  auto found = lost_.find(chunk);
  if (found == lost_.end()) return std::nullopt;
  if (found->second > clock_.now()) return found->second;
  lost_.erase(found);
  return std::nullopt;
}

void ChunkMap::scan_lost(ChunkId after, const std::function<bool(ChunkId)>& visit) const {
  for (auto at = lost_.upper_bound(after); at != lost_.end(); ++at)
    if (!visit(at->first)) return;
}

void ChunkMap::set_placed(ChunkId chunk, ServerId server) {
  const TimePoint now = clock_.now();
  lost_.erase(chunk);
  placed_[chunk] = {server, now};
  placed_order_.emplace_back(now, chunk);
  // A report that began earlier than that is given up (BlockReports::kMaxDuration), so nobody asks for
  // older placements.
  const TimePoint needed =
      std::max(std::min(now, reports_began_) - kPlacedMemory, now - kPlacedMemoryOfReports);
  while (!placed_order_.empty() && placed_order_.front().first < needed) {
    auto found = placed_.find(placed_order_.front().second);
    // The chunk may have been placed again since: then its later entry in the queue forgets it.
    if (found != placed_.end() && found->second.when == placed_order_.front().first) placed_.erase(found);
    placed_order_.pop_front();
  }
}

bool ChunkMap::placed_since(ChunkId chunk, ServerId server, TimePoint when) const {
  auto found = placed_.find(chunk);
  return found != placed_.end() && found->second.server == server && found->second.when >= when;
}

void ChunkMap::forget(StripeId stripe, const proto::StoredStripe& stored) {
  for (int i = 0; i < stored.chunks_size(); ++i) {
    lost_.erase({stripe, static_cast<uint32_t>(i)});
    placed_.erase({stripe, static_cast<uint32_t>(i)});
  }
}

}  // namespace kintsugi::metaserver
