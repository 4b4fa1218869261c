/// The observer of a process: a thread of its own that tells the monitor, every second, what is open in the process,
/// also while the process's only other thread is stuck; and then with the stack that it is stuck in.
///
/// The monitor's address comes from the metaserver, asked again every few seconds while there is none or it does not
/// answer. Whatever fails here is no matter of the daemon's.
#pragma once

#include <functional>
#include <memory>

#include "common/rpc/client.h"
#include "common/rpc/secret.h"
#include "common/runtime/production/production_runtime.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/reporter.h"

namespace kintsugi::sight {

/// Sends the reports of a Reporter: a coroutine on whatever runtime, the simulator's too.
class ReportSender {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);
  static constexpr Duration kAskAgain = std::chrono::seconds(5);
  static constexpr Duration kCallLimit = std::chrono::seconds(2);
  static constexpr Duration kGoodbyeLimit = std::chrono::milliseconds(200);

  ReportSender(const runtime::Runtime& runtime, const rpc::Secret& secret, Reporter& reporter,
               runtime::Endpoint metaserver)
      : runtime_(runtime),
        secret_(secret),
        client_(runtime, secret, {.dial_limit = kCallLimit}),
        reporter_(reporter),
        metaserver_(std::move(metaserver)) {}

  /// Runs until `tasks` is asked to stop, and then says that the process ends.
  asio::awaitable<void> run(runtime::TaskGroup& tasks);
  /// One report of a process that ends, when there is a monitor; within kGoodbyeLimit.
  asio::awaitable<void> say_goodbye();

  std::function<proto::SightLoop()> watch_loop = [] { return proto::SightLoop(); };
  /// What the operating system says of the process, for every report.
  std::function<proto::SightSystem()> ask_system = [] { return proto::SightSystem(); };
  /// Adds to a report what others than the recorder know.
  std::function<void(proto::SightReport&)> complete = [](proto::SightReport&) {};
  /// Called with every answer of the monitor.
  std::function<asio::awaitable<void>(const proto::SightReportAnswer& answer)> on_answer;

 private:
  asio::awaitable<bool> find_monitor(Duration limit);
  asio::awaitable<void> send(rpc::Client& client, bool last, Duration limit);

  runtime::Runtime runtime_;
  const rpc::Secret secret_;
  rpc::Client client_;
  Reporter& reporter_;
  runtime::Endpoint metaserver_;
  std::optional<runtime::Endpoint> monitor_;
  Duration interval_ = kInterval;
};

struct ObserverOptions {
  runtime::Endpoint metaserver;
  /// Called on the observed loop now and then, or while the observer is being destroyed: who the process is by now.
  std::function<Reporting()> who;
  /// Called on the observer's thread for each report: adds what nobody else knows. May be empty.
  std::function<void(proto::SightReport&)> complete;
  /// The stack of a loop that is stuck is read by way of SIGURG, for which a handler is set then. Not for libraries.
  bool sample_stacks = true;
  /// Nothing is done before the process is this old: a command that ends sooner costs nothing, unless it has
  /// complaints, or waited for somebody for a second or longer in vain.
  Duration quiet_for{};
};

/// Everything that it is given outlives it. REQUIRES: destroyed before the observed loop ends; that takes
/// kGoodbyeLimit at most, and a little.
class Observer {
 public:
  Observer(runtime::ProductionRuntime& observed, const Recorder& recorder, const rpc::Secret& secret,
           ObserverOptions options);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// How long the loop lately took to come to what was ready. May be called from any thread.
  Duration loop_lag() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kintsugi::sight
