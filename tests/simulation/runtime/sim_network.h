/// The network of a simulation: hosts by name, each with its own view, and the faults a test may cause.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/runtime/network.h"
#include "tests/simulation/runtime/sim_wire.h"

namespace kintsugi::simulation {

class HostNetwork;
struct Port;

/// TCP as programs see it: bytes in order, a bounded window, end of stream, reset, refusal, time-outs. Links
/// have a rate, shared fairly by a host's connections; segments have a latency with jitter.
///
/// Between hosts that are cut off bytes wait, and flow on when that is healed; connections break after
/// `conditions().break_after`. All decisions come from the seed.
class SimNetwork {
 public:
  SimNetwork(SimClock& clock, EventHash& events, uint64_t seed);
  ~SimNetwork();

  /// The network that programs on that host use; the host is made when unknown. References stay valid as long as this
  /// network lives; after a crash of the host it is dead, and `restart` gives another.
  runtime::Network& host(const std::string& name);

  /// Rates of new hosts, latency, loss, time-outs; may be changed at any time.
  Conditions& conditions() { return wire_.conditions(); }
  void set_latency(Duration base, Duration jitter = {});
  /// Sets the rates of a host's link in bytes per second; 0 is unlimited.
  void set_link(const std::string& host, uint64_t up_bytes_per_second, uint64_t down_bytes_per_second);
  /// Delays every segment from and to this host, as a slow machine does.
  void set_extra_latency(const std::string& host, Duration extra);
  void set_loss(double probability);
  /// So many of a million segments arrive with one bit changed.
  void set_flips(uint32_t per_million) { conditions().flips_per_million = per_million; }
  /// So many of a million segments do not arrive: their connections break instead, on both sides.
  void set_resets(uint32_t per_million) { conditions().resets_per_million = per_million; }

  /// So many of a million segments take up to `kLongestStall`, and whatever comes later on their connections waits for them.
  static constexpr Duration kLongestStall = std::chrono::seconds(60);
  void set_stalls(uint32_t per_million) {
    conditions().stalls_per_million = per_million;
    conditions().longest_stall = kLongestStall;
  }

  /// Hosts reach only those of their group; hosts not named form one more group.
  void partition(const std::vector<std::vector<std::string>>& groups);
  void isolate(const std::string& host);
  void rejoin(const std::string& host);  ///< undoes isolate: the host is among those of no group again
  /// Only these two no longer reach each other, as behind a broken route; both reach all others.
  void cut(const std::string& a, const std::string& b);
  void mend(const std::string& a, const std::string& b);
  /// What `from` sends no longer arrives at `to`: no connection between them is made or lasts.
  void cut_one_way(const std::string& from, const std::string& to);
  void mend_one_way(const std::string& from, const std::string& to);
  bool reachable(const std::string& a, const std::string& b);
  /// Undoes all cuts, also those of one way, and groups.
  void heal();
  /// Fails all connections of a host with kUnavailable on both sides, at once.
  void drop_connections(const std::string& host);
  /// Delays what the host sends on its present connections: it arrives no sooner than after this time, also when the
  /// host has given them up meanwhile.
  void delay_connections(const std::string& host, Duration time);
  /// The host alone takes all its connections for broken. What it has sent still arrives.
  void give_up_connections(const std::string& host);

  /// Kills the network that the host's programs hold: pending and later operations fail with kCancelled. power_loss:
  /// other hosts hear nothing until they time out. Otherwise the kernel closes for the dead process.
  void crash(const std::string& host, bool power_loss);
  runtime::Network& restart(const std::string& host);

  uint64_t bytes_sent(const std::string& host);      ///< user bytes accepted for sending
  uint64_t bytes_received(const std::string& host);  ///< user bytes that arrived
  size_t connections(const std::string& host);       ///< connections not yet closed on both ends

 private:
  friend class HostNetwork;

  /// A host as the programs on it see it.
  struct Site {
    Host* host = nullptr;
    std::map<uint16_t, std::shared_ptr<Port>> ports;
    std::vector<std::unique_ptr<HostNetwork>> views;  ///< the last one lives; dead ones stay valid
    uint16_t next_port = 0;
  };
  Site& site(const std::string& name);
  uint16_t pick_port(Site& site);
  void close_port(Site& site, uint16_t number);

  Wire wire_;
  std::map<std::string, Site> sites_;
  int64_t next_isolated_group_ = -1;
};

}  // namespace kintsugi::simulation
