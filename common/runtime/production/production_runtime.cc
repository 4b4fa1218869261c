#include "common/runtime/production/production_runtime.h"

#include "common/base/assert.h"

namespace kintsugi::runtime {

namespace {

constexpr int kOneThread = 1;  // a hint: posting from other threads stays safe

}  // namespace

ProductionRuntime::ProductionRuntime(Duration busy_poll, TlsPolicy tls)
    : busy_poll_(busy_poll),
      io_(kOneThread),
      keep_running_(io_.get_executor()),
      clock_(io_),
      network_(io_, clock_),
      tls_(network_, clock_, std::move(tls)),
      disk_(io_),
      faults_(io_.get_executor(), clock_),
      runtime_{io_.get_executor(), clock_, tls_, disk_, random_, &faults_} {}

void ProductionRuntime::run() {
  bool was_running = running_.exchange(true);
  KINTSUGI_ASSERT(!was_running);
  running_.notify_all();
  std::optional<LoopTurns::Measuring> measuring;
  if (measures_turns_) measuring.emplace(turns_);
  if (busy_poll_ > Duration{}) {
    run_awake();
  } else {
    io_.run();
  }
  io_.restart();
  running_ = false;
}

void ProductionRuntime::run_awake() {
  bool of_use = false;
  while (!io_.stopped()) {
    if (io_.poll() > 0) continue;
    const bool expected = expects_soon();
    const TimePoint idle = clock_.now();
    bool found = false;
    while (expected && of_use && !found && !io_.stopped() && clock_.now() - idle < busy_poll_)
      found = io_.poll() > 0;
    if (found || io_.stopped()) continue;
    (void)io_.run_one();
    // It would have been of use if that has come soon; the handler that has run takes some of the time.
    if (expected) of_use = clock_.now() - idle < 4 * busy_poll_;
  }
}

void ProductionRuntime::stop() {
  io_.stop();
}

}  // namespace kintsugi::runtime
