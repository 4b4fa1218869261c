#include "tests/simulation/cluster/simulated_cluster.h"

#include <algorithm>

#include <boost/asio/co_spawn.hpp>
#include <fmt/format.h>

#include "common/log/log.h"
#include "tests/simulation/cluster/chunkserver_program.h"
#include "tests/simulation/cluster/client_program.h"
#include "tests/simulation/cluster/metaserver_program.h"
#include "tests/simulation/cluster/monitor_program.h"
#include "tests/simulation/cluster/repair_manager_program.h"

namespace kintsugi::simulation {
namespace {

constexpr uint16_t kMetaserverPort = 7000;
constexpr uint16_t kChunkserverPort = 7001;
constexpr uint16_t kRepairManagerPort = 7002;
constexpr uint16_t kMonitorPort = 7003;
constexpr uint64_t kChunkserverBufferBytes = 16 << 20;
constexpr Duration kStartLimit = std::chrono::minutes(1);
constexpr Duration kCleanStopLimit = std::chrono::minutes(1);
constexpr Duration kStopLimit = std::chrono::minutes(10);

rpc::Secret make_secret(uint64_t seed) {
  std::array<std::byte, 32> key;
  SimRandom(seed).fill(key);
  return rpc::Secret(key);
}

bool power_loss(Crash how) {
  return how == Crash::kPower;
}

}  // namespace

SimulatedCluster::SimulatedCluster(ClusterOptions options)
    : options_(std::move(options)),
      repairs_(options_.repairs),
      simulation_(options_.seed),
      replay_(simulation_),
      secret_(make_secret(simulation_.seed_for("secret"))),
      graveyard_(simulation_),
      metaserver_(std::make_unique<Machine>(simulation_, "metaserver")) {
  for (size_t server = 0; server < options_.chunkservers; ++server)
    servers_.push_back(std::make_unique<Machine>(simulation_, name(server)));
  for (size_t manager = 0; manager < options_.repair_managers; ++manager)
    managers_.push_back(std::make_unique<Machine>(simulation_, repair_manager_name(manager)));
  for (size_t client = 0; client < options_.clients; ++client)
    clients_.push_back(std::make_unique<Machine>(simulation_, client_name(client)));
  if (options_.monitor) monitor_ = std::make_unique<Machine>(simulation_, "monitor");
}

SimulatedCluster::~SimulatedCluster() {
  for (Machine* machine : machines()) {
    machine->node.continue_process();
    machine->node.faults().clear();
  }
  // The clients first: their operations end before what they talk to.
  for (auto& client : clients_)
    graveyard_.bury(std::move(client->program));
  for (auto& server : servers_)
    graveyard_.bury(std::move(server->program));
  for (auto& manager : managers_)
    graveyard_.bury(std::move(manager->program));
  graveyard_.bury(std::move(metaserver_->program));
  if (monitor_) graveyard_.bury(std::move(monitor_->program));
  bool stopped = false;
  try {
    const auto quiet = [this] { return graveyard_.quiet(); };
    stopped = simulation_.run_until(quiet, kCleanStopLimit);
    if (!stopped) {
      // A disk that hangs keeps a clean stop waiting: pull the plug.
      for (Machine* machine : machines())
        machine->node.crash();
      stopped = simulation_.run_until(quiet, kStopLimit);
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << "while stopping: " << error.what();
  }
  if (!stopped) {
    // Destroying what still runs would only hide the reason.
    std::fprintf(stderr, "some program of the cluster does not stop. Replay with %s\n",
                 simulation_.replay_hint().c_str());
    std::abort();
  }
}

std::vector<Machine*> SimulatedCluster::machines() const {
  std::vector<Machine*> all{metaserver_.get()};
  for (const auto* group : {&clients_, &managers_, &servers_})
    for (const auto& machine : *group)
      all.push_back(machine.get());
  if (monitor_) all.push_back(monitor_.get());
  return all;
}

// ---- programs --------------------------------------------------------------------------------------------

std::unique_ptr<Program> SimulatedCluster::make_metaserver() {
  metaserver::MetaDaemonOptions options;
  options.metaserver.listen = {"metaserver", kMetaserverPort};
  options.metaserver.default_policy = options_.policy;
  options.metaserver.chunk_bytes = options_.chunk_bytes;
  options.metaserver.inline_bytes = options_.inline_bytes;
  options.metaserver.heartbeat_interval = options_.heartbeat_interval;
  options.metaserver.suspect_after = options_.suspect_after;
  options.metaserver.dead_after = options_.dead_after;
  options.metaserver.upload_ttl = options_.upload_ttl;
  options.metaserver.upload_idle = std::min(options.metaserver.upload_idle, options_.upload_ttl);
  options.repairs = {.delay = options_.repair_delay, .max_per_server = repairs_.max_per_server};
  return std::make_unique<MetaserverProgram>(metaserver_->node.runtime(), std::move(options), secret_,
                                             metaserver_disk_,
                                             simulation_.seed_for("recorder of metaserver"));
}

std::unique_ptr<Program> SimulatedCluster::make_chunkserver(size_t server) {
  chunkserver::Options options;
  options.listen = {name(server), kChunkserverPort};
  options.name = name(server);
  options.metaserver = {"metaserver", kMetaserverPort};
  options.rack = fmt::format("rack-{}", server % options_.racks);
  for (size_t number = 0; number < options_.disks; ++number)
    options.disks.push_back(fmt::format("/disk-{}", number));
  options.buffer_memory_bytes = kChunkserverBufferBytes;
  options.cache_memory_bytes = options_.cache_bytes;
  if (server < options_.link_bytes_per_second.size()) {
    const uint64_t rate = options_.link_bytes_per_second[server];
    network().set_link(name(server), rate, rate);
    options.link_up_bytes_per_second = options.link_down_bytes_per_second = rate;
  }
  options.repair_bytes_per_second = options_.repair_bytes_per_second;
  // Small, so that segments fill up and are cleaned within a test.
  options.segments.segment_bytes = 4 << 20;
  options.segments.group_bytes = 1 << 20;
  options.segments.allocation_step_bytes = 1 << 20;
  options.segments.clean_interval = 5s;
  return std::make_unique<ChunkserverProgram>(servers_[server]->node.runtime(), std::move(options), secret_);
}

std::unique_ptr<Program> SimulatedCluster::make_repair_manager(size_t manager) {
  repair_manager::RepairDaemonOptions options;
  options.listen = {repair_manager_name(manager), kRepairManagerPort};
  options.metaserver = {"metaserver", kMetaserverPort};
  options.repairs = repairs_;
  return std::make_unique<RepairManagerProgram>(
      managers_[manager]->node.runtime(), std::move(options), secret_,
      simulation_.seed_for(fmt::format("recorder of repair manager {}", manager)));
}

std::unique_ptr<Program> SimulatedCluster::make_monitor() {
  monitoring::MonitorOptions options;
  options.listen = {"monitor", kMonitorPort};
  options.metaserver = {"metaserver", kMetaserverPort};
  options.data_dir = "/monitor";
  options.history_bytes = 1 << 20;
  options.snapshot_bytes = 1 << 20;
  return std::make_unique<MonitorProgram>(
      monitor_->node.runtime(), std::move(options), secret_, simulation_.seed_for("recorder of monitor"),
      options_.detectors ? options_.detectors() : std::vector<std::unique_ptr<monitoring::Detector>>());
}

void SimulatedCluster::start_client(size_t client) {
  client::Options options;
  options.metaserver = {"metaserver", kMetaserverPort};
  options.memory_bytes = client::kMinMemoryBytes;
  Machine& machine = *clients_[client];
  begin(machine, std::make_unique<ClientProgram>(machine.node.runtime(), std::move(options), secret_,
                                                 simulation_.seed_for("recorder of " + client_name(client)),
                                                 client_name(client)));
}

ClientProgram& SimulatedCluster::client_program(size_t client) {
  KINTSUGI_ASSERT(clients_[client]->program);  // start() first
  return static_cast<ClientProgram&>(*clients_[client]->program);
}

const monitoring::Monitor& SimulatedCluster::monitor() const {
  KINTSUGI_ASSERT(monitor_ && monitor_->program);
  return static_cast<const MonitorProgram&>(*monitor_->program).monitor();
}

std::vector<proto::Verdict> SimulatedCluster::verdicts() const {
  return monitor().alarms().standing();
}

client::Client& SimulatedCluster::client() {
  return client_program().client();
}

void SimulatedCluster::begin(Machine& machine, std::unique_ptr<Program> program) {
  machine.program = std::move(program);
  if (options_.monitor && &machine != monitor_.get())
    machine.program->report_from(machine.node, secret_, {"metaserver", kMetaserverPort});
  auto start = [](Program& started, std::string who) -> asio::awaitable<void> {
    const Status status = co_await started.start();
    if (!status.ok()) log::error("{} did not start: {}", who, status.to_string());
  };
  asio::co_spawn(simulation_.executor(), start(*machine.program, machine.node.name()),
                 [](std::exception_ptr error) {
                   if (error) std::rethrow_exception(error);
                 });
}

Status SimulatedCluster::start() {
  begin(*metaserver_, make_metaserver());
  const size_t first = servers_.size() - options_.late_servers;
  for (size_t server = 0; server < first; ++server)
    begin(*servers_[server], make_chunkserver(server));
  for (size_t server = first; server < servers_.size(); ++server)
    servers_[server]->node.crash();
  for (size_t manager = 0; manager < managers_.size(); ++manager)
    begin(*managers_[manager], make_repair_manager(manager));
  for (size_t client = 0; client < clients_.size(); ++client)
    start_client(client);
  if (monitor_) begin(*monitor_, make_monitor());
  for (size_t server = 0; server < first; ++server)
    KINTSUGI_TRY(wait_until_alive(server, kStartLimit));
  if (managers_.empty()) return {};
  return wait_until([this] { return repairs_begin(); }, kStartLimit);
}

Status SimulatedCluster::repairs_begin() {
  for (size_t manager = 0; manager < managers_.size(); ++manager) {
    const auto* program = static_cast<const RepairManagerProgram*>(managers_[manager]->program.get());
    if (!program->has_shards())
      return {Code::kUnavailable, repair_manager_name(manager) + " has no shards yet"};
  }
  return {};
}

// ---- faults ----------------------------------------------------------------------------------------------

void SimulatedCluster::crash_chunkserver(size_t server, Crash how) {
  Machine& machine = *servers_[server];
  machine.node.crash(power_loss(how));
  graveyard_.bury(std::move(machine.program));
}

void SimulatedCluster::restart_chunkserver(size_t server) {
  servers_[server]->node.restart();
  begin(*servers_[server], make_chunkserver(server));
}

void SimulatedCluster::crash_metaserver(Crash how) {
  metaserver_->node.crash(power_loss(how));
  // Batches that were on their way to the disk may have made it, in order.
  metaserver_disk_.crash(random_below(metaserver_disk_.unsynced_batches() + 1));
  graveyard_.bury(std::move(metaserver_->program));
}

void SimulatedCluster::crash_monitor(Crash how) {
  monitor_->node.crash(power_loss(how));
  graveyard_.bury(std::move(monitor_->program));
}

void SimulatedCluster::restart_monitor() {
  monitor_->node.restart();
  begin(*monitor_, make_monitor());
}

void SimulatedCluster::restart_metaserver() {
  metaserver_->node.restart();
  begin(*metaserver_, make_metaserver());
}

void SimulatedCluster::crash_repair_manager(size_t manager, Crash how) {
  Machine& machine = *managers_[manager];
  machine.node.crash(power_loss(how));
  graveyard_.bury(std::move(machine.program));
}

void SimulatedCluster::restart_repair_manager(size_t manager) {
  managers_[manager]->node.restart();
  begin(*managers_[manager], make_repair_manager(manager));
}

std::vector<proto::RepairRecord> SimulatedCluster::history_of_repair_manager(size_t manager) {
  auto* program = static_cast<RepairManagerProgram*>(managers_[manager]->program.get());
  return program ? program->repairs().history(1000) : std::vector<proto::RepairRecord>{};
}

proto::RepairStatusResponse SimulatedCluster::status_of_repair_manager(size_t manager) {
  auto* program = static_cast<RepairManagerProgram*>(managers_[manager]->program.get());
  return program ? program->repairs().status() : proto::RepairStatusResponse{};
}

repair_manager::Compactor* SimulatedCluster::compactor_of(size_t manager) {
  auto* program = static_cast<RepairManagerProgram*>(managers_[manager]->program.get());
  return program ? &program->compactor() : nullptr;
}

void SimulatedCluster::crash_client() {
  Machine& machine = *clients_.front();
  machine.node.crash(true);
  graveyard_.bury(std::move(machine.program));
  machine.node.restart();
  start_client(0);
}

void SimulatedCluster::crash_all(Crash how) {
  for (const size_t server : up())
    crash_chunkserver(server, how);
  if (metaserver_->node.running()) crash_metaserver(how);
  for (size_t manager = 0; manager < managers_.size(); ++manager)
    if (repair_manager_running(manager)) crash_repair_manager(manager, how);
  crash_client();
}

void SimulatedCluster::heal() {
  for (Machine* machine : machines()) {
    machine->node.continue_process();
    machine->node.faults().clear();
    machine->node.disk().set_slow(1);
    network().set_extra_latency(machine->node.name(), {});
    network().rejoin(machine->node.name());
  }
  network().heal();
}

void SimulatedCluster::restart_all() {
  if (!metaserver_->node.running()) restart_metaserver();
  for (size_t server = 0; server < servers_.size(); ++server)
    if (!running(server)) restart_chunkserver(server);
  for (size_t manager = 0; manager < managers_.size(); ++manager)
    if (!repair_manager_running(manager)) restart_repair_manager(manager);
}

chunkserver::ChunkStore* SimulatedCluster::store(size_t server) {
  Machine& machine = *servers_[server];
  auto* program = static_cast<ChunkserverProgram*>(machine.program.get());
  return machine.node.running() && program && program->started() ? &program->store() : nullptr;
}

std::vector<size_t> SimulatedCluster::up() const {
  std::vector<size_t> found;
  for (size_t server = 0; server < servers_.size(); ++server)
    if (running(server)) found.push_back(server);
  return found;
}

std::vector<size_t> SimulatedCluster::pick(size_t count) {
  std::vector<size_t> from = up();
  KINTSUGI_ASSERT(count <= from.size());
  for (size_t i = 0; i < count; ++i)
    std::swap(from[i], from[i + random_below(from.size() - i)]);
  from.resize(count);
  return from;
}

Duration SimulatedCluster::random_time(Duration least, Duration most) {
  return least +
         Duration(static_cast<int64_t>(random_below(static_cast<uint64_t>((most - least).count()) + 1)));
}

std::map<std::string, const sight::Recorder*> SimulatedCluster::recorders() const {
  std::map<std::string, const sight::Recorder*> found;
  const auto add = [&](const std::string& name, const Machine& machine) {
    if (machine.program != nullptr) found.emplace(name, &machine.program->recorder());
  };
  add("metaserver", *metaserver_);
  for (size_t i = 0; i < clients_.size(); ++i)
    add(client_name(i), *clients_[i]);
  for (size_t i = 0; i < servers_.size(); ++i)
    add(name(i), *servers_[i]);
  for (size_t i = 0; i < managers_.size(); ++i)
    add(repair_manager_name(i), *managers_[i]);
  return found;
}

}  // namespace kintsugi::simulation
