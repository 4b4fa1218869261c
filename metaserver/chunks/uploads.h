/// Files that are being written (docs/decisions/004-uploads.md).
///
/// A stripe is allocated (Allocations), written, and sealed: then its record is durable and attached to its upload,
/// until CommitFile makes it part of a file, or the upload is aborted or idle for too long and its stripes are freed.
///
/// Why no chunk that may still be committed is ever collected: the chunks of a sealed stripe are named by its record,
/// and a stripe without a record is sealed only while Allocations protects it and no deletion of its chunks is queued,
/// or was carried out.
/// The end of an upload is remembered in memory, an abort also in the store until its tickets have expired: a late
/// or repeated request does not bring its stripes back.
#pragma once

#include <deque>
#include <map>
#include <unordered_set>
#include <vector>

#include "common/base/ids.h"
#include "common/proto/meta.pb.h"
#include "common/proto/store.pb.h"
#include "common/runtime/clock.h"
#include "common/runtime/random.h"
#include "metaserver/chunks/allocations.h"
#include "metaserver/chunks/garbage.h"
#include "metaserver/cluster/options.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/schema/stripes.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

class Uploads {
 public:
  static constexpr size_t kMaxUploads = 100'000;
  static constexpr size_t kMaxEnded = 100'000;
  static constexpr int kMaxExtents = 32'768;

  /// References must outlive it.
  Uploads(Allocations& allocations, const ServerRegistry& servers, const Garbage& garbage,
          const MetaServerOptions& options, const runtime::Clock& clock)
      : allocations_(allocations), servers_(servers), garbage_(garbage), options_(options), clock_(clock) {}

  /// Loads the uploads that have durable stripes. Each gets a new idle period.
  void load(const Reader& reader);

  /// An id that nobody can guess: who knows an upload's id may commit or abort it. 49 bits, which take seven bytes in the
  /// record of a file.
  UploadId new_id(runtime::Random& random) const;
  /// The caller continues with an upload, or begins one under a new id, and is heard of for another `upload_idle`.
  /// kNotFound when it has ended or was aborted, kLimitExceeded.
  Status use(UploadId upload);
  /// The allocation that a ticket proves, if it may still be used. kPermissionDenied, kNotFound.
  Result<proto::StripeTicket> open(UploadId upload, StripeId stripe, std::string_view ticket) const;

  /// Puts the stripe's record and attaches it to the upload. Nothing to do when it is stored already. Chunks that are
  /// nowhere are added to `missing`.
  Status seal(Transaction& transaction, UploadId upload, const proto::SealedStripe& sealed,
              std::vector<ChunkId>& missing);

  /// Seals what is brought along, and lists all stripes of the upload, in order.
  Result<std::vector<StripeId>> gather(Transaction& transaction, UploadId upload,
                                       const google::protobuf::RepeatedPtrField<proto::SealedStripe>& sealed,
                                       std::vector<ChunkId>& missing);
  using Extents = google::protobuf::RepeatedPtrField<proto::Extent>;
  /// The extents are in file order, disjoint, within `size`, and of stripes that are `gathered`; holes may be among
  /// them if `holes` says so. kInvalidArgument, kLimitExceeded, kNotFound.
  static Status check_extents(const Transaction& transaction, const Extents& extents, uint64_t size,
                              const std::vector<StripeId>& gathered, bool holes);
  /// Ends an upload whose extents a file has got: stripes that none of them names are freed.
  void release(Transaction& transaction, UploadId upload, const Extents& extents,
               const std::vector<StripeId>& gathered, FreedStripes& freed);
  /// No stripe of it is accepted any more. To be called when the transaction of release() is on its way.
  void ended(UploadId upload);

  /// Nothing of it can be committed any more; what was written is garbage. The caller wakes its servers, which are
  /// added to `servers`, once the transaction is durable.
  void abort(Transaction& transaction, UploadId upload, std::vector<ServerId>& servers);

  /// One bounded step: gives up an upload without a word from its client, or frees some of what an aborted one holds.
  /// Servers with new garbage are added to `servers`. False: all have been looked at.
  bool expire_step(Transaction& transaction, FreedStripes& freed, std::vector<ServerId>& servers);
  /// This process did not run for so long: clients could not be heard.
  void stood_still(Duration time);

  size_t live() const { return uploads_.size(); }

 private:
  struct Upload {
    TimePoint last_use;
    bool aborted = false;
    bool drained = false;  ///< aborted, and all its stripes are released
  };
  /// Puts the record of a stripe that has none yet. Chunks on servers that were removed are nowhere.
  Status store_stripe(Transaction& transaction, UploadId upload, const proto::SealedStripe& sealed,
                      std::vector<ChunkId>& missing);
  /// The stripes that were sealed before the commit.
  static std::vector<StripeId> attached_before(const Transaction& transaction, UploadId upload);
  /// Frees a stripe that no extent names. A write that is done in steps may have put some of an upload's into its
  /// file, and ended.
  static void free_unnamed(Transaction& transaction, StripeId id, FreedStripes& freed);
  /// Frees some of the stripes attached to the upload. False: none are left.
  bool free_some(Transaction& transaction, UploadId upload, FreedStripes& freed) const;

  Allocations& allocations_;
  const ServerRegistry& servers_;
  const Garbage& garbage_;
  const MetaServerOptions& options_;
  const runtime::Clock& clock_;
  std::map<UploadId, Upload> uploads_;
  UploadId next_to_expire_;
  /// The last kMaxEnded uploads that ended: a late repetition of a call must not seal their stripes anew.
  std::unordered_set<UploadId> ended_;
  std::deque<UploadId> ended_order_;  ///< the uploads in `ended_`, oldest first
};

}  // namespace kintsugi::metaserver
