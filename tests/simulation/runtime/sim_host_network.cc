#include "tests/simulation/runtime/sim_host_network.h"

#include <algorithm>

#include "common/base/assert.h"
#include "common/runtime/task_group.h"

namespace kintsugi::simulation {
namespace {

using runtime::Endpoint;

/// Roughly the defaults of Linux.
constexpr Duration kKnockAgainAfter = std::chrono::seconds(1);
constexpr Duration kConnectTimeout = std::chrono::minutes(2);
/// A dial that fails without asking the network still takes a moment, so that no retry loop stops the clock.
constexpr Duration kLocalFailureDelay = std::chrono::milliseconds(1);

bool means_this_host(const std::string& name) {
  return name.empty() || name == "localhost" || name == "127.0.0.1" || name == "::1" || name == "0.0.0.0" ||
         name == "::";
}

class SimListener final : public runtime::Listener {
 public:
  SimListener(Wire& wire, std::shared_ptr<Port> port, std::function<void()> on_close)
      : wire_(wire), port_(std::move(port)), on_close_(std::move(on_close)) {}
  ~SimListener() override { close(); }

  asio::awaitable<Result<std::unique_ptr<runtime::Connection>>> accept() override {
    const auto port = port_;
    Wire& wire = wire_;
    KINTSUGI_ASSERT(!port->accepting);
    port->accepting = true;
    while (port->backlog.empty() && !port->closed)
      co_await port->acceptable.wait();
    port->accepting = false;
    if (port->closed) co_return Status{Code::kCancelled, "listener closed"};
    auto stream = std::move(port->backlog.front());
    port->backlog.pop_front();
    co_return std::make_unique<SimConnection>(wire, std::move(stream), 1);
  }

  void close() override {
    if (!port_->closed) on_close_();
  }
  Endpoint local_endpoint() const override { return port_->name; }

 private:
  Wire& wire_;
  std::shared_ptr<Port> port_;
  std::function<void()> on_close_;
};

}  // namespace

asio::awaitable<Result<std::unique_ptr<runtime::Connection>>> HostNetwork::dial(
    Endpoint to, TimePoint deadline, runtime::TaskGroup* stops_with) {
  SimClock& clock = network_.wire_.clock();
  auto dial = std::make_shared<Dial>();
  dial->id = next_dial_++;
  dial->to = std::move(to);
  dial->deadline = deadline;
  dials_[dial->id] = dial;
  if (means_this_host(dial->to.host)) dial->to.host = site_.host->name;

  std::optional<Status> failure;
  if (!alive_) {
    failure = Status{Code::kCancelled, dial->to.to_string() + ": this host's network is gone"};
  } else if (network_.wire_.find(dial->to.host) == nullptr) {
    failure = Status{Code::kUnavailable, dial->to.to_string() + ": unknown host"};
  }
  if (failure) {
    clock.call_at(clock.now() + kLocalFailureDelay, [this, dial, why = *failure] { finish(dial, why); });
  } else {
    dial->gives_up_at = clock.now() + kConnectTimeout;
    dial->expiry = clock.call_at(std::min(deadline, dial->gives_up_at), [this, dial] {
      const bool late = dial->deadline < dial->gives_up_at;
      finish(dial,
             {late ? Code::kDeadlineExceeded : Code::kUnavailable, dial->to.to_string() + ": timed out"});
    });
    knock(dial);
  }
  runtime::TaskGroup::StopCallback stop;
  if (stops_with != nullptr)
    stop = stops_with->on_stop(
        [this, dial] { finish(dial, {Code::kCancelled, dial->to.to_string() + ": stopped"}); });
  while (!dial->result)
    co_await dial->done.wait();
  if (!dial->result->ok()) co_return *dial->result;
  co_return std::make_unique<SimConnection>(network_.wire_, dial->stream, 0);
}

void HostNetwork::finish(const std::shared_ptr<Dial>& dial, Status result) {
  if (dial->result) return;
  SimClock& clock = network_.wire_.clock();
  clock.cancel(dial->expiry);
  dials_.erase(dial->id);
  // The connection is established on the other side, but nobody here waits for it any longer. (A crash ends
  // all streams itself.)
  if (!result.ok() && dial->stream && alive_) network_.wire_.close(dial->stream, 0);
  dial->result = std::move(result);
  dial->done.open();
}

void HostNetwork::knock(const std::shared_ptr<Dial>& dial) {
  if (dial->result) return;
  Wire& wire = network_.wire_;
  SimClock& clock = wire.clock();
  SimNetwork::Site& at = network_.site(dial->to.host);
  clock.call_at(clock.now() + wire.draw_latency(*site_.host, *at.host), [this, dial, &at] {
    if (dial->result) return;
    Wire& wire = network_.wire_;
    if (!wire.carries(*site_.host, *at.host) || !wire.carries(*at.host, *site_.host)) {
      wire.clock().call_at(wire.clock().now() + kKnockAgainAfter, [this, dial] { knock(dial); });
      return;
    }
    knock_arrived(dial, at);
  });
}

void HostNetwork::knock_arrived(const std::shared_ptr<Dial>& dial, SimNetwork::Site& at) {
  Wire& wire = network_.wire_;
  SimClock& clock = wire.clock();
  Status result;
  auto found = at.ports.find(dial->to.port);
  if (found == at.ports.end()) {
    result = {Code::kUnavailable, dial->to.to_string() + ": connection refused"};
  } else if (found->second->backlog.size() >= Port::kMaxBacklog) {
    clock.call_at(clock.now() + kKnockAgainAfter, [this, dial] { knock(dial); });
    return;
  } else {
    Endpoint from{site_.host->name, network_.pick_port(site_)};
    dial->stream = wire.connect(*site_.host, std::move(from), *at.host, dial->to);
    found->second->backlog.push_back(dial->stream);
    found->second->acceptable.open();
  }
  const Duration back = wire.draw_latency(*at.host, *site_.host);
  clock.call_at(clock.now() + back, [this, dial, result] { finish(dial, result); });
}

Result<std::unique_ptr<runtime::Listener>> HostNetwork::listen(Endpoint at) {
  if (!alive_) return Status{Code::kCancelled, "this host's network is gone"};
  if (means_this_host(at.host)) at.host = site_.host->name;
  if (at.host != site_.host->name) {
    return Status{Code::kInvalidArgument, "listen at " + at.to_string() + ": not an address of this host"};
  }
  if (at.port == 0) at.port = network_.pick_port(site_);
  auto [entry, fresh] = site_.ports.try_emplace(at.port);
  if (!fresh) return Status{Code::kAlreadyExists, "listen at " + at.to_string() + ": address in use"};
  entry->second = std::make_shared<Port>();
  entry->second->name = at;
  auto on_close = [&network = network_, &site = site_, number = at.port] {
    network.close_port(site, number);
  };
  return std::make_unique<SimListener>(network_.wire_, entry->second, std::move(on_close));
}

void HostNetwork::die() {
  alive_ = false;
  const auto dials = dials_;
  for (const auto& [id, dial] : dials)
    finish(dial, {Code::kCancelled, dial->to.to_string() + ": this host's network is gone"});
}

}  // namespace kintsugi::simulation
