#include "tests/simulation/runtime/sim_network.h"

#include <algorithm>

#include "common/base/assert.h"
#include "tests/simulation/runtime/sim_host_network.h"

namespace kintsugi::simulation {
namespace {
constexpr uint16_t kFirstEphemeralPort = 20'000;
}  // namespace

SimNetwork::SimNetwork(SimClock& clock, EventHash& events, uint64_t seed) : wire_(clock, events, seed) {}
SimNetwork::~SimNetwork() = default;

SimNetwork::Site& SimNetwork::site(const std::string& name) {
  Site& site = sites_[name];
  if (site.host == nullptr) {
    site.host = &wire_.host(name);
    site.views.push_back(std::make_unique<HostNetwork>(*this, site));
  }
  return site;
}

runtime::Network& SimNetwork::host(const std::string& name) {
  return *site(name).views.back();
}

uint16_t SimNetwork::pick_port(Site& site) {
  // Ports of connections may repeat: they are only names here. Ports of listeners may not.
  constexpr uint32_t kPorts = 65'536 - kFirstEphemeralPort;
  for (uint32_t tries = 0; tries < kPorts; ++tries) {
    const auto port = static_cast<uint16_t>(kFirstEphemeralPort + site.next_port);
    site.next_port = static_cast<uint16_t>((site.next_port + 1) % kPorts);
    if (!site.ports.contains(port)) return port;
  }
  KINTSUGI_ASSERT(!"every port of the host has a listener");
  return 0;
}

void SimNetwork::close_port(Site& site, uint16_t number) {
  auto found = site.ports.find(number);
  if (found == site.ports.end()) return;
  const auto port = std::move(found->second);
  site.ports.erase(found);
  port->closed = true;
  port->acceptable.open();
  for (const auto& stream : port->backlog) {
    if (!stream->ends[1].alive()) continue;
    wire_.fail(stream, 1, {Code::kCancelled, "listener closed"});
    wire_.reset(stream, 1);
  }
  port->backlog.clear();
}

void SimNetwork::set_latency(Duration base, Duration jitter) {
  conditions().latency = base;
  conditions().jitter = jitter;
}

void SimNetwork::set_link(const std::string& host, uint64_t up_bytes_per_second,
                          uint64_t down_bytes_per_second) {
  site(host).host->up->set_rate(up_bytes_per_second);
  site(host).host->down->set_rate(down_bytes_per_second);
}

void SimNetwork::set_extra_latency(const std::string& host, Duration extra) {
  site(host).host->extra_latency = extra;
}

void SimNetwork::set_loss(double probability) {
  KINTSUGI_ASSERT(probability >= 0 && probability <= 1);
  conditions().loss_per_million = static_cast<uint32_t>(probability * 1e6);
}

void SimNetwork::partition(const std::vector<std::vector<std::string>>& groups) {
  for (const auto& host : wire_.hosts())
    host->group = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const auto& name : groups[i])
      site(name).host->group = static_cast<int64_t>(i) + 1;
  }
  wire_.reachability_changed();
}

void SimNetwork::isolate(const std::string& host) {
  site(host).host->group = next_isolated_group_--;
  wire_.reachability_changed();
}

void SimNetwork::rejoin(const std::string& host) {
  site(host).host->group = 0;
  wire_.reachability_changed();
}

void SimNetwork::cut(const std::string& a, const std::string& b) {
  wire_.cuts().insert(std::minmax(site(a).host->index, site(b).host->index));
  wire_.reachability_changed();
}

void SimNetwork::mend(const std::string& a, const std::string& b) {
  wire_.cuts().erase(std::minmax(site(a).host->index, site(b).host->index));
  wire_.reachability_changed();
}

void SimNetwork::cut_one_way(const std::string& from, const std::string& to) {
  wire_.one_way_cuts().insert({site(from).host->index, site(to).host->index});
  wire_.reachability_changed();
}

void SimNetwork::mend_one_way(const std::string& from, const std::string& to) {
  wire_.one_way_cuts().erase({site(from).host->index, site(to).host->index});
  wire_.reachability_changed();
}

bool SimNetwork::reachable(const std::string& a, const std::string& b) {
  const Host& one = *site(a).host;
  const Host& other = *site(b).host;
  return wire_.carries(one, other) && wire_.carries(other, one);
}

void SimNetwork::heal() {
  wire_.cuts().clear();
  wire_.one_way_cuts().clear();
  partition({});
}

void SimNetwork::drop_connections(const std::string& host) {
  for (const auto& stream : wire_.streams_of(*site(host).host)) {
    for (int side : {0, 1}) {
      wire_.fail(stream, side,
                 {Code::kUnavailable, "connection reset by " + stream->ends[1 - side].name.to_string()});
    }
  }
}

void SimNetwork::delay_connections(const std::string& host, Duration time) {
  const TimePoint until = wire_.clock().now() + time;
  for (const auto& stream : wire_.streams_of(*site(host).host))
    for (End& end : stream->ends)
      if (end.host == site(host).host) end.last_arrival = std::max(end.last_arrival, until);
}

void SimNetwork::give_up_connections(const std::string& host) {
  for (const auto& stream : wire_.streams_of(*site(host).host))
    for (const int side : {0, 1})
      if (stream->ends[side].host == site(host).host)
        wire_.fail(stream, side, {Code::kUnavailable, "connection given up"});
}

void SimNetwork::crash(const std::string& name, bool power_loss) {
  Site& site = this->site(name);
  HostNetwork& view = *site.views.back();
  if (!view.alive()) return;
  if (power_loss) site.host->powered = false;
  view.die();
  for (const auto& stream : wire_.streams_of(*site.host)) {
    for (int side : {0, 1}) {
      if (stream->ends[side].host != site.host) continue;
      if (power_loss) {
        wire_.vanish(stream, side);
      } else {
        wire_.close(stream, side);
      }
    }
  }
  while (!site.ports.empty())
    close_port(site, site.ports.begin()->first);
  wire_.reachability_changed();
}

runtime::Network& SimNetwork::restart(const std::string& name) {
  Site& site = this->site(name);
  KINTSUGI_ASSERT(!site.views.back()->alive());  // a host is restarted after a crash only
  site.views.push_back(std::make_unique<HostNetwork>(*this, site));
  if (!site.host->powered) {
    site.host->powered = true;
    // A kernel that knows nothing of a connection answers its next segment with a reset.
    for (const auto& stream : wire_.streams_of(*site.host)) {
      for (int side : {0, 1}) {
        if (stream->ends[side].host == site.host && stream->ends[side].lost_power) wire_.reset(stream, side);
      }
    }
    wire_.reachability_changed();
  }
  return *site.views.back();
}

uint64_t SimNetwork::bytes_sent(const std::string& host) {
  return site(host).host->bytes_sent;
}
uint64_t SimNetwork::bytes_received(const std::string& host) {
  return site(host).host->bytes_received;
}
size_t SimNetwork::connections(const std::string& host) {
  return wire_.streams_of(*site(host).host).size();
}

}  // namespace kintsugi::simulation
