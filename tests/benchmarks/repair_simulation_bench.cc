// Whole-server losses on the real metaserver, repair manager and chunkservers, on simulated machines whose
// links have a rate: the settings of figure 4.8 of the text (W), and the counterpart of what scripts/lab
// measures in network namespaces.
//
//   repair_simulation_bench [--servers 83] [--policy rs-12-4-64k] [--chunk-mib 8] [--rate-mbit 175] [--lost
//   10] [--seed 1]
//                           [--modes star,ppr,chain,joint] [--placement FILE]
//
// A chunk of 8 MiB in slices of 64 KiB on a link of 175 Mbit/s takes as long as one of 64 MiB in slices of
// 512 KiB on 1.4 Gbit/s. For each mode a server that holds about `lost` chunks is killed and everything it
// held is rebuilt. Prints one JSON document. Files hold zeros, which cost the simulated disks no memory; they
// are sent, multiplied and checked like all others.
//
// --placement: the stripes of another cluster, lost server included, so that both repair the very same thing.
// Lines "lost SERVER" and "stripe SERVER SERVER ..." (by chunk); servers are numbered by their ids' order.
//
// KINTSUGI_SIM_RECORDS=1 prints every repair, servers numbered alike.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/proto/names.h"
#include "erasure/policy.h"
#include "repair_manager/trees/tree_plan.h"
#include "tests/benchmarks/given_placement.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

struct Settings {
  size_t servers = 83;
  std::string policy = "rs-12-4-64k";
  uint64_t chunk_mib = 8;
  double rate_mbit = 175;
  uint64_t lost = 10;
  uint64_t seed = 1;
  std::string modes = "star,ppr,chain,joint";
  std::optional<Placement> placement;
  uint64_t chunk_bytes() const { return chunk_mib << 20; }
  double link_bytes_per_second() const { return rate_mbit * 1e6 / 8; }
};

class Zeros final : public client::Source {
 public:
  explicit Zeros(uint64_t bytes) : bytes_(bytes) {}
  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<const std::span<std::byte>> into) override {
    size_t done = 0;
    for (std::span<std::byte> part : into) {
      const size_t bytes = std::min<uint64_t>(part.size(), bytes_ - std::min(bytes_, offset + done));
      std::memset(part.data(), 0, bytes);
      done += bytes;
    }
    co_return done;
  }
  std::optional<uint64_t> size() const override { return bytes_; }

 private:
  uint64_t bytes_;
};

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--servers")
      settings.servers = std::stoul(value);
    else if (flag == "--policy")
      settings.policy = value;
    else if (flag == "--chunk-mib")
      settings.chunk_mib = std::stoul(value);
    else if (flag == "--rate-mbit")
      settings.rate_mbit = std::stod(value);
    else if (flag == "--lost")
      settings.lost = std::stoul(value);
    else if (flag == "--seed")
      settings.seed = std::stoul(value);
    else if (flag == "--modes")
      settings.modes = value;
    else if (flag == "--placement")
      settings.placement = read_placement(value);
    else
      throw std::invalid_argument("no such flag: " + flag);
  }
  if (settings.placement && settings.modes.find(',') != std::string::npos)
    throw std::invalid_argument("with --placement, one mode: its server can be lost once");
  return settings;
}

/// star: traditional repair; ppr: the text's m-PPR, unsliced trees scheduled greedily; chain: greedily, too;
/// joint: what the repair manager does by itself.
repair_manager::Options options_of(const std::string& mode, const Settings& settings) {
  repair_manager::Options options;
  const bool joint = mode == "joint";
  options.schedule = joint ? repair_manager::Schedule::kJoint : repair_manager::Schedule::kGreedy;
  options.shape = joint ? repair_manager::Shape::AUTO : proto::parse_shape(mode).value();
  if (mode == "ppr") options.slice_bytes = settings.chunk_bytes();
  options.link.bytes_per_second = settings.link_bytes_per_second();
  options.min_deadline = std::chrono::minutes(10);
  return options;
}

Status put_files(SimulatedCluster& cluster, size_t stripes, uint64_t stripe_bytes) {
  for (uint64_t i = 0; i < stripes; ++i) {
    Zeros zeros(stripe_bytes);
    const auto written = cluster.run(cluster.client().write(fmt::format("/file-{}", i), zeros));
    if (!written) return written.error();
  }
  return {};
}

Status fill(SimulatedCluster& cluster, const Settings& settings, const erasure::Policy& policy) {
  const uint64_t stripe_bytes = settings.chunk_bytes() * policy.k;
  if (settings.placement) {
    KINTSUGI_TRY(put_files(cluster, settings.placement->stripes.size(), stripe_bytes));
    return arrange_all(cluster, *settings.placement);
  }
  return put_files(cluster, std::max<uint64_t>(1, settings.lost * settings.servers / policy.chunks()),
                   stripe_bytes);
}

/// The server that is lost: the placement's, or the one with most nearly as many chunks as asked for.
size_t choose_victim(SimulatedCluster& cluster, const Settings& settings) {
  if (settings.placement) return by_id(cluster).at(settings.placement->lost);
  size_t victim = 0;
  uint64_t best = UINT64_MAX;
  for (size_t server : cluster.up()) {
    const uint64_t count = cluster.chunk_files(server).size();
    const uint64_t distance = count > settings.lost ? count - settings.lost : settings.lost - count;
    if (count > 0 && distance < best) {
      best = distance;
      victim = server;
    }
  }
  return victim;
}

struct Outcome {
  size_t lost = 0;
  double seconds = 0;  // from the first repair's begin to the last one's end
  uint64_t bytes = 0;
  size_t failed = 0;
};

void print_repairs(SimulatedCluster& cluster, const std::string& mode, double begin) {
  std::map<uint64_t, size_t> number;
  for (size_t server : by_id(cluster))
    number.emplace(cluster.server_id(server).value, number.size());
  for (const proto::RepairRecord& record : cluster.repair_history()) {
    std::string line =
        fmt::format("{} {:.3f} +{:.3f} s, {}, {} in slices of {}, to {}, from", mode,
                    static_cast<double>(record.started_ns()) * 1e-9 - begin, record.timing().seconds(),
                    proto::outcome_name(record.outcome()), proto::shape_name(record.shape()),
                    record.slice_bytes(), number[record.destination()]);
    for (uint64_t helper : record.helpers())
      line += fmt::format(" {}", number[helper]);
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

Result<Outcome> measure(SimulatedCluster& cluster, const Settings& settings, const std::string& mode) {
  cluster.set_repairs(options_of(mode, settings));
  cluster.crash_metaserver();
  cluster.restart_metaserver();
  for (size_t manager = 0; manager < cluster.repair_managers(); ++manager) {
    cluster.crash_repair_manager(manager, Crash::kKill);
    cluster.restart_repair_manager(manager);
  }
  KINTSUGI_TRY(cluster.wait_until_healthy());
  const size_t victim = choose_victim(cluster, settings);
  Outcome outcome{.lost = cluster.chunk_files(victim).size()};
  cluster.crash_chunkserver(victim, Crash::kKill);
  KINTSUGI_TRY(cluster.wait_until_dead(victim));
  KINTSUGI_TRY(cluster.wait_until_healthy(std::chrono::hours(2)));
  double begin = 1e300, end = 0;
  for (const proto::RepairRecord& record : cluster.repair_history()) {
    const double started = static_cast<double>(record.started_ns()) * 1e-9;
    begin = std::min(begin, started);
    end = std::max(end, started + record.timing().seconds());
    outcome.bytes += record.outcome() == proto::RepairRecord::DONE ? record.chunk_bytes() : 0;
    outcome.failed += record.outcome() == proto::RepairRecord::DONE ? 0 : 1;
  }
  if (std::getenv("KINTSUGI_SIM_RECORDS") != nullptr) print_repairs(cluster, mode, begin);
  outcome.seconds = end - begin;
  return outcome;
}

int run(const Settings& settings) {
  const auto rate = static_cast<uint64_t>(settings.link_bytes_per_second());
  const erasure::Policy policy = erasure::Policy::parse(settings.policy).value();
  SimulatedCluster cluster({.seed = settings.seed,
                            .chunkservers = settings.servers,
                            .racks = settings.servers,
                            .policy = settings.policy,
                            .chunk_bytes = settings.chunk_bytes(),
                            .link_bytes_per_second = std::vector<uint64_t>(settings.servers, rate)});
  Status status = cluster.start();
  for (size_t server = 0; server < settings.servers; ++server)  // what they were told stays
    cluster.network().set_link(SimulatedCluster::name(server), 0, 0);
  if (status.ok()) status = fill(cluster, settings, policy);
  if (!status.ok()) {
    std::fprintf(stderr, "repair_simulation_bench: %s\n", status.to_string().c_str());
    return 1;
  }
  for (size_t server = 0; server < settings.servers; ++server)
    cluster.network().set_link(SimulatedCluster::name(server), rate, rate);

  std::printf(
      "{\"servers\": %zu, \"policy\": \"%s\", \"chunk_bytes\": %llu, \"link_bytes_per_second\": %llu, "
      "\"results\": [",
      settings.servers, settings.policy.c_str(), static_cast<unsigned long long>(settings.chunk_bytes()),
      static_cast<unsigned long long>(rate));
  std::string separator;
  for (size_t at = 0; at < settings.modes.size();) {
    const size_t comma = std::min(settings.modes.find(',', at), settings.modes.size());
    const std::string mode = settings.modes.substr(at, comma - at);
    at = comma + 1;
    const Result<Outcome> outcome = measure(cluster, settings, mode);
    if (!outcome) {
      std::fprintf(stderr, "repair_simulation_bench: %s: %s\n", mode.c_str(),
                   outcome.error().to_string().c_str());
      return 1;
    }
    // k sums of a chunk cross the network for each repair; no repair is faster than its own link.
    const double unit = static_cast<double>(settings.chunk_bytes()) / settings.link_bytes_per_second();
    const double spread = static_cast<double>(policy.k) * static_cast<double>(outcome->bytes) /
                          (settings.link_bytes_per_second() * static_cast<double>(cluster.up().size()));
    const double bound = std::max(unit, spread);
    std::printf(
        "%s\n  {\"mode\": \"%s\", \"lost\": %zu, \"seconds\": %.4f, \"bound_seconds\": %.4f, \"ratio\": "
        "%.3f, "
        "\"c_over_b_seconds\": %.4f, \"failed_attempts\": %zu}",
        separator.c_str(), mode.c_str(), outcome->lost, outcome->seconds, bound, outcome->seconds / bound,
        unit, outcome->failed);
    std::fflush(stdout);
    separator = ",";
  }
  std::printf("\n]}\n");
  return 0;
}

}  // namespace
}  // namespace kintsugi::simulation

int main(int argc, char** argv) {
  try {
    return kintsugi::simulation::run(kintsugi::simulation::parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "repair_simulation_bench: %s\n", error.what());
    return 2;
  }
}
