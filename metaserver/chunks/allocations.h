/// Stripes that are being written: what the metaserver remembers of them before they have a record.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/store.pb.h"
#include "common/rpc/secret.h"
#include "common/runtime/clock.h"
#include "metaserver/cluster/options.h"

namespace kintsugi::metaserver {

/// An allocation is proven by its ticket and kept in memory only to protect its chunks from garbage collection and to
/// clean up. A metaserver that has restarted knows none of its predecessor's: it protects every stripe that it has not
/// allocated itself for `upload_ttl`, by when the tickets it did not sign have expired.
///
/// A stripe may be sealed only while protects() holds of it, and its chunks are garbage only when it does not: so no
/// chunk that may still be committed is ever deleted.
class Allocations {
 public:
  static constexpr size_t kMaxAllocations = 200'000;

  /// References outlive it. Its process starts now.
  Allocations(const MetaServerOptions& options, const rpc::Secret& secret, const runtime::Clock& clock)
      : options_(options), secret_(secret), clock_(clock), started_(clock.now()) {}

  /// Remembers an allocation and signs its ticket. kLimitExceeded. REQUIRES: `stripe` is greater than all before it.
  Result<std::string> add(UploadId upload, StripeId stripe, const std::string& policy,
                          const std::vector<ServerId>& servers);
  /// The allocation that a ticket proves. kPermissionDenied: forged, expired, or of another stripe or upload.
  Result<proto::StripeTicket> open(UploadId upload, StripeId stripe, std::string_view ticket) const;
  /// Puts one chunk on another server: signs a new ticket with the old one's expiry.
  std::string reallocate(proto::StripeTicket ticket, uint32_t index, ServerId server);

  /// When the stripe was allocated. Nothing: by the process before this one, or it is not remembered any more.
  std::optional<TimePoint> allocated_at(StripeId stripe) const;

  /// The stripe's chunks may belong to a file one day although no stripe record names them.
  bool protects(StripeId stripe) const;
  /// All tickets of the process before this one have expired.
  bool settled() const { return clock_.now() > settles_at(); }
  TimePoint settles_at() const { return started_ + options_.upload_ttl; }

  /// Forgets the upload's allocations and returns them: from now on they are not protected.
  using Servers = std::vector<ServerId>;  ///< index: chunk of the stripe
  std::vector<std::pair<StripeId, Servers>> take(UploadId upload);
  void forget_expired();

 private:
  struct Allocation {
    UploadId upload;
    Servers servers;
    TimePoint expiry;
  };
  const MetaServerOptions& options_;
  const rpc::Secret& secret_;
  const runtime::Clock& clock_;
  const TimePoint started_;
  /// This process allocated all ids from the first to the last; ids from before its start or of another history lie
  /// outside.
  StripeId first_, last_;
  std::map<StripeId, Allocation> allocations_;  ///< ids grow with time, so this is also the order of expiry
  std::map<UploadId, std::vector<StripeId>> stripes_of_;
};

}  // namespace kintsugi::metaserver
