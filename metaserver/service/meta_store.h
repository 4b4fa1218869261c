/// The durable metadata as services use them: the store, whether it takes more, and how an operation ends.
#pragma once

#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/runtime/context.h"
#include "common/runtime/runtime.h"
#include "metaserver/cluster/options.h"
#include "metaserver/kv/key_value_store.h"
#include "metaserver/schema/transaction.h"
#include "metaserver/service/cluster_parts.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

/// There are no locks: everything between two suspension points is atomic. A handler reads, fills a Transaction and
/// ends in finish().
class MetaStore {
 public:
  static constexpr uint64_t kReserve = 128ull << 20;  ///< bytes that its disk must have free
  static constexpr Duration kRoomInterval = std::chrono::milliseconds(10);  ///< between two looks at the disk

  /// References outlive it.
  MetaStore(const runtime::Runtime& runtime, const MetaServerOptions& options, KeyValueStore& kv,
            NamespaceParts& names, ClusterParts& cluster, Clients& clients)
      : runtime(runtime), options(options), kv(kv), names_(names), cluster_(cluster), clients_(clients) {}

  /// Ends an operation that wrote: commits when `done` is ok, and then tells about the stripes it freed. In any case it
  /// returns only once what `done` was derived from is durable, and nobody may believe what was before it. It counts
  /// what the transaction changes (Quotas::account); whoever tells others of a change before finish() does so first.
  asio::awaitable<Status> finish(Context context, Status done, Transaction& transaction,
                                 FreedStripes freed = {});
  /// Ends the repetition of a change that was carried out before: others may not have heard of it yet.
  asio::awaitable<Status> finish_repeated(Context context, Status done = {});
  /// Ends an operation that only read.
  asio::awaitable<Status> finish_read(Context context, Status done = {});

  /// Refuses what would add to the namespace while the store's disk is nearly full (kNoSpace). A store that cannot
  /// write has to end, and with it everybody's reads; deletions still go on, so that people can make room.
  Status check_room();
  /// The metadata may keep so many bytes of files more. kLimitExceeded: they have to go to stripes.
  Status check_inline_room(const Transaction& transaction, uint64_t bytes);
  /// It keeps so many that some have to go to stripes.
  bool inline_is_crowded(const Transaction& transaction) const {
    return total_inline_bytes(transaction) > options.inline_bytes / 2;
  }

  const runtime::Runtime runtime;
  const MetaServerOptions& options;
  KeyValueStore& kv;
  std::string cluster_id;
  bool stopping = false;

 private:
  NamespaceParts& names_;
  ClusterParts& cluster_;
  Clients& clients_;
  uint64_t free_bytes_ = 0;  ///< as check_room() saw it last
  std::optional<TimePoint> known_until_;
};

/// Moves the value of `result` to where it belongs, or hands its error on.
template <class Value>
Status extract(Result<Value> result, Value& into) {
  if (!result) return result.error();
  into = std::move(*result);
  return {};
}

}  // namespace kintsugi::metaserver
