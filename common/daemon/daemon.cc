#include "common/daemon/daemon.h"

#include <csignal>
#include <cstdio>
#include <ctime>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/last_words.h"
#include "common/daemon/build_metrics.h"
#include "common/daemon/certificate_metrics.h"
#include "common/daemon/loop_metrics.h"
#include "common/daemon/page_tokens.h"
#include "common/daemon/peer_metrics.h"
#include "common/log/audit_log.h"
#include "common/log/log.h"
#include "common/runtime/production/activity_file.h"
#include "common/runtime/production/run.h"
#include "common/runtime/task_group.h"

namespace kintsugi::daemon {
namespace {

/// Memory that is needed again after it was given back costs page faults: too much of them for anything shorter.
constexpr Duration kGiveBackInterval = 1min;
/// How often the file of the secret is looked at, when nobody connects.
constexpr Duration kLookInterval = 1s;
/// A daemon that uses less of a processor than this is at rest: it takes a tenth of that to send or answer heartbeats.
constexpr double kAtRest = 0.005;
/// Takes all rights of everybody but the owner from files and directories that are made.
constexpr mode_t kOwnerOnly = 0077;
/// The end of a daemon waits so long for the log's disk.
constexpr auto kLastLines = 1s;

asio::awaitable<void> give_memory_back(runtime::TaskGroup& tasks, Daemon& daemon) {
  for (std::clock_t before = std::clock(); co_await tasks.sleep_for(kGiveBackInterval);) {
    daemon.give_memory_back();
    const std::clock_t now = std::clock();
    // What was freed lies in the heap until the heap is looked through. A daemon that works is about to need it again.
    if (static_cast<double>(now - before) / CLOCKS_PER_SEC < kAtRest * to_seconds(kGiveBackInterval))
      malloc_trim(0);
    before = now;
  }
}

asio::awaitable<void> follow_secret(runtime::TaskGroup& tasks, Shell& shell) {
  while (co_await tasks.sleep_for(kLookInterval))
    shell.secret.shared().look(shell.runtime.clock.now());
}

asio::awaitable<void> wait_for_end(Shell& shell) {
  asio::signal_set signals(shell.production.io(), SIGTERM, SIGINT);
  shell.ending.on_end = [&signals] { signals.cancel(); };
  if (!shell.ending.ended()) {
    boost::system::error_code cancelled;
    const int signal = co_await signals.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    if (!shell.ending.ended()) log::info("stopping: signal {}", signal);
  }
  shell.ending.on_end = [] {};
}

/// The activity log of the process, while this lives: there is none without a log file.
class Activity {
 public:
  Activity(const Settings& settings, const runtime::Clock& clock) {
    const std::vector<std::string_view> names = settings.activities();
    if (settings.log_file.empty() || names.empty()) return;
    log_.emplace(clock, fmt::format("pid={} program={}", ::getpid(), settings.program()), names);
    file_.emplace(runtime::activity_path(settings.log_file), *log_);
    runtime::process_activity_log = &*log_;
  }
  ~Activity() { runtime::process_activity_log = nullptr; }
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  void reopen() {
    if (file_) file_->reopen();
  }

 private:
  std::optional<runtime::ActivityLog> log_;
  std::optional<runtime::ActivityFile> file_;
};

/// Holds what SIGHUP acts on: whoever moves log files away, or changes the file of settings, sends it.
struct OnHangup {
  asio::signal_set& signals;
  Activity& activity;
  std::function<Result<std::string>()> reread;
  const rpc::Secret& secret;

  void heard() const {
    log::reopen_file();
    activity.reopen();
    log::info("signal {} (SIGHUP): the log file is opened again", SIGHUP);
    const Result<std::string> settings = reread();
    if (!settings) log::error("the settings are as they were: {}", settings.error().message());
    if (settings && !settings->empty()) log::info("settings: {}", *settings);
    secret.shared().look_at_once();
  }
};

asio::awaitable<void> follow_hangups(runtime::TaskGroup& tasks, OnHangup& hangup) {
  const auto stop = tasks.on_stop([&hangup] { hangup.signals.cancel(); });
  while (!tasks.stopping()) {
    boost::system::error_code cancelled;
    co_await hangup.signals.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    if (cancelled) break;
    hangup.heard();
  }
}

asio::awaitable<void> end_at_limit(runtime::TaskGroup& patience, int exit_status) {
  if (!co_await patience.sleep_for(kStopLimit)) co_return;
  log::error("stopped without waiting any longer: something has not ended within {} seconds",
             kStopLimit / 1s);
  log::flush(kLastLines);
  _exit(exit_status);
}

/// Runs the daemon from start() to stop(); `started` is set once start() has succeeded.
asio::awaitable<Status> serve(Shell& shell, Daemon& daemon, OnHangup& hangup, bool& started) {
  runtime::TaskGroup log_tasks(shell.runtime);
  log_tasks.spawn(follow_hangups(log_tasks, hangup));
  Status status = co_await daemon.start();
  started = status.ok();
  if (started) {
    runtime::TaskGroup tasks(shell.runtime);
    tasks.spawn(give_memory_back(tasks, daemon));
    tasks.spawn(follow_secret(tasks, shell));
    co_await wait_for_end(shell);
    status = shell.ending.why();
    co_await tasks.stop();
  }
  runtime::TaskGroup patience(shell.runtime);
  patience.spawn(end_at_limit(patience, started ? shell.ending.exit_status() : kExitFailed));
  // Pages end first: the parts that they show are about to go.
  shell.http.stop();
  co_await daemon.stop();
  co_await log_tasks.stop();
  co_await patience.stop();
  co_return status;
}

void add_pages(Shell& shell, const bool& started, const std::unique_ptr<Daemon>& daemon) {
  shell.http.handle("/healthz", [&](std::string_view) {
    if (!started) return http::Response{.status = 503, .body = "starting\n"};
    const Status health = daemon->health();
    return health.ok() ? http::Response{.body = "ok\n"}
                       : http::Response{.status = 503, .body = health.message() + "\n"};
  });
  shell.http.handle("/metrics", [&metrics = shell.metrics](std::string_view) {
    return http::Response{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                          .late_body = metrics.read()};
  });
  shell.http.handle("/debug/clock", [&clock = shell.runtime.clock](std::string_view) {
    return http::Response{.body = fmt::format("{}\n", clock.wall_now().time_since_epoch().count())};
  });
  shell.http.handle("/debug/settings",
                    [&](std::string_view) { return http::Response{.body = shell.settings.effective()}; });
}

Status run_parsed(Settings& settings, const std::function<Result<std::string>()>& reread, const Make& make,
                  int& exit_status) {
  KINTSUGI_ASSIGN(const rpc::Secret secret, rpc::Secret::load(settings.secret_file));
  KINTSUGI_ASSIGN(const runtime::TlsPolicy tls, runtime::tls_policy(settings.tls, settings.require_tls));
  if (!tls.credentials && !tls.require)
    log::warning(
        "tls.require is false and tls.certificate is not set: anyone on the network can read and "
        "change the traffic that leaves this host");
  runtime::ProductionRuntime production({}, tls);
  Activity activity(settings, production.runtime().clock);
  // It keeps a signal that comes before anybody waits for one: a start may take long.
  asio::signal_set hangups(production.io(), SIGHUP);
  OnHangup hangup{hangups, activity, reread, secret};
  metrics::Metrics metrics;
  metrics.add_process_metrics();
  add_build_metrics(metrics);
  metrics.counter("kintsugi_log_lines_dropped_total",
                  "Lines missing in the log file because its disk was too slow", {},
                  [] { return static_cast<double>(log::dropped_lines()); });
  add_loop_metrics(production, metrics);
  if (tls.credentials) add_certificate_metrics(tls.credentials, production.runtime().clock, metrics);
  http::HttpServer http(production.runtime());
  // Whoever reads samples over time wants to know whether they are those of one process.
  http.handle("/debug/sample/names", [&metrics](std::string_view) {
    return http::Response{.body = fmt::format("# pid {}\n", ::getpid()) + metrics.sample_names()};
  });
  http.handle("/debug/sample",
              [&metrics](std::string_view) { return http::Response{.body = metrics.sample_values()}; });
  Shell shell{production, production.runtime(), secret, http, metrics, settings};
  std::unique_ptr<Daemon> daemon;
  const PageTokens tokens(secret, daemon);
  http.guard_by(tokens);
  bool started = false;
  add_pages(shell, started, daemon);
  // The port is taken before the daemon is made, which may tell others where its pages are. Nothing is answered until
  // the loop runs.
  if (settings.http_listen) {
    KINTSUGI_TRY(http.start(*settings.http_listen).with_context("http_listen"));
    shell.http_address = http.local_endpoint().to_string();
  }
  KINTSUGI_ASSIGN(daemon, make(shell));
  add_peer_metrics(daemon->rpc_server(), metrics);
  Status status = runtime::run_on(production, serve(shell, *daemon, hangup, started));
  if (started) exit_status = shell.ending.exit_status();
  return status;
}

}  // namespace

Settings::Settings(std::string program, std::string description, std::optional<runtime::Endpoint> http_listen)
    : config::Settings(std::move(program), std::move(description)), http_listen(std::move(http_listen)) {
  add("http_listen", &this->http_listen,
      "host:port for /metrics, /healthz and /debug; port 0 picks one; empty: none");
  add("secret_file", &secret_file, "file with the cluster secret; read again when it changes");
  add("tls.certificate", &tls.certificate, "certificate of this host, as PEM; read again when it changes");
  add("tls.key", &tls.key, "key of the certificate, as PEM, readable by its owner alone");
  add("tls.authority", &tls.authority,
      "certificate of the cluster's authority, as PEM; two while one replaces the other");
  add("tls.require", &require_tls,
      "refuse to listen without TLS at an address that other hosts reach; false only on a network that you "
      "trust");
  add("log_file", &log_file, "appended to; empty: standard error");
  require("secret_file");
}

void Settings::log_activities(std::vector<std::string_view> names) {
  names_ = std::move(names);
  add("activity_log", &activity_log_,
      "tell which operations begin and end, in NAME.activity.log beside the log file");
}

void Ending::end(Status why, int exit_status) {
  if (std::exchange(ended_, true)) return;
  why_ = std::move(why);
  exit_status_ = exit_status;
  on_end();
}

int run(int argc, const char* const* argv, Settings& settings, const Make& make) {
  // What a daemon writes may hold what only its user may read: contents of files, names, where things are.
  ::umask(kOwnerOnly);
  // A hangup never ends a daemon: from run_parsed() on it opens the log file again. It is ignored before there are last
  // words, which leave alone what is ignored: between the two a hangup would be the daemon's end.
  std::signal(SIGHUP, SIG_IGN);
  install_last_words(settings.program());
  settings.parse_or_exit(argc, argv);
  if (!settings.log_file.empty()) {
    log::set_file(settings.log_file, log::Writing::kInBackground);
    log::set_audit_file(log::audit_path(settings.log_file));
  }
  log::info("{} starts with\n{}", settings.program(), settings.effective());
  int exit_status = kExitFailed;
  const auto reread = [&] { return settings.reread(argc, argv); };
  const Status status = run_parsed(settings, reread, make, exit_status);
  if (status.ok()) log::info("stopped");
  // Without a log file the log is standard error: one line there is enough.
  if (!status.ok() && !settings.log_file.empty())
    log::error("{} ends: {}", settings.program(), status.to_string());
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", settings.program().c_str(), status.to_string().c_str());
  log::flush(kLastLines);
  return exit_status;
}

Status check_advertised(const runtime::Endpoint& listen, const std::string& advertise) {
  if (!listen.is_wildcard() || !advertise.empty()) return {};
  return {Code::kInvalidArgument, "listen is a wildcard address: set advertise to the name others reach"};
}

}  // namespace kintsugi::daemon
