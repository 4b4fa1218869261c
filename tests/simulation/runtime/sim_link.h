/// One direction of a host's network card: sends segments one after another at a rate, fair between connections.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <set>
#include <unordered_map>

#include "tests/simulation/runtime/sim_clock.h"

namespace kintsugi::simulation {

struct Stream;

/// A piece of a byte stream on its way.
struct Segment {
  static constexpr size_t kMaxBytes = 64 * 1024;
  enum class Kind : uint8_t { kData, kEnd, kReset };

  Kind kind = Kind::kData;
  std::unique_ptr<std::byte[]> bytes;
  size_t size = 0;
};

struct Parcel {
  std::shared_ptr<Stream> stream;
  int from = 0;  ///< which end of the stream sent it
  Segment segment;
  TimePoint last_byte_at;  ///< when its last byte reaches the receiver's card

  uint64_t flow() const;
};

/// Connections with something to send take turns, a segment each, in the order in which they became ready.
class Link {
 public:
  /// Called when the first bit of `parcel` leaves at `start`; its last leaves at `finish`.
  using Serve = std::function<void(Parcel parcel, TimePoint start, TimePoint finish)>;
  /// False holds the parcel, and all of its connection behind it, until `unpark`.
  using MayPass = std::function<bool(const Parcel& parcel)>;

  Link(SimClock& clock, uint64_t bytes_per_second, MayPass may_pass, Serve serve)
      : clock_(clock), rate_(bytes_per_second), may_pass_(std::move(may_pass)), serve_(std::move(serve)) {}

  /// Sets the rate; 0 is unlimited. It applies to segments that have not begun.
  void set_rate(uint64_t bytes_per_second) { rate_ = bytes_per_second; }
  void push(Parcel parcel);
  /// Forgets the waiting segments of one connection's direction.
  void discard(uint64_t flow);
  void unpark();

 private:
  void pump();
  Duration time_for(size_t bytes) const;

  SimClock& clock_;
  uint64_t rate_;
  MayPass may_pass_;
  Serve serve_;
  std::unordered_map<uint64_t, std::deque<Parcel>> queues_;  ///< by flow; never iterated
  std::deque<uint64_t> ready_;                               ///< flows whose turn comes, each once
  std::set<uint64_t> parked_;
  TimePoint busy_until_;
  bool timer_armed_ = false;
  bool pumping_ = false;
};

}  // namespace kintsugi::simulation
