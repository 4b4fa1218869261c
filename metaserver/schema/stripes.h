/// Stripe records and the two indexes derived from them, which change in the same batch: chunks by server, and chunks
/// to be deleted by server.
#pragma once

#include <optional>
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

/// The bytes of all chunks.
uint64_t stored_bytes(const proto::StoredStripe& stripe);

/// Adds to the counts of the whole namespace.
void adjust_totals(Transaction& transaction, int64_t files, int64_t directories, int64_t stripes);

}  // namespace kintsugi::metaserver
