#include "metaserver/schema/stripes.h"

#include <algorithm>

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
  adjust_totals(transaction, 0, 0, 1, static_cast<int64_t>(stripe.inline_data().size()));
}

void add_inline_stripe(Transaction& transaction, StripeId id, std::string_view bytes, uint32_t crc) {
  KINTSUGI_ASSERT(!bytes.empty());
  proto::StoredStripe stripe;
  stripe.set_length(bytes.size());
  stripe.set_inline_data(bytes.data(), bytes.size());
  stripe.set_inline_crc(crc);
  add_stripe(transaction, id, stripe);
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
  adjust_totals(transaction, 0, 0, -1, -static_cast<int64_t>(stripe->inline_data().size()));
  freed.emplace_back(id, std::move(*stripe));
}

void scan_chunks_of(const Reader& reader, ServerId server, ChunkId after,
                    const std::function<bool(ChunkId)>& visit) {
  // Any index may come from a repair manager.
  const ChunkId last{after.stripe, std::min(after.index, keys::kMaxIndex)};
  keys::Range range = keys::all(keys::Kind::kServerChunk, server.value);
  range.begin = keys::server_chunk(server, last) + '\0';
  reader.scan(range, [&](std::string_view key, std::string_view) { return visit(keys::chunk_of(key)); });
}

bool holds_chunks(const Reader& reader, ServerId server) {
  bool empty = true;
  scan_chunks_of(reader, server, {}, [&](ChunkId) { return empty = false; });
  return !empty;
}

uint64_t stored_bytes(const proto::StoredStripe& stripe) {
  uint64_t bytes = stripe.inline_data().size();
  for (const proto::StoredChunk& chunk : stripe.chunks())
    bytes += chunk.length();
  return bytes;
}

void adjust_totals(Transaction& transaction, int64_t files, int64_t directories, int64_t stripes,
                   int64_t inline_bytes) {
  auto totals = transaction.get_message<proto::StoredTotals>(keys::totals()).value_or(proto::StoredTotals{});
  totals.set_files(totals.files() + static_cast<uint64_t>(files));
  totals.set_directories(totals.directories() + static_cast<uint64_t>(directories));
  totals.set_stripes(totals.stripes() + static_cast<uint64_t>(stripes));
  totals.set_inline_bytes(totals.inline_bytes() + static_cast<uint64_t>(inline_bytes));
  transaction.put_message(keys::totals(), totals);
}

uint64_t total_inline_bytes(const Transaction& transaction) {
  const auto totals = transaction.get_message<proto::StoredTotals>(keys::totals());
  return totals ? totals->inline_bytes() : 0;
}

}  // namespace kintsugi::metaserver
