/// A daemon or client as the simulated cluster handles it: started, killed with its machine, stopped in the
/// background and destroyed when that is done.
#pragma once

#include <list>
#include <memory>
#include <optional>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "monitoring/sight/recorder.h"
#include "tests/simulation/cluster/node_reports.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::simulation {

class Program {
 public:
  virtual ~Program() = default;
  virtual asio::awaitable<Status> start() = 0;
  /// Leaves nothing of the program running. Called once, after `start` ended or while it is under way, on a
  /// live machine (a clean stop) or on a crashed one.
  virtual asio::awaitable<void> stop() = 0;
  /// What it did, as it recorded it.
  virtual const sight::Recorder& recorder() const = 0;
  /// Who it is for people and for a monitor.
  virtual sight::Reporting who() const = 0;

  /// It reports to the monitor that the metaserver knows of, from the end of its start until it stops. REQUIRES: it was not
  /// started.
  void report_from(SimNode& node, const rpc::Secret& secret, runtime::Endpoint metaserver) {
    const auto who = [this, host = node.name()] {
      sight::Reporting it = this->who();
      it.host = host;
      return it;
    };
    reports_.emplace(node, recorder(), secret, std::move(metaserver), who);
  }

 protected:
  std::optional<NodeReports> reports_;  ///< none: it does not report
};

/// Where crashed programs come to their end without virtual time having to pass for the test.
class Graveyard {
 public:
  explicit Graveyard(Simulation& simulation) : simulation_(simulation) {}

  /// Begins to stop it; it is destroyed some time later. May be empty.
  void bury(std::unique_ptr<Program> program);
  /// True when everything buried has come to its end.
  bool quiet();

 private:
  struct Grave {
    std::unique_ptr<Program> program;
    bool stopped = false;
  };
  Simulation& simulation_;
  std::list<Grave> graves_;
};

/// A simulated machine and the program that runs on it, if any.
struct Machine {
  Machine(Simulation& simulation, std::string name) : node(simulation, std::move(name)) {}

  SimNode node;
  std::unique_ptr<Program> program;
};

}  // namespace kintsugi::simulation
