// The end of a round: all faults end, and the cluster must become well again.
#include <algorithm>

#include <fmt/format.h>

#include "tests/simulation/swarm/swarm.h"

namespace kintsugi::simulation {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(250);
/// How long all must have been well: losses are learned from heartbeats and reports.
constexpr Duration kSteady = std::chrono::seconds(3);

}  // namespace

void Swarm::mend_network() {
  SimNetwork& network = cluster_.network();
  network.heal();
  network.set_extra_latency("metaserver", {});
  for (size_t client = 0; client < cluster_.clients(); ++client)
    network.set_extra_latency(SimulatedCluster::client_name(client), {});
  for (size_t server = 0; server < cluster_.chunkservers(); ++server) {
    network.set_extra_latency(SimulatedCluster::name(server), {});
    network.set_link(SimulatedCluster::name(server), 0, 0);
  }
}

void Swarm::end_faults() {
  mend_network();
  cluster_.network().set_loss(0);
  cluster_.network().set_stalls(0);
  cluster_.network().set_flips(0);
  cluster_.network().set_resets(0);
  cluster_.set_metaserver_wall_offset({});
  for (size_t server = 0; server < cluster_.chunkservers(); ++server) {
    cluster_.set_wall_drift(server, 0);
    cluster_.set_wall_offset(server, {});
    SimDisk& disk = cluster_.disk(server);
    disk.set_slow(1);
    disk.set_capacity("/", SimDisk::kDefaultCapacity);
    disk.forget_faults();
    cluster_.node(server).faults().clear();
  }
  std::set<size_t> to_start_again = disks_.end(schedule_.failed_disks_stay);
  // One whose start failed, on a full disk say, is started again as whoever supervises daemons would.
  for (const size_t server : cluster_.up())
    if (cluster_.store(server) == nullptr) to_start_again.insert(server);
  // What hangs already hangs on.
  for (const size_t server : to_start_again)
    if (cluster_.running(server)) cluster_.crash_chunkserver(server, Crash::kKill);
  if (!cluster_.metaserver_running()) cluster_.restart_metaserver();
  for (size_t server = 0; server < cluster_.chunkservers(); ++server)
    if (!cluster_.running(server) && !absent_.contains(server)) restart_server(server);
  for (size_t manager = 0; manager < schedule_.cluster.repair_managers; ++manager)
    if (!cluster_.repair_manager_running(manager)) cluster_.restart_repair_manager(manager);
}

Status Swarm::well() {
  for (size_t server = 0; server < cluster_.chunkservers(); ++server)
    if (!absent_.contains(server) && cluster_.store(server) == nullptr)
      return {Code::kUnavailable, SimulatedCluster::name(server) + " does not come up"};
  return inspector_.whole();
}

Finding Swarm::wait_until(const std::function<Status()>& ok, Violation otherwise) {
  const bool readers_may_be_wrong =
      std::ranges::any_of(schedule_.steps, [](const Step& step) { return step.act == Act::kFlipsInFlight; });
  const Duration limit = kRecoveryLimit + (readers_may_be_wrong ? kWrongComplaint : Duration::zero());
  const TimePoint end = cluster_.simulation().now() + limit;
  std::optional<TimePoint> since;
  while (true) {
    if (Finding finding = pass(kLook)) return finding;
    const Status status = ok();
    const TimePoint now = cluster_.simulation().now();
    if (!status.ok()) since.reset();
    if (status.ok() && !since) since = now;
    if (since && now - *since >= kSteady) return {};
    if (!status.ok() && now >= end)
      return {otherwise, fmt::format("after {} s without faults: {}", to_seconds(limit), status.message())};
  }
}

Finding Swarm::settle() {
  const TimePoint began = cluster_.simulation().now();
  end_faults();
  // A drain that was asked for must not come after it is taken back below. Writes may wait for servers that are drained.
  const auto asked = [this] { return *asking_ == 0; };
  if (!cluster_.simulation().run_until(asked, SimulatedCluster::kOperationLimit))
    return {Violation::kNoEnd, "a drain does not end although all faults are over"};
  for (const auto& [server, id] : std::exchange(drained_, {}))
    (void)cluster_.run(cluster_.client().drain_server(id.value, false));
  const auto all_ended = [this] { return under_way() == 0; };
  if (!cluster_.simulation().run_until(all_ended, SimulatedCluster::kOperationLimit))
    return {Violation::kNoEnd, "an operation does not end although all faults are over"};
  if (Finding finding = wait_until([this] { return well(); }, Violation::kNotHealed)) return finding;
  if (Finding finding = files_.read_everything()) return finding;
  if (Finding finding = appenders_.read_everything()) return finding;
  if (Finding finding = trees_.look_at_everything()) return finding;
  // Every chunk is read on its server, parity too; what is damaged is repaired when the check returns.
  const auto deep = cluster_.run(cluster_.client().deep_check("/"));
  if (!deep) return {Violation::kUnreadable, "fsck --deep: " + deep.error().to_string()};
  if (!deep->whole())
    return {Violation::kNotHealed,
            fmt::format("fsck --deep leaves {} of {} damaged chunks, and {} servers unread",
                        deep->chunks_damaged() - deep->count(client::Mending::kRepaired),
                        deep->chunks_damaged(), deep->unread.size())};
  if (Finding finding = pass({})) return finding;
  inspector_.nothing_is_damaged();
  if (Finding finding = wait_until([this] { return well(); }, Violation::kNotHealed)) return finding;
  const double took = to_seconds(cluster_.simulation().now() - began);
  coverage_.longest_recovery = std::max(coverage_.longest_recovery, took);
  if (only_clients_fail(schedule_))
    if (Finding finding = inspector_.spread()) return finding;
  const auto fsck = cluster_.fsck();
  if (!fsck) return {Violation::kUnreadable, "fsck: " + fsck.error().to_string()};
  if (fsck->missing_chunks() + fsck->degraded_stripes() + fsck->lost_stripes() > 0)
    return {Violation::kNotHealed, "everything is in its place, but fsck says otherwise"};
  // What snapshots keep belongs to no file: it is let go of before all that is kept for nobody must be gone.
  if (Finding finding = trees_.let_go()) return finding;
  if (!rolled_back_)
    if (Finding finding = wait_until([this] { return inspector_.cleared(); }, Violation::kSpaceLeaked))
      return finding;
  // Uploads that nobody will finish expire; what is kept for nobody is seen when servers report all they have.
  cluster_.run_for(schedule_.cluster.upload_ttl + std::chrono::seconds(10));
  // A metaserver that never failed needs no reports to know what clients left behind.
  if (only_clients_fail(schedule_))
    if (Finding finding = wait_until([this] { return inspector_.tidy(); }, Violation::kSpaceLeaked))
      return finding;
  for (size_t server = 0; server < cluster_.chunkservers(); ++server) {
    if (absent_.contains(server)) continue;
    cluster_.crash_chunkserver(server, Crash::kKill);
    restart_server(server);
  }
  if (rolled_back_) return wait_until([this] { return well(); }, Violation::kNotHealed);
  return wait_until(
      [this] {
        const Status status = well();
        return status.ok() ? inspector_.tidy() : status;
      },
      Violation::kSpaceLeaked);
}

}  // namespace kintsugi::simulation
