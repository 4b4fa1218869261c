/// Stripes as clients see them: where their chunks are, and the right to use them.
#pragma once

#include "common/base/ids.h"
#include "common/proto/meta.pb.h"
#include "common/proto/store.pb.h"
#include "common/rpc/secret.h"
#include "common/runtime/clock.h"
#include "metaserver/chunks/chunk_map.h"

namespace kintsugi::metaserver {

inline constexpr Duration kReadCapabilityLife = 1h;

class StripeDescriber {
 public:
  /// References outlive it. `secret` signs the capabilities.
  StripeDescriber(const rpc::Secret& secret, const ChunkMap& chunks, const runtime::Clock& clock)
      : secret_(secret), chunks_(chunks), clock_(clock) {}

  /// The stripe with capabilities for `operations` that live for `life`.
  proto::Stripe describe(StripeId id, const proto::StoredStripe& stored, uint32_t operations,
                         Duration life) const;

 private:
  const rpc::Secret& secret_;
  const ChunkMap& chunks_;
  const runtime::Clock& clock_;
};

}  // namespace kintsugi::metaserver
