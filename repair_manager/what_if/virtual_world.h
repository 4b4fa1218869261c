/// One thread in which time jumps from one due time to the next: what runs on it takes hours of virtual time and
/// milliseconds of real time. It has no network and no disk.
///
/// ```cpp
/// VirtualWorld world(seed);
/// RepairManager manager(world.runtime(), options, view, nullptr);
/// manager.start();
/// world.run_until([&] { return done; }, std::chrono::hours(1000));
/// world.run(manager.stop());
/// ```
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "common/base/hash.h"
#include "common/runtime/runtime.h"

namespace kintsugi::what_if {

/// Time stands still until fire_next() moves it.
class VirtualClock final : public runtime::Clock {
 public:
  TimePoint now() const override { return now_; }
  WallTime wall_now() const override { return WallTime(now_.time_since_epoch()); }
  runtime::TimerId call_at(TimePoint due, std::function<void()> callback) override;
  bool cancel(runtime::TimerId timer) override;

  /// Jumps to the earliest timer that is due by `until`, and runs it; false when there is none.
  bool fire_next(TimePoint until);

 private:
  // The beginning of time is not zero, so that a default TimePoint lies in the past.
  TimePoint now_{1h};
  uint64_t last_ = 0;
  std::map<std::pair<TimePoint, uint64_t>, std::function<void()>> timers_;
  std::unordered_map<uint64_t, TimePoint> due_;
};

/// Numbers from a seed (splitmix64), the same on every machine.
class SeededRandom final : public runtime::Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t next() override { return mix_bits(state_ += kGoldenRatio); }
  void fill(std::span<std::byte> out) override;

 private:
  uint64_t state_;
};

/// It outlives everything that was built on its runtime.
class VirtualWorld {
 public:
  explicit VirtualWorld(uint64_t seed);
  ~VirtualWorld();
  VirtualWorld(const VirtualWorld&) = delete;
  VirtualWorld& operator=(const VirtualWorld&) = delete;

  runtime::Runtime runtime();
  asio::any_io_executor executor() { return io_.get_executor(); }
  VirtualClock& clock() { return clock_; }
  SeededRandom& random() { return random_; }
  TimePoint now() const { return clock_.now(); }

  /// Runs until `condition` holds, which is asked at every instant. False: `limit` of virtual time has passed, or nothing
  /// is left that could happen.
  bool run_until(const std::function<bool()>& condition, Duration limit);
  /// Runs until the task has ended. REQUIRES: it does not wait for ever.
  void run(asio::awaitable<void> task);

 private:
  void drain();

  asio::io_context io_{1};
  VirtualClock clock_;
  SeededRandom random_;
  std::unique_ptr<runtime::Network> network_;
  std::unique_ptr<runtime::Disk> disk_;
};

}  // namespace kintsugi::what_if
