#include "tests/simulation/runtime/simulation.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

#include "common/base/assert.h"

namespace kintsugi::simulation {
namespace {

struct Running {
  explicit Running(bool& flag) : flag_(flag) {
    KINTSUGI_ASSERT(!flag_);  // a coroutine of the simulation must not run the simulation
    flag_ = true;
  }
  ~Running() { flag_ = false; }
  bool& flag_;
};

}  // namespace

Simulation::Simulation(uint64_t seed)
    : seed_(seed),
      io_(std::make_unique<asio::io_context>(1)),
      clock_(events_),
      random_(seed_for("test")),
      network_(std::make_unique<SimNetwork>(clock_, events_, seed_for("network"))) {}

Simulation::~Simulation() {
  // Dropped coroutines unwind through the executor and may touch the network: both must still be there.
  clock_.clear();
  io_.reset();
}

void Simulation::drain() {
  if (instant_ != clock_.now()) {
    instant_ = clock_.now();
    handlers_at_instant_ = 0;
  }
  io_->restart();
  while (io_->poll_one() > 0) {
    if (++handlers_at_instant_ > kMaxHandlersPerInstant)
      fail("some loop never waits: virtual time stands still");
  }
}

bool Simulation::step(TimePoint until) {
  const auto due = clock_.next_due();
  if (!due || *due > until) return false;
  clock_.fire_next();
  drain();
  return true;
}

void Simulation::run_for(Duration duration) {
  Running running(running_);
  const TimePoint end = clock_.now() + duration;
  drain();
  while (step(end)) {
  }
  clock_.advance_to(end);
}

bool Simulation::run_until(const std::function<bool()>& condition, Duration limit) {
  Running running(running_);
  const TimePoint end = clock_.now() + limit;
  drain();
  while (!condition()) {
    if (!step(end)) {
      clock_.advance_to(end);
      return condition();
    }
  }
  return true;
}

void Simulation::run_until_done(const bool& done, Duration limit) {
  Running running(running_);
  const TimePoint end = clock_.now() + limit;
  drain();
  while (!done) {
    if (!step(end)) {
      if (clock_.next_due()) fail(fmt::format("not done after {} s of virtual time", to_seconds(limit)));
      fail("not done, and nothing is left that could wake it (a deadlock, or a missing notification)");
    }
  }
}

void Simulation::run_to_end(asio::awaitable<void> task, Duration limit) {
  struct State {
    std::exception_ptr exception;
    bool done = false;
  };
  auto state = std::make_shared<State>();
  asio::co_spawn(executor(), std::move(task), [state](std::exception_ptr exception) {
    state->exception = exception;
    state->done = true;
  });
  run_until_done(state->done, limit);
  if (state->exception) std::rethrow_exception(state->exception);
}

void Simulation::fail(const std::string& what) {
  const std::string message =
      fmt::format("simulation, at {:.6f} s, event {}: {}. Replay with {}", to_seconds(clock_.elapsed()),
                  events_.events(), what, replay_hint());
  // Unwinding the test may trip over daemons that were never stopped: say first what went wrong.
  std::fprintf(stderr, "%s\n", message.c_str());
  throw std::runtime_error(message);
}

std::string Simulation::replay_hint() const {
  return fmt::format("KINTSUGI_SIM_SEED={}", seed_);
}

uint64_t Simulation::seed_from_environment(uint64_t fallback) {
  const char* text = std::getenv("KINTSUGI_SIM_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
}

}  // namespace kintsugi::simulation
