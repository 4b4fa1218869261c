// kintsugi-repair-manager: repairs what is lost and compacts files, alone or together with others like it.
#include "common/daemon/daemon.h"
#include "common/daemon/revocations.h"
#include "common/proto/names.h"
#include "monitoring/sight/observer.h"
#include "monitoring/sight/pages.h"
#include "repair_manager/daemon/http_pages.h"
#include "repair_manager/daemon/repair_daemon.h"
#include "tracing/agent/signalled.h"

namespace kintsugi::repair_manager {
namespace {

struct Arguments {
  RepairDaemonOptions daemon;
  std::string schedule = "joint", shape = "auto";
};

void add_settings(daemon::Settings& settings, Arguments& all) {
  settings.log_activities({"repair_manager.repair", "repair_manager.commit", "repair_manager.compact",
                           "repair_manager.move_bytes"});
  RepairDaemonOptions& options = all.daemon;
  settings.add("listen", &options.listen, "host:port for the metaserver; port 0 picks one");
  settings.add("advertise", &options.advertise,
               "host by which the metaserver reaches this daemon (default: that of listen)");
  settings.add("metaserver", &options.metaserver, "host:port of the metaserver");
  settings.add("repair.schedule", &all.schedule,
               "how many repairs are scheduled: joint (all links equally loaded) or greedy (m-PPR)");
  settings.add("repair.shape", &all.shape,
               "shape of repair trees: auto, star, staggered, ppr, chain or weighted");
  settings.require("metaserver");
}

class Daemon final : public daemon::Daemon {
 public:
  Daemon(daemon::Shell& shell, const RepairDaemonOptions& options)
      : shell_(shell),
        metaserver_(options.metaserver),
        recorder_(shell.runtime.clock, shell.runtime.random.next()),
        daemon_(shell.runtime, completed(options, shell), shell.secret),
        revocations_(shell.runtime, shell.secret, metaserver_, daemon_.server()) {
    add_pages(shell.http, shell.metrics, daemon_);
    sight::add_pages(shell.http, shell.metrics, recorder_);
    sight::add_loop_lag(shell.metrics, [this] { return observer_ ? observer_->loop_lag() : Duration{}; });
  }

  asio::awaitable<Status> start() override {
    const Status started = daemon_.start();
    if (started.ok()) revocations_.start();
    if (started.ok())
      observer_.emplace(shell_.production, recorder_, shell_.secret,
                        sight::ObserverOptions{.metaserver = metaserver_, .who = [this] {
                                                 const std::string address = daemon_.endpoint().to_string();
                                                 return sight::Reporting{.kind = "repair-manager",
                                                                         .name = "repair manager " + address,
                                                                         .address = address,
                                                                         .http_address = shell_.http_address};
                                               }});
    co_return started;
  }
  rpc::Server& rpc_server() override { return daemon_.server(); }
  asio::awaitable<void> stop() override {
    observer_.reset();
    co_await revocations_.stop();
    co_await daemon_.stop();
  }
  void give_memory_back() override { daemon_.compactor().give_memory_back(); }

 private:
  RepairDaemonOptions completed(RepairDaemonOptions options, const daemon::Shell& shell) {
    options.recorder = &recorder_;
    options.http_address = shell.http_address;
    return options;
  }

  daemon::Shell& shell_;
  const runtime::Endpoint metaserver_;
  sight::Recorder recorder_;
  RepairDaemon daemon_;
  daemon::Revocations revocations_;
  std::optional<sight::Observer> observer_;
};

Result<std::unique_ptr<daemon::Daemon>> make(daemon::Shell& shell, Arguments& options) {
  KINTSUGI_ASSIGN(options.daemon.repairs.schedule, parse_schedule(options.schedule));
  KINTSUGI_ASSIGN(options.daemon.repairs.shape, proto::parse_shape(options.shape));
  KINTSUGI_TRY(daemon::check_advertised(options.daemon.listen, options.daemon.advertise));
  tracing::listen_for_signal();
  return std::make_unique<Daemon>(shell, options.daemon);
}

}  // namespace
}  // namespace kintsugi::repair_manager

int main(int argc, char** argv) {
  using namespace kintsugi;
  tracing::block_trace_signal();
  repair_manager::Arguments options;
  daemon::Settings settings(
      "kintsugi-repair-manager",
      "Repairs what is lost and compacts files, alone or together with others like it.");
  repair_manager::add_settings(settings, options);
  return daemon::run(argc, argv, settings,
                     [&](daemon::Shell& shell) { return repair_manager::make(shell, options); });
}
