/// The production clock: one Asio timer behind a queue of many timers.
#pragma once

#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/runtime/clock.h"

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::runtime {

/// Every RPC sets a timer and cancels it, so both are cheap: a heap with positions, without allocation once
/// it has grown, and the Asio timer is touched only when the earliest due time gets earlier (a cancelled one
/// just fires for nothing later).
class SteadyClock final : public Clock {
 public:
  explicit SteadyClock(asio::io_context& io);

  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  WallTime wall_now() const override { return std::chrono::system_clock::now(); }
  TimerId call_at(TimePoint due, std::function<void()> callback) override;
  bool cancel(TimerId timer) override;

  size_t pending() const { return heap_.size(); }

 private:
  struct Slot {
    std::function<void()> callback;
    uint32_t generation = 1;  // tells a reused slot from the one that a stale TimerId means
    uint32_t position = 0;    // index in heap_
  };
  struct Node {
    TimePoint due;
    uint64_t sequence = 0;
    uint32_t slot = 0;
    bool operator<(const Node& other) const {
      return due != other.due ? due < other.due : sequence < other.sequence;
    }
  };

  void arm(TimePoint due);
  void fire();
  std::function<void()> take(uint32_t position);
  void place(uint32_t position, const Node& node);
  void sift_up(uint32_t position);
  void sift_down(uint32_t position);

  asio::steady_timer timer_;
  TimePoint armed_for_ = TimePoint::max();  // max(): the timer is not armed
  uint64_t next_sequence_ = 0;
  std::vector<Node> heap_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> unused_slots_;
};

}  // namespace kintsugi::runtime
