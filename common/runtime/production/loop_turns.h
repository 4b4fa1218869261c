/// How long the thread of an event loop runs what has come, before it looks whether something else has: one turn.
/// Whatever comes meanwhile waits for the end of the turn.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "common/runtime/clock.h"

struct epoll_event;

namespace kintsugi::runtime {

/// It belongs to the thread that runs the loop. A turn costs two readings of the clock; the processor's time is read
/// after turns that took a millisecond, and else once for each millisecond of short ones.
class LoopTurns {
 public:
  /// Upper bounds of the histogram; longer turns are counted in a bucket of their own.
  static constexpr std::array kBounds{Duration(1ms),   Duration(2ms),  Duration(5ms),   Duration(10ms),
                                      Duration(20ms),  Duration(50ms), Duration(100ms), Duration(200ms),
                                      Duration(500ms), Duration(1s),   Duration(5s)};
  /// No turn should take more.
  static constexpr Duration kLong = 20ms;

  struct Totals {
    std::array<uint64_t, kBounds.size() + 1> turns{};  ///< index: bucket of processor time
    Duration ran{};  ///< processor time of the thread, in turns or looking for events
  };
  const Totals& totals() const { return totals_; }

  /// Called after a turn that took more than kLong of processor time, with the name of the region that ran longest in
  /// it (empty: it has none).
  std::function<void(std::string_view ran, Duration processor_time)> on_long = [](std::string_view,
                                                                                  Duration) {};

  /// While one exists the calling thread's looks for events are boundaries of turns.
  class Measuring {
   public:
    explicit Measuring(LoopTurns& turns);
    ~Measuring();
    Measuring(const Measuring&) = delete;
  };

  /// Asio's call of epoll_wait, everywhere in this process (asio_impl.cc).
  static int wait_for_events(int epoll, epoll_event* events, int room, int timeout);

 private:
  void begin();
  void end();
  void read_processor_time(Duration wall, TimePoint now);

  TimePoint began_{};
  Duration unread_{};  ///< wall time of the turns since the processor time was last read
  Duration read_{};    ///< processor time at the last reading
  Totals totals_;
};

}  // namespace kintsugi::runtime
