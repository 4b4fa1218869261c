#include "metaserver/repair/stripe_health.h"

#include <algorithm>

#include "erasure/code.h"
#include "erasure/policy.h"

namespace kintsugi::metaserver {
namespace {

/// The chunk is visited as one of a server, or of nowhere, and not as one that is known as lost.
bool is_visited_by_server(const ServerRegistry& servers, const proto::StoredChunk& chunk) {
  return chunk.server_id() == 0 || servers.is_dead(ServerId{chunk.server_id()});
}

}  // namespace

void StripeHealth::begin() {
  running_ = true;
  among_lost_ = true;
  after_ = {};
  found_.Clear();
  servers_.assign(1, ServerId{});  // server 0 stands for chunks that are on no server
  for (const auto& [id, server] : chunks_.servers().servers())
    if (server.liveness == proto::ServerState::DEAD) servers_.push_back(id);
}

std::vector<ChunkId> StripeHealth::next_chunks(const Reader& reader) const {
  std::vector<ChunkId> found;
  const auto take = [&found](ChunkId chunk) {
    found.push_back(chunk);
    return found.size() < kChunksOfAStep;
  };
  if (among_lost_) {
    chunks_.scan_lost(after_, take);
  } else if (!servers_.empty()) {
    keys::Range range = keys::all(keys::Kind::kServerChunk, servers_.back().value);
    range.begin = keys::server_chunk(servers_.back(), after_) + '\0';
    reader.scan(range, [&](std::string_view key, std::string_view) { return take(keys::chunk_of(key)); });
  }
  return found;
}

void StripeHealth::look_at(const Reader& reader, ChunkId chunk) {
  const auto stripe = load_stripe(reader, chunk.stripe);
  if (!stripe || chunk.index >= static_cast<uint32_t>(stripe->chunks_size())) return;
  if (among_lost_ && is_visited_by_server(chunks_.servers(), stripe->chunks(static_cast<int>(chunk.index))))
    return;
  const std::vector<uint32_t> available = chunks_.available_chunks(chunk.stripe, *stripe);
  // A stripe that lacks several chunks is counted when the first of them is visited.
  uint32_t first = 0;
  while (first < available.size() && available[first] == first)
    ++first;
  if (first != chunk.index) return;
  const auto policy = erasure::Policy::parse(stripe->policy());
  KINTSUGI_ASSERT(policy);
  const int spare = erasure::Code::get(*policy)->spare(available);
  found_.set_degraded(found_.degraded() + 1);
  found_.set_missing_chunks(found_.missing_chunks() + static_cast<uint64_t>(stripe->chunks_size()) -
                            available.size());
  if (spare == 0) found_.set_without_spare(found_.without_spare() + 1);
  if (spare < 0) found_.set_unreadable(found_.unreadable() + 1);
}

void StripeHealth::publish() {
  // What a long pass has found already is said at once; what has been mended meanwhile, when it ends.
  counts_.set_degraded(std::max(counts_.degraded(), found_.degraded()));
  counts_.set_without_spare(std::max(counts_.without_spare(), found_.without_spare()));
  counts_.set_unreadable(std::max(counts_.unreadable(), found_.unreadable()));
  counts_.set_missing_chunks(std::max(counts_.missing_chunks(), found_.missing_chunks()));
}

bool StripeHealth::step(const Reader& reader) {
  if (!running_) begin();
  const std::vector<ChunkId> chunks = next_chunks(reader);
  for (const ChunkId chunk : chunks)
    look_at(reader, chunk);
  publish();
  if (chunks.size() == kChunksOfAStep) {
    after_ = chunks.back();
    return true;
  }
  after_ = {};
  if (among_lost_) {
    among_lost_ = false;
  } else {
    servers_.pop_back();
  }
  running_ = !servers_.empty();
  if (!running_) counts_ = found_;
  return running_;
}

}  // namespace kintsugi::metaserver
