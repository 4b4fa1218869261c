/// A placement that a simulated cluster is to have: that of another cluster, so that both repair the very
/// same thing.
#pragma once

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {

inline constexpr Duration kArrangedLimit = std::chrono::minutes(1);

/// Lines "lost SERVER" and "stripe SERVER SERVER ..." (by chunk). Servers are numbered by their ids' order.
struct Placement {
  size_t lost = 0;
  std::vector<std::vector<size_t>> stripes;  // servers by chunk
};

/// Throws std::invalid_argument.
inline Placement read_placement(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument("cannot read " + path);
  Placement placement;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    std::vector<size_t> numbers;
    for (size_t number; words >> number;)
      numbers.push_back(number);
    if (what == "lost" && numbers.size() == 1)
      placement.lost = numbers[0];
    else if (what == "stripe" && !numbers.empty())
      placement.stripes.push_back(std::move(numbers));
    else
      throw std::invalid_argument(path + ": not a line of a placement: " + line);
  }
  return placement;
}

/// Numbers of the simulated servers, in the order of their ids.
inline std::vector<size_t> by_id(SimulatedCluster& cluster) {
  std::vector<size_t> servers;
  for (size_t server = 0; server < cluster.chunkservers(); ++server)
    servers.push_back(server);
  std::ranges::sort(servers, {}, [&](size_t server) { return cluster.server_id(server).value; });
  return servers;
}

/// Moves chunk after chunk of the stripe until they are on `wanted`.
inline Status arrange(SimulatedCluster& cluster, const proto::Stripe& stripe,
                      const std::vector<ServerId>& wanted, const std::vector<ServerId>& all) {
  std::vector<ServerId> now;
  for (const proto::ChunkPlacement& chunk : stripe.chunks())
    now.push_back(ServerId{chunk.server_id()});
  if (wanted.size() != now.size())
    return {Code::kInvalidArgument, fmt::format("{} servers for {} chunks", wanted.size(), now.size())};
  const auto in = [](const std::vector<ServerId>& servers, ServerId server) {
    return std::ranges::find(servers, server) != servers.end();
  };
  while (now != wanted) {
    // One whose place is free; or, when they only wait for each other, any of them to an unused server.
    std::optional<size_t> chunk;
    for (size_t i = 0; i < now.size() && !chunk; ++i)
      if (now[i] != wanted[i] && !in(now, wanted[i])) chunk = i;
    ServerId to;
    if (chunk) {
      to = wanted[*chunk];
    } else {
      chunk = std::ranges::mismatch(now, wanted).in1 - now.begin();
      const auto unused =
          std::ranges::find_if(all, [&](ServerId server) { return !in(now, server) && !in(wanted, server); });
      if (unused == all.end()) return {Code::kInvalidArgument, "a placement needs an unused server"};
      to = *unused;
    }
    proto::RunRepairRequest request;
    request.set_stripe_id(stripe.stripe_id());
    request.set_index(static_cast<uint32_t>(*chunk));
    request.set_destination(to.value);
    const auto run = cluster.run(cluster.client().run_repair(request));
    if (!run) return run.error();
    now[*chunk] = to;
  }
  return {};
}

/// Stripe i is that of "/file-i", a file of one stripe. Chunks are moved by requested repairs.
inline Status arrange_all(SimulatedCluster& cluster, const Placement& placement) {
  std::vector<ServerId> all;
  for (size_t server : by_id(cluster))
    all.push_back(cluster.server_id(server));
  for (size_t i = 0; i < placement.stripes.size(); ++i) {
    std::vector<ServerId> wanted;
    for (size_t server : placement.stripes[i])
      wanted.push_back(all.at(server));
    for (const proto::Stripe& stripe : cluster.stripes_of(fmt::format("/file-{}", i)))
      KINTSUGI_TRY(arrange(cluster, stripe, wanted, all));
  }
  // Old copies are deleted with the heartbeats that follow.
  return cluster.wait_until(
      [&]() -> Status {
        for (size_t server = 0; server < all.size(); ++server) {
          const auto here = [&](const auto& stripe) {
            return std::ranges::any_of(stripe,
                                       [&](size_t at) { return all[at] == cluster.server_id(server); });
          };
          if (cluster.chunk_files(server).size() !=
              static_cast<size_t>(std::ranges::count_if(placement.stripes, here)))
            return {Code::kUnavailable, cluster.name(server) + " holds other chunks than the placement's"};
        }
        return {};
      },
      kArrangedLimit);
}

}  // namespace kintsugi::simulation
