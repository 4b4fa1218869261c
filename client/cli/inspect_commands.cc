// stripe show.

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

Status show_stripe(Session& session, BlockingClient& client, const uint64_t& stripe_id) {
  KINTSUGI_ASSIGN(const proto::ShowStripeResponse answer, client.run(client.async().show_stripe(stripe_id)));
  const proto::Stripe& stripe = answer.stripe();
  if (session.json) {
    Json document = to_json(stripe);
    document["state"] = answer.state();
    document["servers"] = Json::array();
    for (const proto::ServerState& server : answer.servers())
      document["servers"].push_back(to_json(server));
    print_json(document);
    return {};
  }
  fmt::print("stripe {}: {}, {} user bytes, {}\n", stripe.stripe_id(), stripe.policy(), stripe.length(),
             answer.state());
  if (stripe.chunks().empty()) fmt::print("  kept with the metadata, by the metaserver\n");
  for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
    fmt::print("  {:>2}  {:<20} {:<21} {:>10}  crc {:08x}  {}\n", chunk.index(),
               chunk.server_id() == 0 ? "-" : chunk.server_name(),
               chunk.address().empty() ? "-" : chunk.address(), chunk.length(), chunk.crc(),
               chunk.available() ? "available" : "missing");
  }
  return {};
}

}  // namespace

std::vector<Command> inspect_commands() {
  const auto stripe_id = std::make_shared<uint64_t>(0);
  return {{.name = "stripe",
           .help = "Look at a stripe",
           .commands = {{.name = "show",
                         .help = "Show where the chunks of a stripe are",
                         .options = {{"ID", stripe_id.get(), "As `kintsugi stat` shows it", kRequired}},
                         .prints_json = true,
                         .run = connected(stripe_id, show_stripe)}}},
          fsck_command(),
          diagnose_command(),
          doctor_command()};
}

}  // namespace kintsugi::cli
