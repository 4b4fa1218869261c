#include "metaserver/chunks/sealed_stripe.h"

#include <fmt/format.h>

#include "erasure/code.h"
#include "erasure/layout.h"
#include "erasure/policy.h"

namespace kintsugi::metaserver {

Result<proto::StoredStripe> check_sealed(const proto::Stripe& stripe, const proto::StripeTicket& ticket) {
  const auto refuse = [&](std::string_view why) {
    return Status{Code::kInvalidArgument, fmt::format("stripe {}: {}", stripe.stripe_id(), why)};
  };
  KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(ticket.policy()));
  if (stripe.stripe_id() != ticket.stripe_id()) return refuse("its ticket is of another stripe");
  if (stripe.policy() != ticket.policy()) return refuse("was allocated with policy " + ticket.policy());
  const uint64_t limit = erasure::max_stripe_bytes(policy, ticket.max_chunk_bytes());
  if (stripe.length() == 0 || stripe.length() > limit) {
    return refuse(fmt::format("holds {} bytes: must be 1 to {}", stripe.length(), limit));
  }
  if (stripe.chunks_size() != static_cast<int>(policy.chunks()) ||
      ticket.servers_size() != stripe.chunks_size()) {
    return refuse(fmt::format("has {} chunks, its policy {}", stripe.chunks_size(), policy.chunks()));
  }
  proto::StoredStripe stored;
  stored.set_policy(stripe.policy());
  stored.set_length(stripe.length());
  std::vector<uint32_t> missing;
  for (uint32_t i = 0; i < policy.chunks(); ++i) {
    const proto::ChunkPlacement& chunk = stripe.chunks(static_cast<int>(i));
    const uint64_t length = erasure::chunk_length(policy, stripe.length(), i);
    if (chunk.index() != i) return refuse(fmt::format("chunk {} stands at place {}", chunk.index(), i));
    if (chunk.length() != length) {
      return refuse(fmt::format("chunk {} has {} bytes, must have {}", i, chunk.length(), length));
    }
    if (chunk.server_id() != 0 && chunk.server_id() != ticket.servers(static_cast<int>(i))) {
      return refuse(fmt::format("chunk {} is on a server where it was not allocated", i));
    }
    if (chunk.server_id() == 0 && length > 0) missing.push_back(i);
    proto::StoredChunk* kept = stored.add_chunks();
    kept->set_server_id(chunk.server_id());
    kept->set_length(length);
    kept->set_crc(chunk.crc());
  }
  if (!erasure::Code::get(policy)->may_lack(missing)) {
    return refuse(
        fmt::format("{} chunks are missing (the first is {}), with policy {} the next loss might be "
                    "one too many",
                    missing.size(), missing.front(), policy.name()));
  }
  return stored;
}

}  // namespace kintsugi::metaserver
