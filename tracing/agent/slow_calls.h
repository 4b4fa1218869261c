/// Waits for a request that takes long: longer than it is told, or longer than 99.9 % of those before it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "common/rpc/call_watch.h"
#include "common/runtime/clock.h"

namespace kintsugi::tracing {

class SlowCalls final : public rpc::CallWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  /// Requests that are watched at a time; later ones are not.
  static constexpr size_t kMostOpen = 4096;
  /// Without a limit of its own, so many have to end before one is called slow.
  static constexpr uint64_t kLeastKnown = 1000;

  static SlowCalls& of_process();

  /// Watches requests of this method from now on. `limit`: none: the time that 999 of 1,000 have taken, once there were so many.
  void begin(rpc::Method method, std::optional<Duration> limit);
  /// Nothing is watched any more.
  void end();
  /// What was slow, in words: a request that is served still, or one that has ended. None: nothing yet.
  std::optional<std::string> found(TimePoint now = std::chrono::steady_clock::now());
  /// Why nothing was found, for whoever waited in vain.
  std::string nothing_found() const;

  uint64_t began(rpc::Method method) override { return began(method, std::chrono::steady_clock::now()); }
  void ended(uint64_t number) override { ended(number, std::chrono::steady_clock::now()); }
  uint64_t began(rpc::Method method, TimePoint now);
  void ended(uint64_t number, TimePoint now);

 private:
  /// Counts durations by their size: eight sizes to each doubling, from a microsecond on.
  static constexpr size_t kSizesOfADoubling = 8, kSizes = 40 * kSizesOfADoubling;
  static size_t size_of(Duration took);
  std::optional<Duration> limit() const;
  void judge(Duration took, bool is_open);

  mutable std::mutex mutex_;
  bool active_ = false;
  rpc::Method method_{};
  std::optional<Duration> told_;
  std::map<uint64_t, TimePoint> open_;  ///< by number, so the oldest is the first
  uint64_t last_number_ = 0, known_ = 0;
  std::array<uint64_t, kSizes> counts_{};
  std::optional<std::string> found_;
};

}  // namespace kintsugi::tracing
