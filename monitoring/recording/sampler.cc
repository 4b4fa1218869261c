#include "monitoring/recording/sampler.h"

#include <condition_variable>
#include <ctime>
#include <exception>
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
  void run();
  void sample_until_stopped();
  /// Waits until it is time to begin anew. False: the sampler stops.
  bool failed(const std::exception& failure);

  const RecordingOptions options;
  std::mutex mutex;  ///< guards what follows
  std::condition_variable changed;
  std::optional<std::vector<Target>> targets;  ///< none: as before
  std::vector<Target> last_targets;
  RecordingState earlier;  ///< counts of the recordings that ended by an exception
  SamplerState state;
  bool stopping = false, ended = false;
  runtime::ProductionRuntime* own = nullptr;  ///< the thread's runtime, while it runs
  runtime::TaskGroup* tasks = nullptr;
};

std::optional<std::vector<Target>> Sampler::Shared::take_targets() {
  const std::lock_guard lock(mutex);
  if (targets) last_targets = *targets;
  return std::exchange(targets, std::nullopt);
}

void Sampler::Shared::tell(const Recording& recording) {
  const std::lock_guard lock(mutex);
  state = {.recording = recording.state(), .processor_time = processor_time_of_this_thread()};
  state.recording.rows += earlier.rows;
  state.recording.missed_rows += earlier.missed_rows;
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

void Sampler::Shared::sample_until_stopped() {
  runtime::ProductionRuntime here({}, options.tls);
  runtime::TaskGroup group(here.runtime());
  {
    const std::lock_guard lock(mutex);
    if (stopping) return;
    own = &here, tasks = &group;
  }
  const auto gone = [this](void*) {
    const std::lock_guard lock(mutex);
    own = nullptr, tasks = nullptr;
  };
  const std::unique_ptr<Shared, decltype(gone)> while_it_runs(this, gone);
  runtime::run_on(here, ticks(here.runtime(), group));
}

bool Sampler::Shared::failed(const std::exception& failure) {
  std::unique_lock lock(mutex);
  const bool told = !std::exchange(state.recording.stopped, failure.what()).empty();
  ++state.recording.missed_rows;
  earlier = state.recording;
  if (!told) {
    lock.unlock();
    log::warning("metrics are not recorded: {}; that is tried again every {} s, and nothing else stops",
                 failure.what(), kAgain / std::chrono::seconds(1));
    lock.lock();
  }
  if (!targets) targets = last_targets;
  return !changed.wait_for(lock, kAgain, [this] { return stopping; });
}

void Sampler::Shared::run() {
  for (bool again = true; again;) {
    again = false;
    try {
      sample_until_stopped();
    } catch (const std::exception& failure) {
      again = failed(failure);
    }
  }
  const std::lock_guard lock(mutex);
  ended = true;
  changed.notify_all();
}

Sampler::Sampler(RecordingOptions options) : shared_(std::make_shared<Shared>(std::move(options))) {}

Sampler::~Sampler() {
  stop();
}

Status Sampler::start() {
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([shared = shared_] { shared->run(); });
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
  shared_->changed.notify_all();
  if (shared_->own != nullptr)
    asio::post(shared_->own->io(), [tasks = shared_->tasks] { tasks->request_stop(); });
  const bool ended = shared_->changed.wait_for(lock, kStopLimit, [&] { return shared_->ended; });
  lock.unlock();
  if (ended) return thread_.join();
  log::warning("stopped without waiting any longer for the disk of the recorded metrics");
  thread_.detach();
}

}  // namespace kintsugi::recording
