/// The observer of a simulated program: tells the monitor what is open in it, as sight::Observer does in a real process.
#pragma once

#include <functional>

#include <boost/asio/awaitable.hpp>

#include "common/rpc/secret.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/observer.h"
#include "tests/simulation/runtime/sim_node.h"

namespace kintsugi::simulation {

class NodeReports {
 public:
  /// `node` runs the program, whose recorder this is; `who` is asked before every report. All of it outlives this.
  NodeReports(SimNode& node, const sight::Recorder& recorder, const rpc::Secret& secret,
              runtime::Endpoint metaserver, std::function<sight::Reporting()> who)
      : runtime_(node.observer_runtime()),
        reporter_(recorder, {}),
        sender_(runtime_, secret, reporter_, std::move(metaserver)),
        tasks_(runtime_),
        run_(runtime_) {
    sender_.watch_loop = [this, &node, who = std::move(who)] {
      if (node.held_for() == Duration{}) reporter_.set_who(who());
      return loop(node.held_for());
    };
  }

  void start() { run_.spawn(sender_.run(tasks_)); }
  /// Says goodbye when it was started. Called once.
  asio::awaitable<void> stop() {
    tasks_.request_stop();
    co_await run_.join();
  }

 private:
  /// As long as an Observer waits before it calls a loop stuck.
  static constexpr Duration kStalled = 1s;

  static proto::SightLoop loop(Duration held) {
    proto::SightLoop loop;
    if (held >= kStalled) loop.set_stalled_ns(static_cast<uint64_t>(held.count()));
    return loop;
  }

  runtime::Runtime runtime_;
  sight::Reporter reporter_;
  sight::ReportSender sender_;
  runtime::TaskGroup tasks_, run_;
};

}  // namespace kintsugi::simulation
