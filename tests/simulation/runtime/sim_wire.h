/// The wire between hosts: links, latency, loss, who can reach whom, and the effects of these on connections.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/runtime/sim_link.h"
#include "tests/simulation/runtime/sim_random.h"
#include "tests/simulation/runtime/sim_stream.h"

namespace kintsugi::simulation {

struct Host {
  std::string name;
  uint64_t index = 0;  ///< order of creation
  int64_t group = 0;   ///< only hosts of one group reach each other
  bool powered = true;
  Duration extra_latency{};
  std::unique_ptr<Link> up;
  std::unique_ptr<Link> down;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
};

struct Conditions {
  uint64_t link_bytes_per_second = 1'250'000'000;  ///< the rate of new hosts, each way
  Duration latency = std::chrono::microseconds(100);
  Duration jitter = std::chrono::microseconds(20);  ///< added, uniform in [0, jitter]
  Duration loopback_latency = std::chrono::microseconds(20);
  /// How many segments arrive with one bit changed, which TCP did not notice.
  uint32_t flips_per_million = 0;
  /// How many segments are not delivered, but end their connection on both sides.
  uint32_t resets_per_million = 0;
  /// How many segments with data take up to `longest_stall` more.
  uint32_t stalls_per_million = 0;
  Duration longest_stall{};
  uint32_t loss_per_million = 0;  ///< how many segments are lost; these arrive `retransmit_after` later
  Duration retransmit_after = std::chrono::milliseconds(200);
  Duration break_after = std::chrono::seconds(15);  ///< a connection whose hosts are cut off that long breaks
};

class Wire {
 public:
  Wire(SimClock& clock, EventHash& events, uint64_t seed) : clock_(clock), events_(events), random_(seed) {}

  Conditions& conditions() { return conditions_; }
  SimClock& clock() { return clock_; }

  Host& host(const std::string& name);  ///< made when unknown
  Host* find(const std::string& name);  ///< null when unknown
  const std::vector<std::unique_ptr<Host>>& hosts() const { return hosts_; }
  /// Nothing but a one-way cut keeps one of them from the other.
  bool reachable(const Host& a, const Host& b) const;
  /// What `from` sends arrives at `to`.
  bool carries(const Host& from, const Host& to) const;
  /// REQUIRES: this is called whenever `group` or `powered` of a host, or `cuts`, or `one_way_cuts` changed.
  void reachability_changed();
  /// Pairs of hosts, by index, smaller one first, that do not reach each other whatever their groups are.
  std::set<std::pair<uint64_t, uint64_t>>& cuts() { return cuts_; }
  /// Pairs of hosts, by index, where the second hears nothing of the first.
  std::set<std::pair<uint64_t, uint64_t>>& one_way_cuts() { return one_way_cuts_; }
  Duration draw_latency(const Host& from, const Host& to);

  std::shared_ptr<Stream> connect(Host& dialler, runtime::Endpoint dialler_name, Host& acceptor,
                                  runtime::Endpoint acceptor_name);
  void send(const std::shared_ptr<Stream>& stream, int from, Segment segment);
  /// Closes as TCP does: bytes that were written still arrive, then the end of the stream; but a reset when bytes
  /// are left unread.
  void close(const std::shared_ptr<Stream>& stream, int side);
  /// Ends the stream with its host: nothing more comes from this end, and the other end is not told.
  void vanish(const std::shared_ptr<Stream>& stream, int side);
  void fail(const std::shared_ptr<Stream>& stream, int side, Status why);
  /// Tells the other end that this one is no more.
  void reset(const std::shared_ptr<Stream>& stream, int from);
  /// Live connections with an end at `host`, oldest first.
  std::vector<std::shared_ptr<Stream>> streams_of(const Host& host) const;

 private:
  void leave(Parcel parcel, TimePoint start, TimePoint finish);
  void arrive(Parcel parcel, TimePoint finish);
  void deliver(Parcel parcel);
  void break_stale();
  void forget_if_over(const Stream& stream);

  SimClock& clock_;
  EventHash& events_;
  SimRandom random_;
  Conditions conditions_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::map<std::string, Host*> by_name_;
  std::map<uint64_t, std::shared_ptr<Stream>> streams_;
  std::set<std::pair<uint64_t, uint64_t>> cuts_;
  std::set<std::pair<uint64_t, uint64_t>> one_way_cuts_;
  uint64_t next_stream_ = 1;
};

}  // namespace kintsugi::simulation
