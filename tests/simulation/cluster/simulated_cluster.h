/// A whole Kintsugi cluster in one thread: the real metaserver, the real repair managers, the real chunkservers
/// and the real client, on simulated machines. A scenario reads like this:
///
///     TEST(Loss, AFileOutlivesItsServers) {
///       for (uint64_t seed : seeds({1, 2, 3})) {
///         SimulatedCluster cluster({.seed = seed});
///         KINTSUGI_ASSERT_OK(cluster.start());
///         KINTSUGI_EXPECT_OK(cluster.put("/file", 3'000'000));      // random bytes, remembered
///         cluster.crash_chunkserver(3, Crash::kKill);               // takes no time
///         KINTSUGI_EXPECT_OK(cluster.check_contents());             // reads around the loss
///         KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());         // it is repaired
///       }
///     }
///
/// Time is virtual: it passes only inside calls that wait (put, get, run_for, wait_until_..., start), and
/// there as fast as the machine can compute. Nothing else happens meanwhile in the test's own code, so an
/// instant "in the middle of a put" is made with start_put, run_for, a fault, and finish.
///
/// A failed expectation prints the seed and the command that replays the test; KINTSUGI_SIM_LOG=1 prints the
/// logs of all daemons with virtual time. Two runs with one seed are the same, event by event (event_hash).
///
/// Servers are numbered from 0. Their machines are called "server-0", ..., those of the others "metaserver",
/// "client" (and "client-1", ...), "repair-0", ... and "monitor": with these names everything in network() can be used too.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chunkserver/store/chunk_store.h"
#include "client/lib/client.h"
#include "common/base/hash.h"
#include "common/proto/sight.pb.h"
#include "repair_manager/compaction/compactor.h"
#include "repair_manager/manager/repair_manager.h"
#include "tests/simulation/cluster/oracle.h"
#include "tests/simulation/cluster/program.h"
#include "tests/simulation/cluster/replay.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"
#include "tests/simulation/store/memory_store.h"

namespace kintsugi::monitoring {
class Detector;
class Monitor;
}  // namespace kintsugi::monitoring

namespace kintsugi::simulation {

inline constexpr uint64_t kRoot = 1;  ///< inode of "/"
inline constexpr uint64_t kWholeStripe =
    6'291'456;  ///< of rs-6-3-1024k: each of its chunks is a file of its own

struct ClusterOptions {
  uint64_t seed = 1;
  size_t chunkservers = 10;
  size_t racks = 5;            ///< server i stands in rack i % racks
  size_t disks = 1;            ///< of each server: "/disk-0", ...
  size_t late_servers = 0;     ///< how many of the chunkservers, the last ones, are not started by start()
  size_t repair_managers = 1;  ///< none: nothing is repaired
  size_t clients = 1;          ///< a path is always used by the same one
  bool monitor = false;        ///< runs one, and all others report to it
  /// Made anew for each start of the monitor. Empty: those of a real one.
  std::function<std::vector<std::unique_ptr<monitoring::Detector>>()> detectors = {};
  /// Small cells and chunks, so that a file of some MiB has several stripes with chunks of both kinds: those
  /// of 1 MiB are files of their own, smaller ones share segments.
  std::string policy = "rs-6-3-64k";
  uint64_t chunk_bytes = uint64_t{1} << 20;
  uint64_t inline_bytes = uint64_t{1} << 30;  ///< of small writes that the metaserver keeps
  Duration repair_delay{};
  /// Of each repair manager, but for `delay`; the metaserver divides `max_per_server` among them.
  repair_manager::Options repairs;
  /// Rates of server i, each way: what its network card does, and what it is told. Servers beyond the end are fast and
  /// are told nothing.
  std::vector<uint64_t> link_bytes_per_second = {};
  uint64_t repair_bytes_per_second = 0;  ///< setting repair.bandwidth of each chunkserver; 0: none
  Duration heartbeat_interval = 1s;
  Duration suspect_after = 3s;
  Duration dead_after = 10s;
  Duration upload_ttl = 1h;
  uint64_t cache_bytes = 64 << 20;  ///< of each chunkserver, for chunks that are read often
};

enum class Crash {
  kKill,   ///< kill -9: the kernel closes connections, and what was written stays
  kPower,  ///< no word to others, and what was not synced may be lost or torn
};

class ClientProgram;

class SimulatedCluster {
 public:
  static constexpr Duration kOperationLimit = std::chrono::minutes(10);
  static constexpr Duration kHealthyLimit = std::chrono::minutes(10);

  explicit SimulatedCluster(ClusterOptions options);
  /// Stops everything that runs.
  ~SimulatedCluster();
  SimulatedCluster(const SimulatedCluster&) = delete;

  /// Starts all daemons; returns when all servers are alive for the metaserver and it has all repair managers.
  Status start();

  const ClusterOptions& options() const { return options_; }
  Simulation& simulation() { return simulation_; }
  SimNetwork& network() { return simulation_.network(); }
  SimRandom& random() { return simulation_.random(); }
  size_t chunkservers() const { return servers_.size(); }
  Duration elapsed() { return simulation_.clock().elapsed(); }
  uint64_t event_hash() const { return simulation_.event_hash(); }

  void run_for(Duration time) { simulation_.run_for(time); }
  /// A random time in [least, most].
  Duration random_time(Duration least, Duration most);
  uint64_t random_below(uint64_t bound) { return random().next() % bound; }

  // ---- files: what is put is remembered, and every read is compared with it
  /// New random bytes at `path`, replacing what is there.
  Status put(const std::string& path, uint64_t size) { return finish(start_put(path, size)); }
  Status remove(const std::string& path) { return finish(start_remove(path)); }
  /// kCorrupt when the bytes are not those of an acknowledged put (or of one whose fate is unknown).
  Status check(const std::string& path);
  /// Checks all files ever put; the first error, after adding one failure a wrong file to the test.
  Status check_contents();
  Result<std::vector<std::byte>> get(const std::string& path);
  /// Reads a range of a file whose content is certain, and compares it.
  Status check_range(const std::string& path, uint64_t offset, uint64_t length);
  /// Every path ever put.
  std::vector<std::string> paths() const { return oracle_.paths(); }
  /// The path certainly holds a file.
  bool exists(const std::string& path) const { return oracle_.content(path).has_value(); }
  /// Returns true if the state of the path follows from acknowledged operations: none failed or is under way.
  bool certain(const std::string& path) const { return oracle_.certain(path); }

  /// An operation under way. Not more than one at a time on a path.
  struct Operation {
    std::string path;
    bool done = false;
    Status status;
    Duration took{};
  };
  using OperationPtr = std::shared_ptr<const Operation>;
  OperationPtr start_put(const std::string& path, uint64_t size);
  OperationPtr start_remove(const std::string& path);
  /// A read that is checked when it ends.
  OperationPtr start_check(const std::string& path);
  /// A deep check of all files in the background: empty until it has ended.
  using DeepCheckPtr = std::shared_ptr<const std::optional<Result<client::DeepCheckReport>>>;
  DeepCheckPtr start_deep_check(client::DeepCheckOptions options = {});
  /// Lets time pass until it is done; kDeadlineExceeded when kOperationLimit passes before.
  Status finish(const OperationPtr& operation);

  /// The client itself, for calls like run(client().list_servers()); the first one of several.
  client::Client& client();
  template <class T>
  T run(asio::awaitable<T> call) {
    return simulation_.run(std::move(call), kOperationLimit);
  }

  // ---- faults: none takes time
  void crash_chunkserver(size_t server, Crash how);
  void restart_chunkserver(size_t server);  ///< starts in the background
  void crash_metaserver(Crash how = Crash::kPower);
  void restart_metaserver();
  /// What the metaserver's store holds durably, as an operator would copy its files.
  MemoryStoreDisk::Copy copy_metadata() const { return metaserver_disk_.copy(); }
  /// The store's durable content, as it is now: every write that was acknowledged is in it.
  const MemoryStoreDisk::Map& durable_metadata() const { return metaserver_disk_.durable(); }
  /// Puts an older (or newer) copy in place of the store. REQUIRES: the metaserver does not run.
  void put_back_metadata(MemoryStoreDisk::Copy copy) { metaserver_disk_.put_back(std::move(copy)); }
  /// From the next start of the metaserver and of each repair manager on.
  void set_repairs(repair_manager::Options repairs) { repairs_ = repairs; }
  void crash_monitor(Crash how = Crash::kKill);
  void restart_monitor();
  size_t repair_managers() const { return managers_.size(); }
  void crash_repair_manager(size_t manager, Crash how);
  void restart_repair_manager(size_t manager);
  bool repair_manager_running(size_t manager) const { return managers_[manager]->node.running(); }
  /// Ended attempts of that manager since its start, newest first; empty when it does not run.
  std::vector<proto::RepairRecord> history_of_repair_manager(size_t manager);
  proto::RepairStatusResponse status_of_repair_manager(size_t manager);
  /// Null while that manager does not run.
  repair_manager::Compactor* compactor_of(size_t manager);
  /// Operations of the first client fail or never end. A new one is there at once.
  void crash_client();
  void crash_all(Crash how);
  void restart_all();  ///< what is not running
  /// Ends every fault point, stop, hang of a disk and cut; what was crashed stays so.
  void heal();

  bool running(size_t server) const { return servers_[server]->node.running(); }
  bool metaserver_running() const { return metaserver_->node.running(); }
  /// Servers that run, by number.
  std::vector<size_t> up() const;
  /// `count` different servers that run.
  std::vector<size_t> pick(size_t count);

  void cut(size_t server, const std::string& machine) { network().cut(name(server), machine); }
  void mend(size_t server, const std::string& machine) { network().mend(name(server), machine); }
  void isolate(size_t server) { network().isolate(name(server)); }
  void rejoin(size_t server) { network().rejoin(name(server)); }
  SimNode& node(size_t server) { return servers_[server]->node; }
  SimNode& metaserver_node() { return metaserver_->node; }
  SimNode& repair_manager_node(size_t manager) { return managers_[manager]->node; }
  SimNode& client_node(size_t client = 0) { return clients_[client]->node; }
  SimDisk& disk(size_t server) { return servers_[server]->node.disk(); }
  /// Its wall clock jumps; what it shows beyond the true time from now on.
  void set_wall_offset(size_t server, Duration offset) { servers_[server]->node.set_wall_offset(offset); }
  void set_wall_drift(size_t server, int64_t ppm) { servers_[server]->node.set_wall_drift(ppm); }
  void set_metaserver_wall_offset(Duration offset) { metaserver_->node.set_wall_offset(offset); }
  void set_repair_manager_wall_offset(size_t manager, Duration offset) {
    managers_[manager]->node.set_wall_offset(offset);
  }
  /// Its disk takes a million times longer, from the next operation on: whatever needs it hangs. What hangs
  /// already is not helped by unhang, only by a crash.
  void hang(size_t server) { disk(server).set_slow(1e6); }
  void unhang(size_t server) { disk(server).set_slow(1); }
  /// Flips one bit inside the data of a stored chunk of the stripe of that index; false when the chunk is not
  /// in a file of its own there.
  bool rot(size_t server, ChunkId chunk);
  /// A block of it cannot be read from now on. False: the chunk is in no file of its own there.
  bool spoil(size_t server, ChunkId chunk);

  // ---- looking
  static std::string name(size_t server) { return "server-" + std::to_string(server); }
  static std::string client_name(size_t client) {
    return client == 0 ? "client" : "client-" + std::to_string(client);
  }
  static std::string repair_manager_name(size_t manager) { return "repair-" + std::to_string(manager); }
  ServerId server_id(size_t server);
  /// The number of the server with this id.
  std::optional<size_t> server_of(ServerId id) const;
  std::vector<proto::Stripe> stripes_of(const std::string& path);
  /// The chunks of a server whose start has ended; null while it does not run.
  chunkserver::ChunkStore* store(size_t server);
  /// Chunks that the server has on its disks, in files of their own. Takes no time.
  std::vector<ChunkId> chunk_files(size_t server);
  /// Servers that hold a copy of this chunk on their disks, in a file of its own. Takes no time.
  std::vector<size_t> holders(ChunkId chunk);
  Result<proto::FsckResponse> fsck();  ///< all pages together
  Result<proto::RepairStatusResponse> repair_status() { return run(client().repair_status()); }
  std::vector<proto::RepairRecord> repair_history();
  /// Chunks that no file names and that may not be garbage, with their servers.
  Result<std::set<std::pair<ServerId, ChunkId>>> quarantine();
  Result<proto::ServerState::Liveness> liveness(size_t server);
  /// Wall time of a RepairRecord as virtual time since the start of the simulation.
  Duration since_start(int64_t wall_ns);

  // ---- waiting
  /// kDeadlineExceeded with what is still wrong. Looks every `kLook`.
  Status wait_until(const std::function<Status()>& ok, Duration limit);
  /// The metaserver knows of every server whether it runs and can be reached, no chunk is missing, no repair
  /// waits or runs; and so it stays for a few seconds.
  Status wait_until_healthy(Duration limit = kHealthyLimit);
  Status wait_until_dead(size_t server, Duration limit = std::chrono::minutes(1));
  Status wait_until_alive(size_t server, Duration limit = std::chrono::minutes(1));
  /// No server holds a chunk (of those in files of their own) that is not the one its stripe names, but for what is in
  /// quarantine.
  Status wait_until_no_stray_chunks(Duration limit = kHealthyLimit);
  static constexpr Duration kLook = std::chrono::milliseconds(200);

  /// What the programs that run recorded, by the names of their machines.
  std::map<std::string, const sight::Recorder*> recorders() const;
  /// The program that client() belongs to, or another client's, for coroutines of a test's own that use it.
  ClientProgram& client_program(size_t client = 0);
  size_t clients() const { return clients_.size(); }
  /// Which client puts, reads and removes this path.
  size_t client_of(const std::string& path) const { return hash_name(path) % clients_.size(); }
  /// REQUIRES: options().monitor, and its start has ended.
  const monitoring::Monitor& monitor() const;
  /// What `kintsugi diagnose` prints now, the worst first.
  std::vector<proto::Verdict> verdicts() const;

 private:
  void start_client(size_t client);
  void begin(Machine& machine, std::unique_ptr<Program> program);
  std::vector<Machine*> machines() const;  ///< all of them
  std::unique_ptr<Program> make_metaserver();
  std::unique_ptr<Program> make_chunkserver(size_t server);
  std::unique_ptr<Program> make_repair_manager(size_t manager);
  std::unique_ptr<Program> make_monitor();
  std::shared_ptr<Operation> operation(const std::string& path);
  asio::awaitable<void> put_in_background(ClientProgram& program, std::shared_ptr<Operation> operation,
                                          Content content);
  asio::awaitable<void> remove_in_background(ClientProgram& program, std::shared_ptr<Operation> operation);
  asio::awaitable<void> check_in_background(ClientProgram& program, std::shared_ptr<Operation> operation);
  Result<proto::ListServersResponse> list_servers();
  Status repairs_begin();
  Status health();
  Status stray_chunks();
  std::vector<std::string> chunk_paths(size_t server);

  const ClusterOptions options_;
  repair_manager::Options repairs_;
  Simulation simulation_;
  Replay replay_;
  rpc::Secret secret_;
  Graveyard graveyard_;
  MemoryStoreDisk metaserver_disk_;
  std::unique_ptr<Machine> metaserver_;
  std::vector<std::unique_ptr<Machine>> servers_;
  std::vector<std::unique_ptr<Machine>> managers_;
  std::vector<std::unique_ptr<Machine>> clients_;
  std::unique_ptr<Machine> monitor_;  ///< null: there is none
  Oracle oracle_;
  uint64_t next_content_ = 1;
  std::vector<ServerId> ids_;
};

}  // namespace kintsugi::simulation
