#include "chunkserver/repair/repair_pacer.h"

#include <algorithm>

namespace kintsugi::chunkserver {

double RepairPacer::rate(bool up) {
  const UserLoad now = load ? load() : UserLoad{};
  if (now.serving > 0) users_until_ = clock_.now() + kUserMemory;
  const bool users = clock_.now() < users_until_ || now.user > 0;
  const double link = up ? now.link_up : now.link_down;
  if (link <= 0) {
    const bool yield = clock_.now() < users_until_;
    return yield ? cap_ / 2 : cap_;
  }
  if (cap_ <= 0 && !users) return 0;
  const double cap = cap_ > 0 ? cap_ : link;
  return std::max(kLeast * cap, std::min(cap, kLinkShare * link - now.user));
}

asio::awaitable<void> RepairPacer::Direction::let_users_go_first(uint64_t bytes) {
  const TimePoint until = clock_.now() + std::max<Duration>(kCheckInterval, kYieldForMiB * bytes / (1 << 20));
  while (pacer_.users() && clock_.now() < until)
    co_await never_.wait_until(std::min(until, clock_.now() + kCheckInterval));
}

asio::awaitable<void> RepairPacer::Direction::pass(uint64_t bytes, bool is_urgent) {
  const TimePoint began = clock_.now();
  co_await wait_turn(bytes, is_urgent);
  waited_ += clock_.now() - began;
}

TimePoint RepairPacer::Direction::book(TimePoint& free, uint64_t bytes, double rate) const {
  const TimePoint now = clock_.now();
  if (rate <= 0) return now;
  const auto takes =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(double(bytes) / rate));
  // Booked before the wait, so that calls side by side share the rate; at most kMaxWait ahead, so that a rate that
  // falls for a moment does not hold up what comes later.
  free = std::min(std::max(free, now - kBurst) + takes, now + kMaxWait);
  return free;
}

asio::awaitable<void> RepairPacer::Direction::wait_turn(uint64_t bytes, bool is_urgent) {
  if (pacer_.users()) co_await let_users_go_first(bytes);
  TimePoint turn = book(free_, bytes, pacer_.rate(up_));
  if (!is_urgent) turn = std::max(turn, book(free_usual_, bytes, pacer_.limit_));
  if (turn > clock_.now()) co_await never_.wait_until(turn);
}

}  // namespace kintsugi::chunkserver
