/// Bandwidth as a fluid: flows share links max-min fairly, at virtual time.
///
/// A flow has one rate and takes a part of it on every link that it uses: a chain of servers that pass a sum on is one
/// flow over all their links, as fast as its slowest hop lets it be. Rates are those of progressive filling: all rise
/// equally until a link is full, its flows keep what they have, the others continue. They change at once when a flow
/// begins or ends. There are neither packets nor losses nor slow starts: this answers where bytes go and when, on more
/// servers than can be run.
///
/// Filling starts again where it has to. A flow that ends at rate r leaves all flows below r as they are: no link of its
/// own was full at a lower level. One that begins does not change flows below the level at which the first of its links
/// will be full. So flows below the lowest of these levels keep their rates, and only the others are filled anew.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "common/runtime/clock.h"

namespace kintsugi::what_if {

class FluidNetwork {
 public:
  /// Flows that end within `together_seconds` of one another end together: one computation of rates instead of many.
  struct Settings {
    double together_seconds = 100e-6;
    /// When so many links are full, the flows that still have no rate get what the links' free parts allow at once.
    size_t most_full_links = std::numeric_limits<size_t>::max();
    /// For benchmarks: measures what seconds_spent() tells; null: nothing is measured. It outlives the network.
    const runtime::Clock* stopwatch = nullptr;
  };

  /// `clock` outlives it.
  FluidNetwork(runtime::Clock& clock, Settings settings) : clock_(clock), settings_(settings) {}
  explicit FluidNetwork(runtime::Clock& clock) : FluidNetwork(clock, Settings{}) {}
  ~FluidNetwork();
  FluidNetwork(const FluidNetwork&) = delete;
  FluidNetwork& operator=(const FluidNetwork&) = delete;

  /// For the turns to come.
  void set_precision(double together_seconds, size_t most_full_links) {
    settings_.together_seconds = together_seconds;
    settings_.most_full_links = most_full_links;
  }

  using Link = uint32_t;
  Link add_link(double bytes_per_second);
  double capacity(Link link) const { return links_[link].capacity; }
  /// Bytes that the flows so far take over the link, those that still run to their ends.
  double carried(Link link) const { return links_[link].carried; }
  size_t links() const { return links_.size(); }

  struct Share {
    Link link;
    double weight;  ///< bytes on the link for each byte of the flow
  };
  /// Begins a flow of at most `max_rate` bytes/s; a timer calls `done` when `bytes` went through. REQUIRES: there is a
  /// share, every share's weight is positive, and no link has two shares.
  void start(std::span<const Share> shares, double bytes, double max_rate, std::function<void()> done);

  size_t flows() const { return order_.size(); }
  double seconds_spent() const { return seconds_spent_; }  ///< real time spent on rates (Settings::stopwatch)
  uint64_t turns() const { return turns_; }                ///< times at which flows began or ended
  uint64_t share_visits() const { return share_visits_; }  ///< shares of the flows that were filled anew

 private:
  using Slot = uint32_t;  // position of a flow in flows_; used again after its end

  struct Flow {
    std::vector<Share> shares;
    double left = 0, max_rate = 0, rate = 0;
    bool open = false;  // while rates are computed: it has none yet
    std::function<void()> done;
  };
  struct User {
    Slot flow;
    double weight;
  };
  struct LinkState {
    double capacity = 0, carried = 0;
    double used = 0;    // by flows that have their rates
    double weight = 0;  // of the open flows
    uint32_t open = 0;  // their number
    double level = 0;   // only for rise_to_limits()
    std::vector<User> users;
  };
  struct Full {
    double level;
    Link link;
    bool operator>(const Full& other) const {
      return level != other.level ? level > other.level : link > other.link;
    }
  };

  void wake_at(TimePoint due);
  void turn();
  void advance(TimePoint now);
  void remove(Slot slot);
  void compute_rates();
  double level_of(const Flow& begun) const;
  void open_from(double level);
  void fill();
  void rise_to_limits();
  void settle(Flow& flow, double rate);
  double full_at(const LinkState& link) const;

  runtime::Clock& clock_;
  Settings settings_;
  std::vector<LinkState> links_;
  std::vector<Flow> flows_;
  std::vector<Slot> free_;
  std::vector<Slot> order_;     // flows that run, in the order in which they began
  std::vector<Slot> by_limit_;  // the same by max_rate
  std::vector<Slot> begun_;     // flows that have no rate yet
  // The lowest rate of those that ended since rates were computed.
  double refill_from_ = std::numeric_limits<double>::infinity();
  std::vector<Full> full_;  // heap of the links with open flows; levels are lower bounds
  std::vector<Link> touched_;
  TimePoint as_of_{};
  TimePoint due_ = TimePoint::max();
  runtime::TimerId timer_{};
  double seconds_spent_ = 0;
  uint64_t share_visits_ = 0, turns_ = 0;
};

}  // namespace kintsugi::what_if
