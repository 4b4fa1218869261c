/// Files that are being written (docs/decisions/004-uploads.md).
///
/// An allocation is proven by its ticket and kept in memory only to protect its chunks from garbage
/// collection and to clean up. A sealed stripe is durable and attached to its upload, until CommitFile makes
/// it part of a file, or the upload is aborted or idle for too long and its stripes are freed.
///
/// Why no chunk that may still be committed is ever collected: a stripe is accepted only while its allocation
/// is in memory or, since an earlier process may have allocated it, in the first `upload_ttl` of this
/// process; and `protects` covers exactly those.
#pragma once

#include <deque>
#include <map>
#include <unordered_set>
#include <vector>

#include "common/base/ids.h"
#include "common/proto/meta.pb.h"
#include "common/proto/store.pb.h"
#include "common/rpc/secret.h"
#include "common/runtime/clock.h"
#include "metaserver/cluster/options.h"
#include "metaserver/schema/stripes.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

inline constexpr size_t kMaxUploads = 100'000;
inline constexpr size_t kMaxAllocations = 200'000;  ///< of uploads that have not ended
inline constexpr size_t kMaxEnded = 100'000;
inline constexpr int kMaxExtents = 32'768;

class Uploads {
 public:
  /// References must outlive it. Its process starts now.
  Uploads(const MetaServerOptions& options, const rpc::Secret& secret, const runtime::Clock& clock)
      : options_(options), secret_(secret), clock_(clock), started_(clock.now()) {}

  /// Uploads with durable stripes: each gets a new idle period.
  void load(const Reader& reader);

  /// An upload that the caller goes on with, or begins under a new id. kNotFound when it was aborted,
  /// kLimitExceeded.
  Status use(UploadId upload);

  /// Remembers an allocation and signs its ticket. kLimitExceeded.
  Result<std::string> allocate(UploadId upload, StripeId stripe, const std::string& policy,
                               const std::vector<ServerId>& servers);
  /// The allocation a ticket proves, if it may still be used.
  Result<proto::StripeTicket> open(UploadId upload, StripeId stripe, std::string_view ticket) const;
  /// Another server for one chunk: a new ticket with the old one's expiry.
  std::string reallocate(proto::StripeTicket ticket, uint32_t index, ServerId server);

  /// Puts the stripe's record and attaches it. Nothing to do when it is stored already. Chunks that are
  /// nowhere are added to `missing`.
  Status seal(Transaction& transaction, UploadId upload, const proto::SealedStripe& sealed,
              std::vector<ChunkId>& missing);

  /// Seals what the request brings, checks the extents against the upload's stripes and ends the upload.
  /// Stripes that no extent names are freed.
  struct Committed {
    proto::StoredExtents extents;
    uint64_t stored_bytes = 0;
    std::string policy;  ///< of the first stripe; empty when there is none
  };
  Result<Committed> commit(Transaction& transaction, const proto::CommitFileRequest& request,
                           std::vector<ChunkId>& missing, FreedStripes& freed);
  /// No stripe of it is accepted any more. To be called when the transaction of `commit` is on its way.
  void ended(UploadId upload);

  /// Nothing of it can be committed any more. Its servers are woken by the caller through `servers`.
  void abort(Transaction& transaction, UploadId upload, std::vector<ServerId>& servers);

  /// One bounded step towards freeing what aborted and idle uploads hold. False: all have been looked at.
  bool expire_step(Transaction& transaction, FreedStripes& freed);

  /// Its chunks may belong to a file one day although no stripe record names them.
  bool protects(StripeId stripe) const;

  size_t live() const { return uploads_.size(); }

 private:
  struct Upload {
    TimePoint last_use;
    bool aborted = false;
    bool drained = false;  ///< aborted, and holds no stripes any more
    std::vector<StripeId> allocated;
  };
  struct Allocation {
    UploadId upload;
    std::vector<ServerId> servers;
    TimePoint expiry;
  };
  bool settled() const { return clock_.now() - started_ > options_.upload_ttl; }
  void forget_old_allocations();
  Status check_extents(const Transaction& transaction, const proto::CommitFileRequest& request,
                       const std::vector<StripeId>& attached, Committed& committed) const;

  const MetaServerOptions& options_;
  const rpc::Secret& secret_;
  const runtime::Clock& clock_;
  TimePoint started_;
  std::map<UploadId, Upload> uploads_;
  UploadId next_to_expire_;
  std::map<StripeId, Allocation> allocations_;  ///< ids grow with time: also the order of expiry
  std::unordered_set<UploadId>
      ended_;  ///< the last kMaxEnded: a late repetition must not seal their stripes anew
  std::deque<UploadId> ended_order_;
};

}  // namespace kintsugi::metaserver
