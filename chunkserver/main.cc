// kintsugi-chunkserver: stores chunks on local disks and serves them.
#include <ctime>
#include <filesystem>

#include <unistd.h>

#include "chunkserver/service/chunkserver.h"
#include "chunkserver/service/pages.h"
#include "common/base/server_name.h"
#include "common/daemon/daemon.h"
#include "common/daemon/disk_paths.h"
#include "common/daemon/memory_share.h"
#include "common/daemon/private_directory.h"
#include "common/daemon/revocations.h"
#include "common/log/log.h"
#include "monitoring/sight/observer.h"
#include "monitoring/sight/pages.h"
#include "tracing/agent/signalled.h"

namespace kintsugi::chunkserver {
namespace {

/// Exit status of a server that its cluster does not want: it was removed, or another process has taken its place.
/// Nobody should start it again by itself: it would join anew, or end the process that ended it.
constexpr int kExitUnwanted = 3;

/// Memory sizes that follow from the machine's memory unless they are given.
struct MemorySettings {
  uint32_t daemons_on_machine = 1;
  std::optional<uint64_t> buffers, cache;
};

/// A chunk that is repaired in one piece needs the least.
constexpr uint64_t kLeastForTrees = partial_sum::kMaxSliceMemoryBytes, kMostForTrees = 8ull << 30;
constexpr uint64_t kLeastBuffers = 16ull << 20, kMostBuffers = 64ull << 20;
/// How long a server that stops waits for a disk that hangs.
constexpr Duration kStopLimit = std::chrono::seconds(10);
/// How long a server that starts waits for directories in `disks` to be looked at.
constexpr Duration kLookLimit = std::chrono::seconds(10);
constexpr uint64_t kLeastCache = 8ull << 20, kMostCache = 1ull << 40;

void add_settings(daemon::Settings& settings, Options& options, MemorySettings& memory) {
  settings.log_activities({"chunkserver.read_chunk", "chunkserver.read_small_chunk",
                           "chunkserver.write_chunk", "chunkserver.write_small_chunk", "chunkserver.commit",
                           "chunkserver.delete_chunk", "chunkserver.partial_sum", "chunkserver.repair_chunk",
                           "partial_sum.child_sum", "chunkserver.verify_chunks", "chunkserver.block_report",
                           "chunkserver.segment_clean", "chunkserver.register"});
  settings.add("listen", &options.listen, "host:port for clients and other servers; port 0 picks one");
  settings.add("advertise", &options.advertise,
               "host by which others reach this server (default: that of listen)");
  settings.add("metaserver", &options.metaserver, "host:port of the metaserver");
  settings.add("disks", &options.disks,
               "directories to keep chunks in, one for each disk; they must be there");
  settings.add("name", &options.name, "name of this server in messages (default: its host:port)");
  settings.add("rack", &options.rack, "failure domain of this server");
  settings.add("daemons_on_machine", &memory.daemons_on_machine,
               "daemons of the cluster that share this machine's memory", 1u, 1024u);
  settings.add_bytes("buffer_memory", &memory.buffers,
                     "memory for transfers; auto: a share of the machine's, at most 64MiB", 8ull << 20,
                     16ull << 30);
  settings.add_bytes("cache.memory", &memory.cache,
                     "memory for chunks that are read often; auto: a share of the machine's; 0: none", 0,
                     kMostCache);
  settings.add("cache.keep", &options.cache_keep,
               "how long the cache keeps a chunk that nobody reads; 0: until other chunks need the memory");
  settings.add_bytes("disk.bandwidth", &options.disk_bytes_per_second,
                     "bytes a second that each disk may read and write; 0: no limit");
  settings.add_bytes("link.up", &options.link_up_bytes_per_second,
                     "bytes a second that this server's link can send; 0: measured");
  settings.add_bytes("link.down", &options.link_down_bytes_per_second,
                     "bytes a second that this server's link can receive; 0: measured");
  settings.add("link.probe", &options.probe_links,
               "measure the link against other servers, at most 8 MiB each way every 10 minutes");
  settings.add_bytes(
      "repair.bandwidth", &options.repair_bytes_per_second,
      "most bytes a second that repairs may send, and receive; 0: the bandwidth that users leave free");
  for (const char* key : {"metaserver", "disks"})
    settings.require(key);
  for (const char* key : {"repair.bandwidth", "cache.keep"})
    settings.follow(key, [] {});  // make() says how
}

double cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

class Daemon final : public daemon::Daemon {
 public:
  Daemon(daemon::Shell& shell, Options options)
      : shell_(shell),
        metaserver_(options.metaserver),
        server_(shell.runtime, std::move(options), shell.secret),
        revocations_(shell.runtime, shell.secret, metaserver_, server_.server()) {
    add_pages(shell.http, shell.metrics, server_);
    sight::add_loop_lag(shell.metrics, [this] { return observer_ ? observer_->loop_lag() : Duration{}; });
    server_.set_http_address(shell.http_address);
    server_.on_refused = [&ending = shell.ending](Status why) {
      const bool unwanted = why.code() == Code::kNotFound || why.code() == Code::kAlreadyExists;
      ending.end(std::move(why), unwanted ? kExitUnwanted : daemon::kExitFailed);
    };
  }

  asio::awaitable<Status> start() override {
    started_ = co_await server_.start();
    if (started_.ok()) revocations_.start();
    if (started_.ok()) observer_.emplace(shell_.production, server_.recorder(), shell_.secret, observed());
    co_return started_;
  }
  rpc::Server& rpc_server() override { return server_.server(); }
  asio::awaitable<void> stop() override {
    observer_.reset();
    runtime::TaskGroup patience(shell_.runtime);
    patience.spawn(wait_for_no_hung_disk(patience));
    if (started_.ok()) co_await server_.leave();
    co_await revocations_.stop();
    co_await server_.stop();
    co_await patience.stop();
  }
  void give_memory_back() override { server_.give_memory_back(); }
  ChunkServer& server() { return server_; }
  Status health() const override {
    return server_.registered() ? Status{} : Status{Code::kUnavailable, "not registered with the metaserver"};
  }

 private:
  /// Ends the process when it should have stopped and a disk hangs: what is asked of such a disk may never return, and
  /// nothing that was acknowledged waits for it.
  asio::awaitable<void> wait_for_no_hung_disk(runtime::TaskGroup& patience) {
    while (co_await patience.sleep_for(kStopLimit)) {
      for (const DiskReport& disk : server_.store().disk_reports()) {
        // Also one that was given up: at the start, say.
        if (disk.oldest_call < DiskHealth::kHungAfter) continue;
        log::error("stopped without waiting any longer for disk {}, which hangs: {}", disk.path, disk.reason);
        if (!started_.ok()) log::error("{}", started_.to_string());
        _exit(started_.ok() ? shell_.ending.exit_status() : daemon::kExitFailed);
      }
    }
  }

  sight::ObserverOptions observed() {
    return {.metaserver = metaserver_, .who = [this] {
              return sight::Reporting{.kind = "chunkserver",
                                      .name = server_.name(),
                                      .address = server_.address(),
                                      .server_id = server_.id().value,
                                      .http_address = shell_.http_address};
            }};
  }

  daemon::Shell& shell_;
  const runtime::Endpoint metaserver_;
  ChunkServer server_;
  daemon::Revocations revocations_;
  Status started_;  ///< outcome of the start
  std::optional<sight::Observer> observer_;
};

void set_memory(Options& options, const MemorySettings& memory) {
  const uint64_t machine = daemon::machine_memory_bytes();
  const auto share = [&](uint64_t least, uint64_t most) {
    return daemon::memory_share(machine, memory.daemons_on_machine, least, most);
  };
  options.buffer_memory_bytes = memory.buffers.value_or(share(kLeastBuffers, kMostBuffers));
  options.cache_memory_bytes = memory.cache.value_or(share(kLeastCache, kMostCache));
  options.tree_memory_bytes = share(kLeastForTrees, kMostForTrees);
  log::info(
      "memory: {} MiB for transfers, {} MiB for chunks that are read often, at most {} MiB for repair trees",
      options.buffer_memory_bytes >> 20, options.cache_memory_bytes >> 20, options.tree_memory_bytes >> 20);
}

Result<std::unique_ptr<daemon::Daemon>> make(daemon::Shell& shell, const Options& options,
                                             const MemorySettings& memory) {
  KINTSUGI_TRY(daemon::check_advertised(options.listen, options.advertise));
  tracing::listen_for_signal();
  if (!options.name.empty()) KINTSUGI_TRY(check_server_name(options.name).with_context("name"));
  Options used = options;  // `options` says what was set
  for (std::string& disk : used.disks)
    disk = std::filesystem::absolute(disk).string();
  const std::vector<daemon::DiskPath> disks = daemon::look_at(used.disks, kIdentityFile, kLookLimit);
  KINTSUGI_ASSIGN(const std::vector<daemon::MissingDisk> missing, daemon::find_missing_disks(disks));
  for (const daemon::MissingDisk& disk : missing)
    used.missing_disks.emplace(disk.path, disk.why);
  for (const daemon::DiskPath& disk : disks) {
    if (disk.answers && disk.exists) daemon::keep_private(disk.path);
  }
  set_memory(used, memory);
  shell.production.disk().separate(used.disks);
  auto made = std::make_unique<Daemon>(shell, std::move(used));
  ChunkServer& server = made->server();
  shell.settings.follow("repair.bandwidth", [&server, &options] {
    server.set_repair_bandwidth(options.repair_bytes_per_second);
  });
  shell.settings.follow("cache.keep", [&server, &options] { server.set_cache_keep(options.cache_keep); });
  return made;
}

}  // namespace
}  // namespace kintsugi::chunkserver

int main(int argc, char** argv) {
  using namespace kintsugi;
  tracing::block_trace_signal();
  chunkserver::Options options{
      .cpu_seconds = chunkserver::cpu_seconds, .probe_links = true, .check_peers = true};
  chunkserver::MemorySettings memory;
  daemon::Settings settings("kintsugi-chunkserver", "Stores chunks on local disks and serves them.",
                            runtime::Endpoint{"127.0.0.1", 0});
  chunkserver::add_settings(settings, options, memory);
  return daemon::run(argc, argv, settings,
                     [&](daemon::Shell& shell) { return chunkserver::make(shell, options, memory); });
}
