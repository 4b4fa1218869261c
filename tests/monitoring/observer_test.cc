// An observer beside a real loop, with a real server in the place of metaserver and monitor.
#include "monitoring/sight/observer.h"

#include <condition_variable>
#include <thread>

#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include "common/runtime/production/run.h"
#include "monitoring/sight/module.h"

namespace kintsugi::sight {
namespace {

constexpr Site kPut{"test.put"};
rpc::Secret test_secret() {
  std::array<std::byte, 32> key;
  key.fill(std::byte{7});
  return rpc::Secret(key);
}

constexpr auto kPatience = std::chrono::seconds(60);

/// The metaserver, which says that it is the monitor, too; and keeps the reports.
class Monitor {
 public:
  explicit Monitor(const rpc::Secret& secret)
      : server_(runtime_.runtime(), secret, nullptr), loop_(runtime_) {
    server_.handle(rpc::Method::kFindMonitor,
                   [this](Context, const proto::FindMonitorRequest&,
                          proto::FindMonitorResponse& response) -> asio::awaitable<Status> {
                     response.set_address(address_);
                     co_return Status{};
                   });
    server_.handle(rpc::Method::kSightReport,
                   [this](Context, const proto::SightReport& report,
                          proto::SightReportAnswer& answer) -> asio::awaitable<Status> {
                     answer.set_interval_ms(200);
                     const std::lock_guard lock(mutex_);
                     reports_.push_back(report);
                     changed_.notify_all();
                     co_return Status{};
                   });
    runtime::run_on(runtime_, start());
  }
  ~Monitor() { runtime::run_on(runtime_, server_.stop()); }

  runtime::Endpoint endpoint() const { return *runtime::Endpoint::parse(address_); }

  /// Waits for a report of which `is_it` is true; an empty one when none comes.
  proto::SightReport wait_for(const std::function<bool(const proto::SightReport&)>& is_it) {
    std::unique_lock lock(mutex_);
    proto::SightReport found;
    changed_.wait_for(lock, kPatience, [&] {
      for (const auto& report : reports_)
        if (is_it(report)) {
          found = report;
          return true;
        }
      return false;
    });
    return found;
  }

 private:
  asio::awaitable<void> start() {
    EXPECT_EQ(server_.start({"127.0.0.1", 0}), Status{});
    address_ = server_.local_endpoint().to_string();
    co_return;
  }

  runtime::ProductionRuntime runtime_;
  rpc::Server server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<proto::SightReport> reports_;
  std::string address_;
  runtime::LoopThread loop_;
};

__attribute__((noinline)) uint64_t spin_without_end(const std::atomic<bool>& stop) {
  uint64_t rounds = 0;
  while (!stop)
    ++rounds;
  return rounds;
}

TEST(Observer, AStuckLoopIsReportedWithItsOpenWorkAndItsStack) {
  const rpc::Secret secret = test_secret();
  Monitor monitor(secret);
  runtime::ProductionRuntime observed;
  Recorder recorder(observed.runtime().clock, 1);
  const runtime::LoopThread loop(observed);
  auto observer = std::make_unique<Observer>(
      observed, recorder, secret,
      ObserverOptions{.metaserver = monitor.endpoint(),
                      .who = [] { return Reporting{.kind = "chunkserver", .name = "server 4"}; }});
  EXPECT_EQ(monitor.wait_for([](const auto& report) { return report.name() == "server 4"; }).kind(),
            "chunkserver");

  std::atomic<bool> stop = false;
  asio::post(observed.io(), [&] {
    const Module put{recorder.root_context(), kPut};
    spin_without_end(stop);
  });
  const auto stuck = monitor.wait_for([](const auto& report) {
    return report.loop().stalled_ns() >= uint64_t(Duration(1s).count()) && report.live_size() > 0;
  });
  ASSERT_GT(stuck.loop().stack_size(), 0);
  bool named = false;
  std::string stack;
  for (const std::string& symbol : stuck.loop().symbols()) {
    named = named || symbol.find("spin_without_end") != std::string::npos;
    stack += symbol + "\n";
  }
  EXPECT_TRUE(named) << stack;
  EXPECT_EQ(stuck.loop().last_touch().path(), stuck.live(0).path()) << "where the loop was last";
  EXPECT_EQ(stuck.loop().last_touch().file(), "tests/monitoring/observer_test.cc");
  EXPECT_FALSE(stuck.system().machine().empty());
  EXPECT_GT(stuck.system().memory_bytes(), 1u << 20);
  // It spins: for all of the time that it is stuck it runs, or would.
  EXPECT_GE(stuck.system().loop_cpu_ns() + stuck.system().loop_delay_ns(), uint64_t(Duration(900ms).count()));
  EXPECT_GE(stuck.system().cpu_ns(), stuck.system().loop_cpu_ns());
  EXPECT_EQ(stuck.live(0).wait(), proto::WAIT_NONE);
  EXPECT_EQ(stuck.live(0).file(), "tests/monitoring/observer_test.cc");
  stop = true;
  // It goes on, and says so.
  monitor.wait_for([&](const auto& report) {
    return report.sequence() > stuck.sequence() && report.loop().stalled_ns() == 0 && report.live_size() == 0;
  });
  observer.reset();
  EXPECT_TRUE(monitor.wait_for([](const auto& report) { return report.last(); }).last());
}

TEST(Observer, ACommandThatEndsAtOnceReportsOnlyWhenItHasAComplaint) {
  const rpc::Secret secret = test_secret();
  Monitor monitor(secret);
  runtime::ProductionRuntime observed;
  const auto run_command = [&](const std::string& name, bool complains) {
    Recorder recorder(observed.runtime().clock, 1);
    const ObserverOptions options{.metaserver = monitor.endpoint(),
                                  .who = [name] { return Reporting{.kind = "client", .name = name}; },
                                  .quiet_for = 1h};
    const Observer observer(observed, recorder, secret, options);
    if (complains)
      runtime::complain_of(recorder.root_context(), {"10.0.0.9", 9700},
                           static_cast<uint16_t>(rpc::Method::kStat));
  };
  run_command("content", false);
  run_command("complainer", true);
  // The reports come in their order: the first one is the second command's.
  const auto report = monitor.wait_for([](const auto&) { return true; });
  EXPECT_EQ(report.name(), "complainer");
  EXPECT_TRUE(report.last());
  ASSERT_EQ(report.devices_size(), 1);
  EXPECT_EQ(report.devices(0).complaints(), 1u);
}

TEST(Observer, ACommandThatGaveUpOnAServerSaysSoWhenItEnds) {
  const rpc::Secret secret = test_secret();
  Monitor monitor(secret);
  runtime::ProductionRuntime observed;
  const auto run_command = [&](const std::string& name, Duration waits) {
    struct Later : runtime::Clock {
      TimePoint now() const override { return now_; }
      WallTime wall_now() const override { return WallTime(now_.time_since_epoch()); }
      runtime::TimerId call_at(TimePoint, std::function<void()>) override { return runtime::TimerId::kNone; }
      bool cancel(runtime::TimerId) override { return false; }
      TimePoint now_ = std::chrono::steady_clock::now() - 10s;
    } clock;
    Recorder recorder(clock, 1);
    const ObserverOptions options{.metaserver = monitor.endpoint(),
                                  .who = [name] { return Reporting{.kind = "client", .name = name}; },
                                  .quiet_for = 1h};
    const Observer observer(observed, recorder, secret, options);
    static const runtime::Site site{"test.command"};
    const runtime::Span span(recorder.root_context(), site, {}, std::source_location::current());
    runtime::Wait wait(span.context(), runtime::WaitKind::kSend,
                       runtime::peer_target(span.context(), {"10.0.0.9", 9700}));
    clock.now_ += waits;
    wait.set_code(Code::kDeadlineExceeded);
    wait.stop();
    clock.now_ = std::chrono::steady_clock::now();
  };
  run_command("lucky", 500ms);
  run_command("unlucky", 3s);
  const auto report = monitor.wait_for([](const auto&) { return true; });
  EXPECT_EQ(report.name(), "unlucky") << "half a second is nothing to tell";
  EXPECT_TRUE(report.last());
  ASSERT_GE(report.live_size(), 1);
  EXPECT_EQ(report.live(0).target(), "10.0.0.9:9700");
  EXPECT_GT(report.live(0).ended_ago_ns(), 0u);
  EXPECT_EQ(static_cast<Code>(report.live(0).outcome()), Code::kDeadlineExceeded);
}

TEST(Observer, AMetaserverThatDoesNotAnswerHarmsNobody) {
  const rpc::Secret secret = test_secret();
  runtime::ProductionRuntime observed;
  Recorder recorder(observed.runtime().clock, 1);
  const runtime::LoopThread loop(observed);
  {
    const Observer quiet(observed, recorder, secret, {.metaserver = {"127.0.0.1", 1}, .quiet_for = 1h});
    const Observer alone(observed, recorder, secret, {.metaserver = {"127.0.0.1", 1}});
    const int answer = runtime::run_on(observed, []() -> asio::awaitable<int> { co_return 7; }());
    EXPECT_EQ(answer, 7) << "the observed loop goes on serving";
  }
}

}  // namespace
}  // namespace kintsugi::sight
