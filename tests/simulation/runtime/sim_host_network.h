/// One host's view of the simulated network, for one life of the programs on it.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "tests/simulation/runtime/gate.h"
#include "tests/simulation/runtime/sim_network.h"

namespace kintsugi::simulation {

/// A port, at which connections wait until somebody accepts them.
struct Port {
  static constexpr size_t kMaxBacklog = 1024;

  runtime::Endpoint name;
  bool closed = false;
  bool accepting = false;
  std::deque<std::shared_ptr<Stream>> backlog;
  Gate acceptable;
};

/// One dial under way.
struct Dial {
  uint64_t id = 0;
  runtime::Endpoint to;
  TimePoint deadline;
  TimePoint gives_up_at;  ///< gives up by itself then, however late the deadline is
  runtime::TimerId expiry = runtime::TimerId::kNone;
  Gate done;
  std::shared_ptr<Stream> stream;  ///< null until it is established
  std::optional<Status> result;
};

class HostNetwork final : public runtime::Network {
 public:
  HostNetwork(SimNetwork& network, SimNetwork::Site& site) : network_(network), site_(site) {}

  asio::awaitable<Result<std::unique_ptr<runtime::Connection>>> dial(runtime::Endpoint to, TimePoint deadline,
                                                                     runtime::TaskGroup* stops_with) override;
  Result<std::unique_ptr<runtime::Listener>> listen(runtime::Endpoint at) override;

  bool alive() const { return alive_; }
  /// Ends every pending dial with kCancelled; later ones fail in the same way.
  void die();

 private:
  void knock(const std::shared_ptr<Dial>& dial);
  void knock_arrived(const std::shared_ptr<Dial>& dial, SimNetwork::Site& at);
  void finish(const std::shared_ptr<Dial>& dial, Status result);

  SimNetwork& network_;
  SimNetwork::Site& site_;
  bool alive_ = true;
  std::map<uint64_t, std::shared_ptr<Dial>> dials_;
  uint64_t next_dial_ = 1;
};

}  // namespace kintsugi::simulation
