#include "metaserver/schema/stripes.h"

namespace kintsugi::metaserver {
namespace {

bool has_place(const proto::StoredChunk& chunk) {
  return chunk.server_id() != 0 || chunk.length() != 0;
}

}  // namespace

std::optional<proto::StoredStripe> load_stripe(const Reader& reader, StripeId id) {
  return reader.get_message<proto::StoredStripe>(keys::stripe(id));
}

void add_stripe(Transaction& transaction, StripeId id, const proto::StoredStripe& stripe) {
  transaction.put_message(keys::stripe(id), stripe);
  for (int i = 0; i < stripe.chunks_size(); ++i) {
    const proto::StoredChunk& chunk = stripe.chunks(i);
    if (!has_place(chunk)) continue;
    transaction.put(keys::server_chunk(ServerId{chunk.server_id()}, {id, static_cast<uint32_t>(i)}), "");
  }
  adjust_totals(transaction, 0, 0, 1);
}

void move_chunk(Transaction& transaction, ChunkId chunk, proto::StoredStripe& stripe, ServerId server) {
  proto::StoredChunk& place = *stripe.mutable_chunks(static_cast<int>(chunk.index));
  const ServerId old{place.server_id()};
  if (has_place(place)) transaction.remove(keys::server_chunk(old, chunk));
  if (old) transaction.put(keys::garbage(old, chunk), "");
  place.set_server_id(server.value);
  // The deletion of an older copy there may be queued, if the caller has found it withdrawable: it must not hit
  // this one.
  transaction.remove(keys::garbage(server, chunk));
  transaction.put(keys::server_chunk(server, chunk), "");
  transaction.put_message(keys::stripe(chunk.stripe), stripe);
}

void free_stripe(Transaction& transaction, StripeId id, FreedStripes& freed) {
  auto stripe = transaction.get_message<proto::StoredStripe>(keys::stripe(id));
  if (!stripe) return;
  for (int i = 0; i < stripe->chunks_size(); ++i) {
    const proto::StoredChunk& chunk = stripe->chunks(i);
    const ChunkId chunk_id{id, static_cast<uint32_t>(i)};
    const ServerId server{chunk.server_id()};
    if (has_place(chunk)) transaction.remove(keys::server_chunk(server, chunk_id));
    if (server) transaction.put(keys::garbage(server, chunk_id), "");
  }
  transaction.remove(keys::stripe(id));
  adjust_totals(transaction, 0, 0, -1);
  freed.emplace_back(id, std::move(*stripe));
}

uint64_t stored_bytes(const proto::StoredStripe& stripe) {
  uint64_t bytes = 0;
  for (const proto::StoredChunk& chunk : stripe.chunks())
    bytes += chunk.length();
  return bytes;
}

void adjust_totals(Transaction& transaction, int64_t files, int64_t directories, int64_t stripes) {
  auto totals = transaction.get_message<proto::StoredTotals>(keys::totals()).value_or(proto::StoredTotals{});
  totals.set_files(totals.files() + static_cast<uint64_t>(files));
  totals.set_directories(totals.directories() + static_cast<uint64_t>(directories));
  totals.set_stripes(totals.stripes() + static_cast<uint64_t>(stripes));
  transaction.put_message(keys::totals(), totals);
}

}  // namespace kintsugi::metaserver
