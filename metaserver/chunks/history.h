/// The history of this metadata: the epochs in which metaservers have run with it, and whether it is older than the
/// chunks that it finds.
///
/// Metadata gets older when somebody restores a copy of the store's files, or when the disk below loses what it had
/// synced. Such a store looks perfectly sound. It only has never heard of the newer files, so that their chunks seem to
/// be garbage. Two things outside of it give it away:
///
/// - Chunkservers keep the last mark that a metaserver told them: its epoch, which is random, and how far the store had
///   come. An epoch that is not in the history, or a position beyond the epoch's end, was reached by later metadata.
/// - The ids of stripes are reserved in the store before they are used, and no two histories reserve the same ones
///   (IdAllocator). A chunk whose id was never reserved was written under later metadata.
///
/// Either puts the metadata in doubt. The doubt is durable; while it lasts no chunk is deleted anywhere, everything
/// else continues. It ends when an operator puts newer metadata in place, or accepts that the newer metadata is gone.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/base/ids.h"
#include "common/proto/meta.pb.h"
#include "common/proto/store.pb.h"
#include "common/runtime/runtime.h"
#include "metaserver/cluster/options.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/schema/id_allocator.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

class History {
 public:
  static constexpr int kMaxDoubtedEpochs = 64;

  /// References outlive it.
  History(const runtime::Runtime& runtime, const MetaServerOptions& options, KeyValueStore& store,
          const IdAllocator& stripe_ids, const ServerRegistry& servers)
      : random_(runtime.random),
        clock_(runtime.clock),
        options_(options),
        store_(store),
        stripe_ids_(stripe_ids),
        servers_(servers),
        started_(clock_.now()) {}

  /// Loads the history. REQUIRES: this process has not written to the store yet, since what others saw of the last
  /// epoch may reach up to its end.
  void load();
  /// Begins an epoch of this process, which is durable on return. REQUIRES: load(), and the stripe ids were started.
  asio::awaitable<Status> begin();

  /// Where this metadata stands, for chunkservers to keep. None while it is in doubt, or has just been started and may
  /// be doubted by the next server that registers: they keep what they know of the later state, so that they recognise
  /// it when it is put back.
  std::optional<proto::MetadataMark> mark() const;

  /// Judges what a server has kept, and begins a doubt if this metadata cannot have told it.
  void check_mark(Transaction& transaction, ServerId server, const proto::MetadataMark& seen);

  enum class Origin {
    kThisProcess,  ///< this process gave the id out: its memory knows all that happened to the stripe
    kBefore,       ///< a former process with this metadata reserved the id
    kForeign,      ///< this metadata never reserved the id
  };
  Origin origin_of(StripeId stripe) const;
  /// A chunk of foreign origin was found: begins a doubt.
  void foreign_chunk(Transaction& transaction, ServerId server, ChunkId chunk);

  /// None: all is well.
  const std::optional<proto::MetadataDoubt>& doubt() const { return doubt_; }
  /// An operator has decided to continue with this metadata. kNotFound: it is not in doubt.
  Status accept(Transaction& transaction);

  uint64_t epoch() const { return current_.id(); }
  /// How often a metaserver was started with this metadata.
  uint64_t starts() const { return starts_; }
  uint64_t position() const { return store_.position(); }

 private:
  void begin_doubt(Transaction& transaction, ServerId server, uint64_t epoch, std::string evidence);

  runtime::Random& random_;
  runtime::Clock& clock_;
  const MetaServerOptions& options_;
  KeyValueStore& store_;
  const IdAllocator& stripe_ids_;
  const ServerRegistry& servers_;  ///< only used for the servers' names
  const TimePoint started_;
  proto::StoredEpoch current_;  ///< between load() and begin(): the epoch of the former process
  uint64_t starts_ = 0;         ///< how often a metaserver has started with this metadata
  uint64_t opened_at_ = 0;      ///< position of the store before this process wrote to it
  std::map<uint64_t, proto::StoredEpoch> epochs_;   ///< former epochs, by their random ids
  std::map<uint64_t, uint64_t> stripes_of_epochs_;  ///< ids that former epochs reserved: first -> limit
  std::set<uint64_t> abandoned_;  ///< epochs of other histories that an operator has given up
  std::optional<proto::MetadataDoubt> doubt_;
};

}  // namespace kintsugi::metaserver
