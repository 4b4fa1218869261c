/// Servers of a stripe that is being written: they change as some fail, and with them the ticket that proves them.
#pragma once

#include <string>
#include <vector>

#include "client/lib/meta_link.h"
#include "common/base/ids.h"
#include "common/proto/meta.pb.h"
#include "common/runtime/context.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

/// Shared by the senders of the stripe's chunks.
class StripeAllocation {
 public:
  /// `meta` outlives this.
  StripeAllocation(const runtime::Runtime& runtime, MetaLink& meta, proto::AllocateStripeResponse response);

  const proto::Stripe& stripe() const { return stripe_; }
  const std::string& ticket() const { return ticket_; }
  const proto::ChunkPlacement& placement(uint32_t index) const {
    return stripe_.chunks(static_cast<int>(index));
  }
  ServerId server(uint32_t index) const { return ServerId{placement(index).server_id()}; }

  /// The chunk's server failed: it gets no other chunk of this stripe.
  void note_failure(uint32_t index) { failed_servers_.push_back(placement(index).server_id()); }
  const std::vector<uint64_t>& failed_servers() const { return failed_servers_; }

  /// Gives the chunk another server, one that did not fail for this stripe and is none of `avoided`. The metaserver's
  /// error when there is none.
  asio::awaitable<Status> replace(Context context, uint32_t index, std::vector<ServerId> avoided,
                                  Repeat repeat);

 private:
  MetaLink& meta_;
  const uint64_t upload_id_;
  proto::Stripe stripe_;
  std::string ticket_;
  std::vector<uint64_t> failed_servers_;
  /// Replacements take turns, because each needs the ticket of the one before.
  runtime::Semaphore replacing_;
};

}  // namespace kintsugi::client
