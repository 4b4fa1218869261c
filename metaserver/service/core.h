/// The parts of a metaserver, put together once, and what all its services need of them.
#pragma once

#include <functional>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/rpc/secret.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"
#include "metaserver/cluster/block_reports.h"
#include "metaserver/cluster/cache_map.h"
#include "metaserver/cluster/chunk_map.h"
#include "metaserver/cluster/garbage.h"
#include "metaserver/cluster/options.h"
#include "metaserver/cluster/placement.h"
#include "metaserver/cluster/rebalancer.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/cluster/uploads.h"
#include "metaserver/kv/key_value_store.h"
#include "metaserver/namespace/namespace.h"
#include "metaserver/schema/id_allocator.h"

namespace kintsugi::metaserver {

/// What the host of the metaserver (and of the repair manager) is told. Called on the executor, never inside
/// a call of the host's; nothing that they tell is told before it is durable.
struct MetaServerEvents {
  std::function<void(ServerId)> server_dead = [](ServerId) {};
  std::function<void(ServerId)> server_returned = [](ServerId) {};
  /// The first one since the server registered.
  std::function<void(ServerId)> block_report_complete = [](ServerId) {};
  std::function<void(ChunkId, const std::string& why)> chunk_lost = [](ChunkId, const std::string&) {};
  std::function<void(StripeId)> stripe_deleted = [](StripeId) {};
  std::function<void(const WantedMove&)> move_wanted = [](const WantedMove&) {};
  std::function<void(ServerId from)> moves_cancelled = [](ServerId) {};
};

/// No locks: everything between two suspension points is atomic. A handler reads, fills a Transaction and
/// finishes it.
struct Core {
  Core(const runtime::Runtime& runtime, MetaServerOptions options, rpc::Secret secret, KeyValueStore& store);

  /// Ends an operation that wrote: commits when `done` is ok, and then tells about the stripes it freed. In
  /// any case returns only once what `done` was derived from is durable.
  asio::awaitable<Status> finish(Context context, Status done, Transaction& transaction, FreedStripes freed);
  asio::awaitable<Status> finish(Context context, Status done, Transaction& transaction) {
    return finish(context, std::move(done), transaction, FreedStripes());
  }
  asio::awaitable<Status> finish(Context context, Transaction& transaction) {
    return finish(context, Status(), transaction, FreedStripes());
  }
  /// Ends an operation that only read.
  asio::awaitable<Status> finish_read(Status done);
  asio::awaitable<Status> finish_read() { return finish_read(Status()); }
  template <class Value>
  asio::awaitable<Status> finish_read(const Result<Value>& result) {
    return finish_read(result ? Status() : result.error());
  }

  bool holds_chunks(ServerId server) const;  ///< that is the place of some
  proto::ServerState state_of(const ServerRecord& server) const;
  /// A stripe as clients and the repair manager see it. `operations` 0: without capabilities.
  proto::Stripe describe(StripeId id, const proto::StoredStripe& stored, uint32_t operations,
                         Duration life) const;
  std::string capability(ChunkId chunk, uint32_t operations, Duration life) const;
  std::string address_of(ServerId server) const;  ///< empty when it is dead or unknown
  /// Servers that take new chunks: alive, not being drained, not in `exclude`, with room for a chunk.
  std::vector<Candidate> usable_servers(const std::vector<ServerId>& exclude) const;

  runtime::Runtime runtime;
  const MetaServerOptions options;
  const rpc::Secret secret;
  KeyValueStore& store;
  MetaServerEvents events;
  std::string cluster_id;

  IdAllocator inode_ids, stripe_ids, upload_ids;
  Namespace names;
  ServerRegistry servers;
  CacheMap caches;
  ChunkMap chunks;
  Garbage garbage;
  Uploads uploads;
  BlockReports block_reports;
  Rebalancer rebalancer;
};

}  // namespace kintsugi::metaserver
