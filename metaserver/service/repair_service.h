/// RPCs of repairs: what repair managers ask of the metaserver, and how the result of a repair is committed.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/runtime/context.h"
#include "metaserver/chunks/chunk_map.h"
#include "metaserver/chunks/garbage.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/service/meta_store.h"

namespace kintsugi::metaserver {

/// A repair (or move) of a chunk makes a copy on another server and then commits: from then on that is the
/// chunk's place.
///
/// A commit is refused when the copy may be gone from its server: while a deletion of that chunk there is pending, and
/// when one was ordered, or the server has told that it lost the chunk, since the copy was begun; whoever calls refuses
/// it when the server was started again since. So a committed place always has its bytes, and the copy of a refused
/// commit is garbage.
class RepairService {
 public:
  /// References outlive it.
  RepairService(MetaStore& store, const ServerRegistry& servers, ChunkMap& chunks, Garbage& garbage)
      : store_(store), servers_(servers), chunks_(chunks), garbage_(garbage) {}

  /// A deletion of the chunk is, or may have been, ordered at `server`, or would be before a copy is made there: commit
  /// would refuse it.
  bool deletion_pending(ChunkId chunk, ServerId server) const;
  /// A repair or move of the chunk onto `server` begins. A copy there that is deleted or lost from now on is not
  /// committed.
  void begins(ChunkId chunk, ServerId server);
  /// The answer that commit would give to a copy which is begun now.
  Status can_commit(ChunkId chunk, ServerId expected_old, ServerId server) const;
  /// The chunk, proven to be what was written, is durable on `server`: that is its place from now on, if it is still
  /// at `expected_old` (0: nowhere). Else kConflict, or kNotFound when the stripe is gone: the copy is garbage.
  /// Durable on return.
  asio::awaitable<Status> commit(Context context, ChunkId chunk, ServerId expected_old, ServerId server);
  /// Deletes a copy on `server` whose commit was refused, unless that is the chunk's place.
  asio::awaitable<Status> discard_copy(ChunkId chunk, ServerId server);
  /// The stripe exists.
  bool knows(StripeId stripe) const { return load_stripe(store_.kv, stripe).has_value(); }
  /// Where the stripe says that the chunk is; none: nowhere, or there is no such chunk.
  ServerId place_of(ChunkId chunk) const;

 private:
  std::string name_of(ServerId server) const { return servers_.name_of(server); }
  bool deletion_ordered(ChunkId chunk, ServerId server) const;
  Status check(ChunkId chunk, ServerId expected_old, ServerId server, const proto::StoredStripe& stripe,
               bool to_be_deleted) const;

  MetaStore& store_;
  const ServerRegistry& servers_;
  ChunkMap& chunks_;
  Garbage& garbage_;
};

}  // namespace kintsugi::metaserver
