/// Stripe records and the two indexes derived from them, which change in the same batch: chunks by server, and chunks
/// to be deleted by server.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/proto/store.pb.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// Stripes that an operation deleted, for those who keep something about them in memory.
using FreedStripes = std::vector<std::pair<StripeId, proto::StoredStripe>>;

std::optional<proto::StoredStripe> load_stripe(const Reader& reader, StripeId id);

/// A new stripe and the index of its chunks by server. A chunk of no bytes that is nowhere is not missing: it
/// has no entry.
void add_stripe(Transaction& transaction, StripeId id, const proto::StoredStripe& stripe);

/// Makes `server` the place of `chunk` and updates `stripe`. The copy at the old place becomes garbage.
void move_chunk(Transaction& transaction, ChunkId chunk, proto::StoredStripe& stripe, ServerId server);

/// Deletes the stripe, if it exists; its chunks become garbage of their servers.
void free_stripe(Transaction& transaction, StripeId id, FreedStripes& freed);

/// Visits the chunks whose place is this server, or which are nowhere (server 0), in order, after `after`, until `visit`
/// returns false. There may be millions.
void scan_chunks_of(const Reader& reader, ServerId server, ChunkId after,
                    const std::function<bool(ChunkId)>& visit);
bool holds_chunks(const Reader& reader, ServerId server);  ///< whether it is the place of at least one chunk

/// The bytes of all chunks, or those that are kept in the record.
uint64_t stored_bytes(const proto::StoredStripe& stripe);

/// A stripe that has no chunks: its bytes are in its record (docs/decisions/030).
inline bool is_inline(const proto::StoredStripe& stripe) {
  return stripe.chunks().empty();
}
/// A new stripe that keeps these bytes. REQUIRES: there are some.
void add_inline_stripe(Transaction& transaction, StripeId id, std::string_view bytes, uint32_t crc);

/// Adds to the counts of the whole namespace.
void adjust_totals(Transaction& transaction, int64_t files, int64_t directories, int64_t stripes,
                   int64_t inline_bytes = 0);
/// The user bytes that stripe records keep.
uint64_t total_inline_bytes(const Transaction& transaction);

}  // namespace kintsugi::metaserver
