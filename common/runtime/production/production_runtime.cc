#include "common/runtime/production/production_runtime.h"

#include "common/base/assert.h"

namespace kintsugi::runtime {

namespace {

constexpr int kOneThread = 1;  // a hint: posting from other threads stays safe

}  // namespace

ProductionRuntime::ProductionRuntime()
    : io_(kOneThread),
      keep_running_(io_.get_executor()),
      clock_(io_),
      network_(io_, clock_),
      disk_(io_),
      faults_(io_.get_executor(), clock_),
      runtime_{io_.get_executor(), clock_, network_, disk_, random_, &faults_} {}

void ProductionRuntime::run() {
  bool was_running = running_.exchange(true);
  KINTSUGI_ASSERT(!was_running);
  running_.notify_all();
  io_.run();
  io_.restart();
  running_ = false;
}

void ProductionRuntime::stop() {
  io_.stop();
}

}  // namespace kintsugi::runtime
