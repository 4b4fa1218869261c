// kintsugi-chunkserver: stores chunks on local disks and serves them.
#include <ctime>
#include <filesystem>

#include "chunkserver/service/chunkserver.h"
#include "chunkserver/service/pages.h"
#include "common/base/server_name.h"
#include "common/daemon/daemon.h"

namespace kintsugi::chunkserver {
namespace {

/// Exit status of a server that its cluster does not want: it was removed, or another process has taken its place.
/// Nobody should start it again by itself: it would join anew, or end the process that ended it.
constexpr int kExitUnwanted = 3;

void add_settings(daemon::Settings& settings, Options& options) {
  settings.add("listen", &options.listen, "host:port for clients and other servers; port 0 picks one");
  settings.add("advertise", &options.advertise, "host others reach this server by (default: that of listen)");
  settings.add("metaserver", &options.metaserver, "host:port of the metaserver");
  settings.add("disks", &options.disks, "directories to keep chunks in, one for each disk");
  settings.add("name", &options.name, "what people call this server (default: its host:port)");
  settings.add("rack", &options.rack, "failure domain of this server");
  settings.add_bytes("buffer_memory", &options.buffer_memory_bytes, "memory for transfers", 8ull << 20,
                     16ull << 30);
  settings.add_bytes("cache.memory", &options.cache_memory_bytes,
                     "memory for chunks that are read often; 0: none", 0, 1ull << 40);
  settings.add_bytes("disk.bandwidth", &options.disk_bytes_per_second,
                     "bytes a second that each disk may read and write; 0: no limit");
  settings.add_bytes("link.up", &options.link_up_bytes_per_second,
                     "bytes a second that this server's link carries away from it; 0: measured");
  settings.add_bytes("link.down", &options.link_down_bytes_per_second,
                     "bytes a second that this server's link carries to it; 0: measured");
  settings.add("link.probe", &options.probe_links,
               "measure the link against other servers, at most 8 MiB each way every 10 minutes");
  settings.add_bytes(
      "repair.bandwidth", &options.repair_bytes_per_second,
      "bytes a second that repairs may send, and receive, at most; 0: what users leave of the link");
  for (const char* key : {"metaserver", "disks"})
    settings.require(key);
}

double cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

class Daemon final : public daemon::Daemon {
 public:
  Daemon(daemon::Shell& shell, Options options) : server_(shell.runtime, std::move(options), shell.secret) {
    shell.production.register_buffers(server_.buffers());
    add_pages(shell.http, shell.metrics, server_);
    server_.set_http_address(shell.http_address);
    server_.on_refused = [&ending = shell.ending](Status why) {
      const bool unwanted = why.code() == Code::kNotFound || why.code() == Code::kAlreadyExists;
      ending.end(std::move(why), unwanted ? kExitUnwanted : daemon::kExitFailed);
    };
  }

  asio::awaitable<Status> start() override { return server_.start(); }
  asio::awaitable<void> stop() override { return server_.stop(); }
  Status health() const override {
    return server_.registered() ? Status{} : Status{Code::kUnavailable, "not registered with the metaserver"};
  }

 private:
  ChunkServer server_;
};

Result<std::unique_ptr<daemon::Daemon>> make(daemon::Shell& shell, Options& options) {
  KINTSUGI_TRY(daemon::check_advertised(options.listen, options.advertise));
  if (!options.name.empty()) KINTSUGI_TRY(check_server_name(options.name).with_context("name"));
  for (std::string& disk : options.disks)
    disk = std::filesystem::absolute(disk).string();
  return std::make_unique<Daemon>(shell, options);
}

}  // namespace
}  // namespace kintsugi::chunkserver

int main(int argc, char** argv) {
  using namespace kintsugi;
  chunkserver::Options options{
      .cpu_seconds = chunkserver::cpu_seconds, .cache_memory_bytes = 256ull << 20, .probe_links = true};
  daemon::Settings settings("kintsugi-chunkserver", "Stores chunks on local disks and serves them.",
                            runtime::Endpoint{"127.0.0.1", 0});
  chunkserver::add_settings(settings, options);
  return daemon::run(argc, argv, settings,
                     [&](daemon::Shell& shell) { return chunkserver::make(shell, options); });
}
