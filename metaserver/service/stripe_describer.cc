#include "metaserver/service/stripe_describer.h"

namespace kintsugi::metaserver {
namespace {

/// Empty when it is dead or unknown.
std::string address_of(const ServerRegistry& servers, ServerId server) {
  const ServerRecord* record = servers.find(server);
  if (!record || record->liveness == proto::ServerState::DEAD) return {};
  return record->stored.address();
}

}  // namespace

proto::Stripe StripeDescriber::describe(StripeId id, const proto::StoredStripe& stored, uint32_t operations,
                                        Duration life) const {
  const ServerRegistry& servers = chunks_.servers();
  const WallTime expiry = clock_.wall_now() + life;
  proto::Stripe stripe;
  stripe.set_stripe_id(id.value);
  stripe.set_policy(stored.policy());
  stripe.set_length(stored.length());
  stripe.set_live_bytes(stored.live_bytes());
  for (uint32_t i = 0; i < static_cast<uint32_t>(stored.chunks_size()); ++i) {
    const proto::StoredChunk& chunk = stored.chunks(static_cast<int>(i));
    const ServerId server{chunk.server_id()};
    proto::ChunkPlacement* placement = stripe.add_chunks();
    placement->set_index(i);
    placement->set_server_id(server.value);
    placement->set_address(address_of(servers, server));
    if (server) {
      const proto::ServerName name = servers.names().of(server);
      placement->set_server_name(name.name());
      placement->set_server_number(name.number());
    }
    placement->set_length(chunk.length());
    placement->set_crc(chunk.crc());
    placement->set_available(chunks_.available({id, i}, chunk));
    // Also for a chunk that is nowhere: it stands for the right to have it rebuilt for a read.
    if (server || operations == rpc::kOpRead)
      placement->set_capability(rpc::make_capability(secret_, {id, i}, operations, expiry));
  }
  return stripe;
}

}  // namespace kintsugi::metaserver
