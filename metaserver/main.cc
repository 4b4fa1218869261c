// kintsugi-metaserver: keeps the namespace and the stripe map, and tells repair managers what is lost.
#include <unistd.h>

#include "common/daemon/daemon.h"
#include "common/daemon/memory_share.h"
#include "common/daemon/private_directory.h"
#include "common/log/log.h"
#include "metaserver/daemon/http_pages.h"
#include "metaserver/daemon/meta_daemon.h"
#include "metaserver/kv/rocksdb_store.h"
#include "monitoring/sight/observer.h"
#include "monitoring/sight/pages.h"
#include "monitoring/sight/request_metrics.h"
#include "tracing/agent/signalled.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint64_t kLeastMemory = 16ull << 20;
constexpr uint64_t kMostCache = 1ull << 40, kMostWriteBuffer = 64ull << 20;

struct Options {
  std::string data_dir;
  uint32_t daemons_on_machine = 1;
  std::optional<uint64_t> cache_memory;
  MetaDaemonOptions parts{.metaserver = {.listen = {"127.0.0.1", 9600}}, .repairs = {.delay = 15min}};
};

/// Settings that may change while the daemon runs.
constexpr const char* kFollowed[] = {"repair.delay", "repair.max_per_server"};

void add_settings(daemon::Settings& settings, Options& options) {
  settings.log_activities({"metaserver.allocate_stripe", "metaserver.commit_file", "metaserver.abort_upload",
                           "metaserver.open_read", "metaserver.write_extents", "metaserver.write_names",
                           "metaserver.commit_repair", "metaserver.commit_repair_of_manager",
                           "metaserver.report_chunk", "metaserver.block_report", "metaserver.register_server",
                           "metaserver.drain_server", "metaserver.rebalance", "metaserver.fsck"});
  MetaServerOptions& meta = options.parts.metaserver;
  RepairLimits& repairs = options.parts.repairs;
  // A cluster of a user's own is that user's to write to.
  meta.root_uid = ::geteuid();
  meta.root_gid = ::getegid();
  settings.add("listen", &meta.listen, "host:port for RPCs");
  settings.add("data_dir", &options.data_dir, "directory to keep metadata in");
  settings.add("daemons_on_machine", &options.daemons_on_machine,
               "daemons of the cluster that share this machine's memory", 1u, 1024u);
  settings.add_bytes("cache.memory", &options.cache_memory,
                     "memory for metadata that was read; auto: a share of the machine's", kLeastMemory,
                     kMostCache);
  settings.add("policy", &meta.default_policy, "policy of new files below /, when the cluster is made");
  settings.add_bytes("chunk_bytes", &meta.chunk_bytes, "largest size of a chunk", 1 << 20, 256 << 20);
  settings.add_bytes("inline_bytes", &meta.inline_bytes,
                     "most bytes of small writes to keep with the metadata; 0: all go to chunkservers", 0,
                     1ull << 40);
  settings.add("heartbeat_interval", &meta.heartbeat_interval, "time between two heartbeats of a chunkserver",
               10ms, 1min);
  settings.add("suspect_after", &meta.suspect_after,
               "how long a chunkserver may be silent before it is suspect", 10ms, 1h);
  settings.add("dead_after", &meta.dead_after,
               "how long a chunkserver may be silent before it is dead and its chunks are rebuilt elsewhere",
               20ms, 24h);
  settings.add("quarantine_retention", &meta.quarantine_retention,
               "how long an unknown chunk is kept before it is deleted: one that no file uses and that may "
               "still be needed",
               1h, 24h * 3650);
  settings.add("repair.delay", &repairs.delay,
               "time from a server's death to the repair of stripes that can still lose two more chunks", 0s,
               24h * 7);
  settings.add("repair.max_per_server", &repairs.max_per_server,
               "repairs in which a server helps at a time, and which it receives at a time", 1u, 64u);
  settings.require("data_dir");
  settings.counts_when_made("policy");
  for (const char* key : kFollowed)
    settings.follow(key, [] {});  // make() says how
}

/// Requests by which users find what there is, and those by which they change it.
std::vector<sight::Operation> user_operations() {
  return {
      {"find",
       {"Stat", "List", "OpenRead", "PlanRead", "Lookup", "GetInode", "ListInode", "GetXattr", "ListXattrs"}},
      {"change",
       {"CommitFile", "MakeDirectory", "Remove", "Rename", "SetAttributes", "MakeInode", "Link", "Unlink",
        "Move", "SetXattr", "WriteExtents", "CopyExtents", "WriteNames"}}};
}

class Daemon final : public daemon::Daemon {
 public:
  Daemon(daemon::Shell& shell, MetaDaemonOptions options, std::unique_ptr<RocksDbStore> store,
         bool has_certificates)
      : shell_(shell),
        listen_(options.metaserver.listen),
        recorder_(shell.runtime.clock, shell.runtime.random.next()),
        store_(std::move(store)) {
    // Anything read of a store since it failed may be lost; only a new start shows what is really there.
    store_->on_failure = [&ending = shell.ending](const Status& why) {
      ending.end(why.with_context("the metadata store failed, nothing can be acknowledged any more"),
                 daemon::kExitFailed);
    };
    options.metaserver.recorder = &recorder_;
    options.metaserver.http_address = shell.http_address;
    daemon_ = std::make_unique<MetaDaemon>(shell.runtime, std::move(options), shell.secret, *store_);
    add_pages(shell.http, shell.metrics, *daemon_, shell.runtime.clock,
              {listen_, shell.http_address, has_certificates});
    sight::add_pages(shell.http, shell.metrics, recorder_);
    sight::add_request_metrics(shell.metrics, recorder_, user_operations());
    sight::add_loop_lag(shell.metrics, [this] { return observer_ ? observer_->loop_lag() : Duration{}; });
    shell.metrics.gauge("kintsugi_metadata_damaged_files",
                        "Table files of the metadata store whose checksums are wrong, by the last check", {},
                        [&check = store_->check()] { return static_cast<double>(check.damaged_files()); });
    shell.metrics.counter("kintsugi_metadata_checks_total",
                          "Checks of the checksums of the whole metadata store", {},
                          [&check = store_->check()] { return static_cast<double>(check.checks()); });
  }

  asio::awaitable<Status> start() override {
    const Status started = co_await daemon_->start();
    if (started.ok())
      observer_.emplace(
          shell_.production, recorder_, shell_.secret,
          sight::ObserverOptions{.metaserver = listen_, .who = [this, address = listen_.to_string()] {
                                   return sight::Reporting{.kind = "metaserver",
                                                           .name = "metaserver",
                                                           .address = address,
                                                           .http_address = shell_.http_address};
                                 }});
    co_return started;
  }
  rpc::Server& rpc_server() override { return daemon_->metaserver().server(); }
  void set_repair_limits(RepairLimits limits) {
    if (daemon_) daemon_->set_repair_limits(limits);
  }
  asio::awaitable<void> stop() override {
    observer_.reset();
    co_await daemon_->stop();
    daemon_.reset();
    co_await store_->close();
  }

 private:
  daemon::Shell& shell_;
  const runtime::Endpoint listen_;
  sight::Recorder recorder_;
  std::unique_ptr<RocksDbStore> store_;
  std::unique_ptr<MetaDaemon> daemon_;
  std::optional<sight::Observer> observer_;
};

RocksDbMemory memory_of(const Options& options) {
  const uint64_t machine = daemon::machine_memory_bytes();
  const auto share = [&](uint64_t most) {
    return daemon::memory_share(machine, options.daemons_on_machine, kLeastMemory, most);
  };
  const RocksDbMemory memory{.cache_bytes = options.cache_memory.value_or(share(kMostCache)),
                             .write_buffer_bytes = share(kMostWriteBuffer)};
  log::info("memory: {} MiB for metadata that was read, {} MiB for a write buffer", memory.cache_bytes >> 20,
            memory.write_buffer_bytes >> 20);
  return memory;
}

Result<std::unique_ptr<daemon::Daemon>> make(daemon::Shell& shell, Options& options, bool has_certificates) {
  daemon::keep_private(options.data_dir);
  tracing::listen_for_signal();
  KINTSUGI_ASSIGN(std::unique_ptr<RocksDbStore> store,
                  RocksDbStore::open(shell.runtime.executor, options.data_dir, memory_of(options)));
  auto made = std::make_unique<Daemon>(shell, options.parts, std::move(store), has_certificates);
  for (const char* key : kFollowed)
    shell.settings.follow(
        key, [&options, running = made.get()] { running->set_repair_limits(options.parts.repairs); });
  return made;
}

}  // namespace
}  // namespace kintsugi::metaserver

int main(int argc, char** argv) {
  using namespace kintsugi;
  tracing::block_trace_signal();
  metaserver::Options options;
  daemon::Settings settings(
      "kintsugi-metaserver",
      "Keeps the namespace and the stripe map, and tells repair managers what is lost.");
  metaserver::add_settings(settings, options);
  return daemon::run(argc, argv, settings, [&](daemon::Shell& shell) {
    return metaserver::make(shell, options, !settings.tls.certificate.empty());
  });
}
