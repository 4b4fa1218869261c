/// A whole chunkserver on any runtime: the daemon's main and the simulator both use it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/service/chunk_service.h"
#include "chunkserver/service/metaserver_link.h"
#include "chunkserver/service/metered_network.h"
#include "chunkserver/service/peer_check.h"
#include "chunkserver/service/repair_service.h"
#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::chunkserver {

struct Options {
  runtime::Endpoint listen{"127.0.0.1", 0};
  std::string advertise;  ///< host at which others reach this server; empty: the host of `listen`
  runtime::Endpoint metaserver;
  std::string name;                ///< what people call this server (check_server_name); empty: its address
  std::vector<std::string> disks;  ///< absolute paths
  /// Key: path of a disk that is missing at the start; value: why.
  std::map<std::string, std::string> missing_disks;
  std::string rack = "default";
  uint64_t buffer_memory_bytes = 64ull << 20;  ///< memory for transfers; at least kMinBuffers buffers
  std::function<double()> cpu_seconds;
  SegmentLimits segments;
  /// Memory for the sums of repair trees, when all windows are full.
  uint64_t tree_memory_bytes = 1ull << 30;
  uint64_t cache_memory_bytes = 64ull << 20;  ///< memory for chunks that are read often; 0: no cache
  /// Blocks that nobody has read for so long leave the cache; 0: they stay.
  Duration cache_keep = std::chrono::minutes(10);
  uint64_t disk_bytes_per_second = 0;     ///< limit for each disk; 0: none
  uint64_t link_up_bytes_per_second = 0;  ///< bandwidth of the uplink; 0: it is measured
  uint64_t link_down_bytes_per_second = 0;
  /// Limit for repairs, each way; 0: repairs take what users leave of the link.
  uint64_t repair_bytes_per_second = 0;
  /// Measure bandwidth by probing other servers; if false, it is only inferred from the traffic.
  bool probe_links = false;
  /// Ask other servers now and then by a connection of its own: see PeerCheck.
  bool check_peers = false;
};

class ChunkServer {
 public:
  static constexpr size_t kBufferBytes = 1 << 20;
  static constexpr size_t kMinBuffers = 8;
  /// A writer that was told of this server before connects within this time.
  static constexpr Duration kQuiet = std::chrono::milliseconds(300);
  static constexpr Duration kFinishLimit = std::chrono::seconds(5);

  /// `runtime` outlives it.
  ChunkServer(const runtime::Runtime& runtime, Options options, rpc::Secret secret);
  ~ChunkServer();  ///< REQUIRES: stop() has returned

  /// Opens the disks, listens, and begins to register. After an error it is stopped like one that runs: a disk that
  /// hangs may still be asked something.
  asio::awaitable<Status> start();
  /// Tells the metaserver that this server is being stopped, and ends what users have begun: a planned restart leaves no
  /// stripe without a chunk. Returns when no user was served for kQuiet, or after kFinishLimit.
  asio::awaitable<void> leave();
  /// Ends calls and trees that run, and waits for them.
  asio::awaitable<void> stop();

  /// Limits as in Options, which may change while the server runs.
  void set_repair_bandwidth(uint64_t bytes_per_second);
  void set_cache_keep(Duration keep) { options_.cache_keep = keep; }
  /// Gives memory back that nothing needed since the last call. To be called now and then while it runs.
  void give_memory_back();

  runtime::Endpoint endpoint() const { return server_.local_endpoint(); }
  /// What people call this server. REQUIRES: start() has succeeded.
  std::string name() const { return options_.name.empty() ? address() : options_.name; }
  ServerId id() const { return store_.identity().server; }
  /// Where others reach it. REQUIRES: start() has succeeded.
  std::string address() const;
  bool registered() const { return link_ && link_->registered(); }
  /// The address of the metrics pages, which the metaserver is told. REQUIRES: start() was not called.
  void set_http_address(std::string address) { http_address_ = std::move(address); }
  /// For what the daemon tells it of tokens.
  rpc::Server& server() { return server_; }
  /// Called as MetaserverLink::on_refused: the daemon should end. REQUIRES: set before start().
  std::function<void(Status)> on_refused;

  ChunkStore& store() { return store_; }
  runtime::BufferPool& buffers() { return buffers_; }
  const ServiceCounters& counters() const { return counters_; }
  const LinkRates& link_rates() const { return rates_; }
  const LinkTraffic& traffic() const { return traffic_; }
  /// The total time for which repairs were held up for users or to keep to their rate.
  Duration pacer_waits() const { return pacer_.waits(); }
  uint64_t cluster_repair_limit() const { return pacer_.cluster_limit(); }
  size_t connections_in() const { return server_.connections(); }
  size_t connections_out() const { return client_.connections(); }
  /// How far this machine's wall clock is ahead of the metaserver's.
  Duration clock_ahead() const { return metaserver_clock_.own_ahead(); }
  sight::Recorder& recorder() { return recorder_; }
  const sight::Recorder& recorder() const { return recorder_; }

 private:
  UserLoad user_load() const;

  LinkTraffic traffic_;
  MeteredNetwork network_;
  const runtime::Runtime runtime_;
  Options options_;
  const rpc::Secret secret_;
  std::string http_address_;
  sight::Recorder recorder_;
  runtime::BufferPool buffers_;
  ChunkStore store_;
  rpc::Client client_;
  rpc::Server server_;
  rpc::MetaserverClock metaserver_clock_;
  ServiceCounters counters_;
  RepairPacer pacer_;
  RunningTrees trees_;
  PartialSums sums_;
  RepairSite site_;
  ChunkService service_;
  RepairService repairs_;
  LinkRates rates_;
  LinkProber prober_;
  DeletionOrders orders_;
  LoadReport load_;
  Heartbeat heartbeat_;
  PeerCheck peer_check_;
  std::unique_ptr<MetaserverLink> link_;  ///< exists from start() on
};

}  // namespace kintsugi::chunkserver
