/// Bandwidth as a fluid: flows share links max-min fairly, at virtual time.
///
/// A flow has one rate and takes a part of it on every link that it uses: a chain of servers that pass a sum on is one
/// flow over all their links, as fast as its slowest hop lets it be. Rates are those of progressive filling: all rise
/// equally until a link is full, its flows keep what they have, the others go on. They change at once when a flow
/// begins or ends. There are neither packets nor losses nor slow starts: this answers where bytes go and when, on more
/// servers than can be run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "common/runtime/clock.h"

namespace kintsugi::simulation {

class FluidNetwork {
 public:
  /// `clock` outlives it.
  explicit FluidNetwork(runtime::Clock& clock) : clock_(clock) {}
  ~FluidNetwork();
  FluidNetwork(const FluidNetwork&) = delete;
  FluidNetwork& operator=(const FluidNetwork&) = delete;

  using Link = uint32_t;
  Link add_link(double bytes_per_second);

  struct Share {
    Link link;
    double weight;  ///< bytes on the link for each byte of the flow
  };
  /// Begins a flow of at most `max_rate` bytes/s; a timer calls `done` when `bytes` went through. REQUIRES: there is a
  /// share, and every share's weight is positive.
  void start(std::vector<Share> shares, double bytes, double max_rate, std::function<void()> done);

  size_t flows() const { return flows_.size(); }
  /// Real time spent on rates, and how often they were computed.
  double seconds_spent() const { return seconds_spent_; }
  uint64_t computations() const { return computations_; }

 private:
  struct Flow {
    std::vector<Share> shares;
    double left, max_rate;
    std::function<void()> done;
    double rate = 0;
  };
  struct LinkState {
    double capacity;
    double weight = 0, free = 0, level = 0;  // used while rates are computed
    std::vector<Flow*> flows;
  };

  void wake_at(TimePoint due);
  void turn();
  void advance(TimePoint now);
  void compute_rates();

  runtime::Clock& clock_;
  std::vector<LinkState> links_;
  std::map<uint64_t, Flow> flows_;  // in the order in which they began
  uint64_t next_flow_ = 0;
  TimePoint as_of_{};
  TimePoint due_ = TimePoint::max();
  runtime::TimerId timer_{};
  double seconds_spent_ = 0;
  uint64_t computations_ = 0;
};

}  // namespace kintsugi::simulation
