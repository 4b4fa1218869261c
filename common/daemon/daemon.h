/// The shell of a daemon: everything between main and the daemon's own parts, the same for every one.
///
/// ```cpp
/// int main(int argc, char** argv) {
///   Options options;
///   daemon::Settings settings("kintsugi-example", "Does what an example does.");
///   settings.add("listen", &options.listen, "host:port for RPCs");
///   return daemon::run(argc, argv, settings, [&](daemon::Shell& shell) { return make(shell, options); });
/// }
/// ```
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/config/config.h"
#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "common/rpc/secret.h"
#include "common/runtime/production/production_runtime.h"

namespace kintsugi::rpc {
class Server;
}

namespace kintsugi::daemon {

/// The settings of a daemon; those that every daemon has are there from the start. `secret_file` is required.
class Settings : public config::Settings {
 public:
  Settings(std::string program, std::string description,
           std::optional<runtime::Endpoint> http_listen = std::nullopt);
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  std::optional<runtime::Endpoint> http_listen;  ///< none: no pages are served
  std::string secret_file;
  runtime::TlsFiles tls;
  bool require_tls = true;  ///< nothing listens without TLS at an address that other hosts reach
  std::string log_file;     ///< empty: standard error

  /// The daemon has an activity log beside its log file, unless it is set otherwise, which tells of the regions of code
  /// with these names: runtime::ActivityLog::kMostSites at most.
  void log_activities(std::vector<std::string_view> names);
  /// Empty: there is no activity log.
  std::vector<std::string_view> activities() const { return activity_log_ ? names_ : decltype(names_)(); }

 private:
  bool activity_log_ = true;
  std::vector<std::string_view> names_;
};

/// Lets any part of a daemon end the process. A signal does the same without being asked.
class Ending {
 public:
  /// The process stops cleanly, tells `why` when it is not ok, and exits with `exit_status`. The first call counts.
  void end(Status why, int exit_status);

  bool ended() const { return ended_; }
  const Status& why() const { return why_; }
  int exit_status() const { return exit_status_; }

  std::function<void()> on_end = [] {};  ///< called by the first call of end() only

 private:
  bool ended_ = false;
  Status why_;
  int exit_status_ = 0;
};

/// The parts from which a daemon is made. They outlive it.
struct Shell {
  runtime::ProductionRuntime& production;
  const runtime::Runtime& runtime;
  const rpc::Secret& secret;
  http::HttpServer& http;      ///< serves /healthz, /metrics and /debug/settings; a daemon adds its own pages
  metrics::Metrics& metrics;   ///< holds those of the process; a daemon adds its own
  config::Settings& settings;  ///< a daemon says which of them it can follow while it runs
  std::string http_address{};  ///< address of the pages; empty: there are none
  Ending ending{};
};

/// A daemon as its shell sees it. Its constructor starts nothing; pages may be read from start() on.
class Daemon {
 public:
  virtual ~Daemon() = default;
  virtual asio::awaitable<Status> start() = 0;
  /// The server of its RPCs, which knows which tokens are good.
  virtual rpc::Server& rpc_server() = 0;
  /// Called once, after a start() that failed as well. No page is read any more.
  virtual asio::awaitable<void> stop() = 0;
  /// The answer of /healthz after start(): 503 with the sentence when it is not ok.
  virtual Status health() const { return {}; }
  /// Called every minute between start() and stop(): gives memory back that nothing needed since the last call.
  virtual void give_memory_back() {}
};

using Make = std::function<Result<std::unique_ptr<Daemon>>(Shell&)>;

inline constexpr int kExitFailed = 1;
/// A daemon that is to end and has not by then is ended: it waits for something that nobody gives, and nothing that was
/// acknowledged depends on that.
inline constexpr Duration kStopLimit = std::chrono::seconds(30);

/// What the process makes from now on only its user can read. SIGHUP opens the log file again, for whoever moved it
/// away, and reads the settings again (Settings::reread), and the secret's file if that has changed; a line of the log says what came of it. Parses the settings,
/// makes the daemon and serves until SIGTERM, SIGINT or Ending::end, and stops it within kStopLimit. Returns the exit
/// status of main: 0 after a signal, kExitFailed when the daemon was not made or did not start, or what Ending::end was
/// given. Exits by itself with 2 when the command line or the file of settings is not understood, with 0 after --help.
/// Errors are told on standard error and in the log.
int run(int argc, const char* const* argv, Settings& settings, const Make& make);

/// kInvalidArgument when a daemon listens at all addresses and is not told by which one others reach it.
Status check_advertised(const runtime::Endpoint& listen, const std::string& advertise);

}  // namespace kintsugi::daemon
