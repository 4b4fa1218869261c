#include "monitoring/recording/sampler.h"

#include <condition_variable>
#include <ctime>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include <boost/asio/post.hpp>

#include "common/base/signals_blocked.h"
#include "common/log/log.h"
#include "common/runtime/production/run.h"
#include "common/runtime/task_group.h"

namespace kintsugi::recording {
namespace {

Duration processor_time_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

/// Lives as long as the thread, which may outlive the Sampler when its disk hangs.
struct Sampler::Shared {
  explicit Shared(RecordingOptions given) : options(std::move(given)) {}

  asio::awaitable<void> ticks(const runtime::Runtime& runtime, runtime::TaskGroup& tasks);
  void tell(const Recording& recording);
  std::optional<std::vector<Target>> take_targets();

  const RecordingOptions options;
  std::mutex mutex;  ///< guards what follows
  std::condition_variable changed;
  std::optional<std::vector<Target>> targets;  ///< none: as before
  SamplerState state;
  bool stopping = false, ended = false;
  runtime::ProductionRuntime* own = nullptr;  ///< that of the thread, while it runs
  runtime::TaskGroup* tasks = nullptr;
};

std::optional<std::vector<Target>> Sampler::Shared::take_targets() {
  const std::lock_guard lock(mutex);
  return std::exchange(targets, std::nullopt);
}

void Sampler::Shared::tell(const Recording& recording) {
  const std::lock_guard lock(mutex);
  state = {.recording = recording.state(), .processor_time = processor_time_of_this_thread()};
}

asio::awaitable<void> Sampler::Shared::ticks(const runtime::Runtime& runtime, runtime::TaskGroup& group) {
  Recording recording(runtime, options);
  TimePoint due = runtime.clock.now();
  while (co_await group.sleep_until(due)) {
    if (const auto now = take_targets()) recording.set_targets(*now);
    if (runtime.clock.now() - due > options.period / 2)
      recording.miss();
    else
      co_await recording.tick();
    tell(recording);
    for (due += options.period; due + options.period / 2 < runtime.clock.now(); due += options.period)
      recording.miss();
  }
  co_await group.join();
}

void Sampler::run(const std::shared_ptr<Shared>& shared) {
  {
    runtime::ProductionRuntime here;
    runtime::TaskGroup group(here.runtime());
    bool go = false;
    {
      const std::lock_guard lock(shared->mutex);
      go = !shared->stopping;
      if (go) shared->own = &here, shared->tasks = &group;
    }
    if (go) runtime::run_on(here, shared->ticks(here.runtime(), group));
    const std::lock_guard lock(shared->mutex);
    shared->own = nullptr;
    shared->tasks = nullptr;
  }
  const std::lock_guard lock(shared->mutex);
  shared->ended = true;
  shared->changed.notify_all();
}

Sampler::Sampler(RecordingOptions options) : shared_(std::make_shared<Shared>(std::move(options))) {}

Sampler::~Sampler() {
  stop();
}

Status Sampler::start() {
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([shared = shared_] { run(shared); });
  } catch (const std::system_error& failure) {
    return {Code::kUnavailable, failure.what()};
  }
  return {};
}

void Sampler::set_targets(std::vector<Target> targets) {
  const std::lock_guard lock(shared_->mutex);
  shared_->targets = std::move(targets);
}

SamplerState Sampler::state() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->state;
}

void Sampler::stop() {
  std::unique_lock lock(shared_->mutex);
  if (std::exchange(shared_->stopping, true) || !thread_.joinable()) return;
  if (shared_->own != nullptr)
    asio::post(shared_->own->io(), [tasks = shared_->tasks] { tasks->request_stop(); });
  const bool ended = shared_->changed.wait_for(lock, kStopLimit, [&] { return shared_->ended; });
  lock.unlock();
  if (ended) return thread_.join();
  log::warning("stopped without waiting any longer for the disk of the recorded metrics");
  thread_.detach();
}

}  // namespace kintsugi::recording
