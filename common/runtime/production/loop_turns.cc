#include "common/runtime/production/loop_turns.h"

#include <algorithm>
#include <ctime>

#include <sys/epoll.h>

#include "common/base/assert.h"
#include "common/runtime/turn_place.h"

namespace kintsugi::runtime {
namespace {

/// Turns that took less together are not worth a call of the kernel.
constexpr Duration kWorthReading = 1ms;

thread_local constinit LoopTurns* measured = nullptr;

Duration processor_time() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

LoopTurns::Measuring::Measuring(LoopTurns& turns) {
  KINTSUGI_ASSERT(measured == nullptr);
  measured = &turns;
  turns.read_ = processor_time();
  turns.begin();
}

LoopTurns::Measuring::~Measuring() {
  measured->end();
  measured = nullptr;
}

int LoopTurns::wait_for_events(int epoll, epoll_event* events, int room, int timeout) {
  if (measured != nullptr) measured->end();
  const int found = ::epoll_wait(epoll, events, room, timeout);
  if (measured != nullptr) measured->begin();
  return found;
}

void LoopTurns::begin() {
  TurnPlace::here().begin();
  began_ = now();
}

void LoopTurns::end() {
  const TimePoint ended = now();
  const Duration wall = ended - began_;
  unread_ += wall;
  if (unread_ < kWorthReading) {
    ++totals_.turns[0];
  } else {
    read_processor_time(wall, ended);
  }
}

void LoopTurns::read_processor_time(Duration wall, TimePoint ended) {
  const Duration before = std::exchange(read_, processor_time());
  unread_ = {};
  totals_.ran += read_ - before;
  // The short turns since the last reading are in it: that is a millisecond at most.
  const Duration took = std::min(wall, read_ - before);
  const auto bucket = std::ranges::lower_bound(kBounds, took) - kBounds.begin();
  ++totals_.turns[static_cast<size_t>(bucket)];
  if (took <= kLong) return;
  const Site* const site = TurnPlace::here().longest(ended.time_since_epoch().count());
  on_long(site != nullptr ? site->name : std::string_view(), took);
}

}  // namespace kintsugi::runtime
