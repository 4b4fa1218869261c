/// A world in one thread: virtual time, an in-memory network and one seed that decides everything.
///
/// ```cpp
/// Simulation simulation(seed);
/// SimNode server(simulation, "10.0.0.1"), client(simulation, "10.0.0.2");
/// simulation.run(talk(client.runtime(), ...));
/// ```
///
/// Two runs with one seed and one program do the same, event by event (`event_hash`). Real time is never read.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "tests/simulation/runtime/event_hash.h"
#include "tests/simulation/runtime/sim_clock.h"
#include "tests/simulation/runtime/sim_network.h"
#include "tests/simulation/runtime/sim_random.h"

namespace kintsugi::simulation {

/// It outlives everything that was built on it. When it is destroyed, coroutines that still sleep are dropped
/// where they are; a test should stop its daemons first.
class Simulation {
 public:
  /// `run` and `run_until` give up after this much virtual time.
  static constexpr Duration kDefaultLimit = std::chrono::hours(1);
  /// More handlers than this at one instant of virtual time mean a loop that never waits.
  static constexpr size_t kMaxHandlersPerInstant = 20'000'000;

  explicit Simulation(uint64_t seed);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  asio::any_io_executor executor() { return io_->get_executor(); }
  SimClock& clock() { return clock_; }
  EventHash& events() { return events_; }
  /// Random numbers for the test itself. Nodes have their own (`seed_for`), so that one does not disturb the others.
  SimRandom& random() { return random_; }
  SimNetwork& network() { return *network_; }
  uint64_t seed() const { return seed_; }
  uint64_t seed_for(std::string_view purpose) const { return mix_bits(seed_ ^ mix_bits(hash_name(purpose))); }

  TimePoint now() const { return clock_.now(); }
  void run_for(Duration duration);
  /// Runs until `condition` holds (true) or `limit` of virtual time passed (false). It is checked at every instant.
  bool run_until(const std::function<bool()>& condition, Duration limit = kDefaultLimit);
  /// Runs until `task` ended and returns what it returned; rethrows what left it. Throws std::runtime_error,
  /// after printing it, when `limit` passes or nothing is left that could wake the task.
  template <class T>
  T run(asio::awaitable<T> task, Duration limit = kDefaultLimit);

  /// The hash of every timer that fired, message delivered and disk operation done, in order.
  uint64_t event_hash() const { return events_.value(); }
  /// The environment in which the same happens again: "KINTSUGI_SIM_SEED=42".
  std::string replay_hint() const;
  /// The value of KINTSUGI_SIM_SEED in the environment, or `fallback`.
  static uint64_t seed_from_environment(uint64_t fallback);

 private:
  /// Runs the next timer if it is due by `until`, and everything that it made ready. False when there was none.
  bool step(TimePoint until);
  void drain();
  void run_until_done(const bool& done, Duration limit);
  /// This is no template, so that the start of a coroutine is compiled once and not for every type.
  void run_to_end(asio::awaitable<void> task, Duration limit);
  [[noreturn]] void fail(const std::string& what);

  const uint64_t seed_;
  std::unique_ptr<asio::io_context> io_;
  EventHash events_;
  SimClock clock_;
  SimRandom random_;
  std::unique_ptr<SimNetwork> network_;
  bool running_ = false;
  TimePoint instant_;
  size_t handlers_at_instant_ = 0;
};

template <class T>
asio::awaitable<void> keep_result(asio::awaitable<T> task, std::shared_ptr<std::optional<T>> result) {
  result->emplace(co_await std::move(task));
}

template <class T>
T Simulation::run(asio::awaitable<T> task, Duration limit) {
  if constexpr (std::is_void_v<T>) {
    run_to_end(std::move(task), limit);
  } else {
    auto result = std::make_shared<std::optional<T>>();  // the task may outlive a run that failed
    run_to_end(keep_result(std::move(task), result), limit);
    return std::move(**result);
  }
}

}  // namespace kintsugi::simulation
