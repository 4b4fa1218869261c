#include "monitoring/sight/observer.h"

#include <atomic>
#include <condition_variable>
#include <thread>

#include <boost/asio/post.hpp>
#include <unistd.h>

#include "common/base/signals_blocked.h"
#include "common/log/log.h"
#include "common/runtime/production/processor_time.h"
#include "common/runtime/production/run.h"
#include "monitoring/sight/stack_sample.h"
#include "monitoring/sight/trace_exporter.h"
#include "monitoring/sight/wall_jumps.h"

namespace kintsugi::sight {

namespace {

constexpr Duration kTick = 200ms;  ///< interval between two checks of the event loop
/// The observer's own thread woke up so much later than it should have: the whole process stood still meanwhile.
constexpr Duration kStoodStill = 300ms;
constexpr Duration kStalled = 1s;  ///< an event loop that does not respond for so long is stuck
constexpr Duration kShortest = 200ms, kLongest = 1min;
constexpr size_t kMostStack = 32;
constexpr size_t kMostLinks = 64;  ///< links that one report names at most

}  // namespace

asio::awaitable<bool> ReportSender::find_monitor(Duration limit) {
  Context context;  // without a recorder: the observer's own calls are not part of the process's work
  context.deadline = runtime_.clock.now() + limit;
  proto::FindMonitorResponse found;
  const Status called = co_await client_.call(context, metaserver_, rpc::Method::kFindMonitor,
                                              proto::FindMonitorRequest::default_instance(), found);
  if (!called.ok() || found.address().empty()) co_return false;
  const auto address = runtime::Endpoint::parse(found.address());
  if (!address) co_return false;
  // Another one, or the same again after it was away: it may have forgotten what it was told.
  reporter_.forget();
  monitor_ = *address;
  co_return true;
}

asio::awaitable<void> ReportSender::send(rpc::Client& client, bool last, Duration limit) {
  proto::SightLoop loop = watch_loop();
  proto::SightReport report =
      reporter_.make(runtime_.clock.now(), runtime_.clock.wall_now(), std::move(loop), ask_system());
  report.set_last(last);
  complete(report);
  Context context;
  context.deadline = runtime_.clock.now() + limit;
  proto::SightReportAnswer answer;
  const Status sent = co_await client.call(context, *monitor_, rpc::Method::kSightReport, report, answer);
  if (!sent.ok()) {
    // Cancelled: by this side, which ends, and has a last word to say.
    if (sent.code() != Code::kCancelled) monitor_.reset();
    co_return;
  }
  reporter_.delivered(answer);
  if (answer.interval_ms() != 0)
    interval_ = std::clamp<Duration>(std::chrono::milliseconds(answer.interval_ms()), kShortest, kLongest);
  if (on_answer && !last) co_await on_answer(answer);
}

asio::awaitable<void> ReportSender::run(runtime::TaskGroup& tasks) {
  // A call that waits when the process is to end is broken off.
  const auto stop = tasks.on_stop([&] { tasks.spawn(client_.stop()); });
  TimePoint ask_at = runtime_.clock.now();
  while (!tasks.stopping()) {
    const TimePoint began = runtime_.clock.now();
    if (!monitor_ && began >= ask_at) {
      ask_at = began + kAskAgain;
      (void)co_await find_monitor(kCallLimit);
    }
    if (monitor_ && !tasks.stopping()) co_await send(client_, false, kCallLimit);
    (void)co_await tasks.sleep_until(std::max(began + interval_, runtime_.clock.now() + kShortest));
  }
  if (monitor_) {
    rpc::Client farewell(runtime_, secret_, {.dial_limit = kGoodbyeLimit});
    co_await send(farewell, true, kGoodbyeLimit);
    co_await farewell.stop();
  }
  co_await tasks.join();
}

asio::awaitable<void> ReportSender::say_goodbye() {
  const TimePoint until = runtime_.clock.now() + kGoodbyeLimit;
  if (co_await find_monitor(kGoodbyeLimit)) co_await send(client_, true, until - runtime_.clock.now());
  co_await client_.stop();
}

struct Observer::State : std::enable_shared_from_this<Observer::State> {
  State(runtime::ProductionRuntime& observed, const Recorder& recorder, const rpc::Secret& secret,
        ObserverOptions given)
      : observed(observed),
        secret(secret),
        options(std::move(given)),
        recorder(recorder),
        reporter(recorder, {}),
        exporter(recorder) {}

  void run();
  bool has_complaints() const;
  asio::awaitable<void> serve(runtime::ProductionRuntime& own, runtime::TaskGroup& tasks);
  asio::awaitable<void> tick(runtime::ProductionRuntime& own, runtime::TaskGroup& tasks);
  void post_tick(TimePoint now);
  proto::SightLoop watch_loop(TimePoint now);
  proto::SightSystem ask_system();
  void complete(proto::SightReport& report);

  runtime::ProductionRuntime& observed;
  const rpc::Secret secret;
  ObserverOptions options;
  const Recorder& recorder;
  Reporter reporter;
  TraceExporter exporter;  ///< used by the observer's thread only

  std::mutex mutex;
  std::condition_variable stopped;
  bool stopping = false;  ///< guarded by mutex
  /// Runtime of the observer's thread, while it runs; guarded by mutex.
  runtime::ProductionRuntime* own = nullptr;
  runtime::TaskGroup* tasks = nullptr;  ///< guarded by mutex

  std::atomic<bool> gone{false};  ///< whether the event loop has ended, and is no longer checked
  /// Time of the latest check that was posted to the event loop, and of the latest one that ran there.
  std::atomic<int64_t> posted_ns{0}, ran_ns{0};
  std::atomic<int64_t> lag_ns{0};
  std::atomic<pthread_t> loop_thread{};
  std::atomic<pid_t> loop_thread_id{0};  ///< kernel id of the same thread; 0: unknown
  runtime::ProcessorClock processor;     ///< used by the observer's thread only
  WallJumps wall_jumps;                  ///< used by the observer's thread only
  const uint64_t pid_namespace = sight::pid_namespace();
  const std::string own_build_id = build_id();
  /// Time that the process stood still in total (proto::SightSystem); only the observer's thread uses it.
  Duration stood_still{};
  int64_t sampled_for = 0;  ///< the unanswered check for which a stack was taken
  StackSample sample;
  std::thread thread;
};

void Observer::State::post_tick(TimePoint now) {
  const int64_t ns = now.time_since_epoch().count();
  posted_ns.store(ns, std::memory_order_relaxed);
  asio::post(observed.io(), [self = shared_from_this(), ns] {
    if (self->gone) return;
    const int64_t ran = std::chrono::steady_clock::now().time_since_epoch().count();
    self->loop_thread.store(pthread_self(), std::memory_order_relaxed);
    self->loop_thread_id.store(::gettid(), std::memory_order_relaxed);
    self->lag_ns.store(ran - ns, std::memory_order_relaxed);
    self->ran_ns.store(ns, std::memory_order_release);
    if (self->options.who) self->reporter.set_who(self->options.who());
  });
}

asio::awaitable<void> Observer::State::tick(runtime::ProductionRuntime& own, runtime::TaskGroup& tasks) {
  TimePoint slept_at = own.runtime().clock.now();
  while (co_await tasks.sleep_for(kTick)) {
    const TimePoint now = own.runtime().clock.now();
    const Duration late = now - slept_at - kTick;
    if (late >= kStoodStill) stood_still += late;
    wall_jumps.look(own.runtime().clock);
    if (ran_ns.load(std::memory_order_acquire) == posted_ns.load(std::memory_order_relaxed)) post_tick(now);
    slept_at = own.runtime().clock.now();
  }
}

proto::SightLoop Observer::State::watch_loop(TimePoint now) {
  proto::SightLoop loop;
  loop.set_lag_ns(static_cast<uint64_t>(std::max<int64_t>(0, lag_ns.load(std::memory_order_relaxed))));
  const int64_t posted = posted_ns.load(std::memory_order_relaxed);
  const int64_t waiting = now.time_since_epoch().count() - posted;
  const bool is_late = ran_ns.load(std::memory_order_acquire) != posted;
  const bool is_stalled = is_late && waiting >= Duration(kStalled).count();
  if (is_stalled) loop.set_stalled_ns(static_cast<uint64_t>(waiting));
  const pthread_t thread_of_loop = loop_thread.load(std::memory_order_relaxed);
  if (!options.sample_stacks || !is_stalled || thread_of_loop == pthread_t{}) return loop;
  // Once for each time that it is stuck.
  if (sampled_for != posted) {
    sampled_for = posted;
    sample = sample_stack(thread_of_loop);
  }
  for (size_t i = 0; i < std::min(sample.offsets.size(), kMostStack); ++i) {
    loop.add_stack(sample.offsets[i]);
    loop.add_symbols(sample.symbols[i].substr(0, 200));
  }
  loop.set_build_id(build_id());
  return loop;
}

proto::SightSystem Observer::State::ask_system() {
  const auto ns = [](Duration duration) { return static_cast<uint64_t>(duration.count()); };
  const runtime::SystemFacts facts = processor.read(loop_thread_id.load(std::memory_order_relaxed));
  proto::SightSystem system;
  system.set_loop_cpu_ns(ns(facts.thread.ran));
  system.set_loop_delay_ns(ns(facts.thread.delayed));
  system.set_cpu_ns(ns(facts.process.ran));
  system.set_delay_ns(ns(facts.process.delayed));
  system.set_memory_bytes(facts.memory_bytes);
  system.set_machine(processor.machine());
  system.set_processors(std::thread::hardware_concurrency());
  system.set_pressure_ns(ns(facts.pressure));
  system.set_stood_still_ns(ns(stood_still));
  return system;
}

void Observer::State::complete(proto::SightReport& report) {
  for (runtime::LinkLosses& link : observed.losses().read(kMostLinks)) {
    proto::SightLink& told = *report.add_links();
    told.set_end(std::move(link.end));
    told.set_segments(link.segments);
    told.set_lost(link.lost);
  }
  *report.mutable_clock() = wall_jumps.told();
  report.set_pid(static_cast<uint32_t>(::getpid()));
  report.set_pid_namespace(pid_namespace);
  report.set_http_address(reporter.who().http_address);
  report.set_build_id(own_build_id);
  if (options.complete) options.complete(report);
}

asio::awaitable<void> Observer::State::serve(runtime::ProductionRuntime& own, runtime::TaskGroup& tasks) {
  post_tick(own.runtime().clock.now());
  tasks.spawn(tick(own, tasks));
  ReportSender sender(own.runtime(), secret, reporter, options.metaserver);
  sender.watch_loop = [this, &own] { return watch_loop(own.runtime().clock.now()); };
  sender.ask_system = [this] { return ask_system(); };
  sender.complete = [this](proto::SightReport& report) { complete(report); };
  sender.on_answer = [this, &own](const proto::SightReportAnswer& answer) {
    return exporter.send(own.io().get_executor(),
                         {.collector = answer.trace_collector(), .share = answer.trace_share()},
                         reporter.who(), own.runtime().clock.wall_now());
  };
  co_await sender.run(tasks);
}

bool Observer::State::has_complaints() const {
  return std::ranges::any_of(recorder.live().targets().read(),
                             [](const TargetTotals& target) { return target.complaints > 0; }) ||
         std::ranges::any_of(recorder.live().ended_waits().read(), [](const EndedWait& wait) {
           return wait.record.target != 0 && wait.outcome != Code::kCancelled &&
                  Duration(wait.ended_ns - wait.record.entered_ns) >= ReporterLimits().still;
         });
}

void Observer::State::run() {
  bool ended = false;
  {
    std::unique_lock lock(mutex);
    ended = stopped.wait_for(lock, options.quiet_for, [this] { return stopping; });
  }
  if (ended && !has_complaints()) return;
  runtime::ProductionRuntime here({}, observed.tls());
  if (ended) {
    if (options.who) reporter.set_who(options.who());
    ReportSender sender(here.runtime(), secret, reporter, options.metaserver);
    return runtime::run_on(here, sender.say_goodbye());
  }
  {
    runtime::TaskGroup group(here.runtime());
    bool go = false;
    {
      const std::lock_guard lock(mutex);
      go = !stopping;
      if (go) own = &here, tasks = &group;
    }
    if (go) runtime::run_on(here, serve(here, group));
    const std::lock_guard lock(mutex);
    own = nullptr;
    tasks = nullptr;
  }
}

Observer::Observer(runtime::ProductionRuntime& observed, const Recorder& recorder, const rpc::Secret& secret,
                   ObserverOptions options)
    : state_(std::make_shared<State>(observed, recorder, secret, std::move(options))) {
  if (!runtime::kSightCompiled) return;
  const SignalsBlocked blocked;
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Observer::~Observer() {
  state_->gone = true;
  if (!state_->thread.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    if (state_->own != nullptr)
      asio::post(state_->own->io(), [tasks = state_->tasks] { tasks->request_stop(); });
  }
  state_->stopped.notify_all();
  state_->thread.join();
}

Duration Observer::loop_lag() const {
  const int64_t posted = state_->posted_ns.load(std::memory_order_relaxed);
  const int64_t lag = state_->lag_ns.load(std::memory_order_relaxed);
  return Duration(state_->ran_ns.load(std::memory_order_relaxed) == posted ? lag : std::max<int64_t>(lag, 0));
}

}  // namespace kintsugi::sight
