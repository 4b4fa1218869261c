/// The durable metadata as services use them: the store, whether it takes more, and how an operation ends.
#pragma once

#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/proto/formats.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"
#include "metaserver/chunks/chunk_map.h"
#include "metaserver/chunks/garbage.h"
#include "metaserver/cluster/options.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/kv/key_value_store.h"
#include "metaserver/schema/transaction.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/service/repair_host.h"
#include "metaserver/service/store_room.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

/// There are no locks: everything between two suspension points is atomic. A handler reads, fills a Transaction and
/// ends in finish().
class MetaStore {
 public:
  /// What is in memory and follows what is stored (docs/decisions/036). All of it outlives the store.
  struct Followers {
    NamespaceParts& names;
    ServerRegistry& servers;
    ChunkMap& chunks;
    Garbage& garbage;
    const RepairHostSlot& host;
    Clients& clients;
  };

  /// References outlive it.
  MetaStore(const runtime::Runtime& runtime, const MetaServerOptions& options, KeyValueStore& kv,
            const Followers& followers)
      : runtime(runtime), options(options), kv(kv), room(kv, runtime.clock), followers_(followers) {}

  /// Ends an operation that wrote: commits when `done` is ok, and then tells about the stripes it freed. In any case it
  /// returns only once what `done` was derived from is durable; after a commit no client's kernel still caches what it
  /// replaced. It counts what the transaction changes (Quotas::account); whoever tells others of a change before
  /// finish() does so first.
  asio::awaitable<Status> finish(Context context, Status done, Transaction& transaction,
                                 FreedStripes freed = {});
  /// Ends the repetition of a change that was carried out before: others may not have heard of it yet.
  asio::awaitable<Status> finish_repeated(Context context, Status done = {});
  /// Ends an operation that only read.
  asio::awaitable<Status> finish_read(Context context, Status done = {});

  /// The context of work for which nobody waits.
  Context background_context() const;

  /// Checks that the metadata may keep so many bytes of files more. kLimitExceeded: they have to go to stripes.
  Status check_inline_room(const Transaction& transaction, uint64_t bytes);
  /// Returns true if the metadata holds so much inline data that some should move to stripes.
  bool inline_is_crowded(const Transaction& transaction) const {
    return total_inline_bytes(transaction) > options.inline_bytes / 2;
  }

  const runtime::Runtime runtime;
  const MetaServerOptions& options;
  KeyValueStore& kv;
  StoreRoom room;
  std::string cluster_id;
  uint32_t format = proto::kNewestFormat;  ///< format of the cluster
  bool stopping = false;

 private:
  const Followers followers_;
};

/// Names the inode in an error: "inode 81 does not exist any more".
Status about_inode(const Status& status, uint64_t inode);

/// Moves the value of `result` to where it belongs, or hands its error on.
template <class Value>
Status extract(Result<Value> result, Value& into) {
  if (!result) return result.error();
  into = std::move(*result);
  return {};
}

}  // namespace kintsugi::metaserver
