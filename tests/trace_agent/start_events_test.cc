// What begins a recording later than it is asked for: a time, a slow request, a signal.
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/trace_agent/rig.h"
#include "tracing/agent/agent.h"
#include "tracing/agent/signalled.h"
#include "tracing/agent/slow_calls.h"
#include "tracing/agent/start_event.h"
#include "tracing/records/trace_signal.h"

namespace kintsugi::tracing {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;
using ::testing::HasSubstr;

TEST(StartEvents, AreReadFromTheirNames) {
  const auto after = parse_start_event("after:1500ms");
  ASSERT_TRUE(after && *after);
  EXPECT_EQ((*after)->kind, StartEvent::Kind::kAfter);
  EXPECT_EQ((*after)->time, milliseconds(1500));
  const auto told = parse_start_event("slow:ReadChunk:50ms");
  ASSERT_TRUE(told && *told);
  EXPECT_EQ((*told)->kind, StartEvent::Kind::kSlow);
  EXPECT_EQ((*told)->method, rpc::Method::kReadChunk);
  EXPECT_EQ((*told)->time, milliseconds(50));
  const auto untold = parse_start_event("slow:ReadChunk");
  ASSERT_TRUE(untold && *untold);
  EXPECT_FALSE((*untold)->time);
  for (const char* const other :
       {"all", "method:ReadChunk", "slow::Queue::put", "afterwards", "subject::outer"}) {
    const auto none = parse_start_event(other);
    ASSERT_TRUE(none) << other;
    EXPECT_FALSE(*none) << other;
  }
  for (const char* const wrong : {"after:", "after:soon", "after:0s", "after:-1s", "slow:", "slow:Read",
                                  "slow:ReadChunk:", "slow:ReadChunk:fast", "slow:ReadChunk:0ms"})
    EXPECT_EQ(parse_start_event(wrong).error().code(), Code::kInvalidArgument) << wrong;
}

struct WatchedCalls : ::testing::Test {
  ~WatchedCalls() override { slow.end(); }
  void serve(Duration takes, rpc::Method method = rpc::Method::kReadChunk) {
    const uint64_t number = slow.began(method, now);
    now += std::chrono::duration_cast<SlowCalls::TimePoint::duration>(takes);
    if (number != 0) slow.ended(number, now);
  }
  SlowCalls& slow = SlowCalls::of_process();
  SlowCalls::TimePoint now{};
};

TEST_F(WatchedCalls, AreSlowBeyondTheLimitThatWasTold) {
  slow.begin(rpc::Method::kReadChunk, milliseconds(50));
  EXPECT_EQ(slow.nothing_found(), "no ReadChunk came meanwhile");
  serve(milliseconds(49));
  serve(seconds(5), rpc::Method::kWriteChunk);
  EXPECT_FALSE(slow.found(now));
  EXPECT_EQ(slow.nothing_found(), "1 ReadChunk ended meanwhile, none after more than 50.0 ms");
  serve(milliseconds(51));
  EXPECT_EQ(slow.found(now), "a ReadChunk took 51.0 ms, more than 50.0 ms");
}

TEST_F(WatchedCalls, AreSlowWhileTheyAreServedStill) {
  slow.begin(rpc::Method::kReadChunk, milliseconds(50));
  EXPECT_NE(slow.began(rpc::Method::kReadChunk, now), 0);
  EXPECT_FALSE(slow.found(now + milliseconds(50)));
  EXPECT_EQ(slow.found(now + milliseconds(60)), "a ReadChunk has been served for 60.0 ms, more than 50.0 ms");
}

TEST_F(WatchedCalls, AreSlowBeyondAllButOneInAThousandBefore) {
  slow.begin(rpc::Method::kReadChunk, std::nullopt);
  for (uint64_t i = 0; i + 1 < SlowCalls::kLeastKnown; ++i)
    serve(milliseconds(i % 2 == 0 ? 3 : 10));
  serve(seconds(7));
  EXPECT_FALSE(slow.found(now)) << "nothing is known before there are a thousand";
  serve(milliseconds(10));
  EXPECT_FALSE(slow.found(now)) << "others took as long";
  serve(milliseconds(12));
  const auto found = slow.found(now);
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, HasSubstr("a ReadChunk took 12.0 ms, more than 10."));
  EXPECT_THAT(*found, HasSubstr(", which 99.9 % of 1001 before it did not"));
}

TEST_F(WatchedCalls, TooFewToKnowAreToldToWhoeverWaited) {
  slow.begin(rpc::Method::kReadChunk, std::nullopt);
  serve(milliseconds(3));
  EXPECT_THAT(slow.nothing_found(), HasSubstr("1 ReadChunk ended meanwhile"));
  EXPECT_THAT(slow.nothing_found(), HasSubstr("slow:ReadChunk:TIME"));
}

TEST_F(WatchedCalls, HaveALimit) {
  slow.begin(rpc::Method::kReadChunk, milliseconds(50));
  for (size_t i = 0; i < SlowCalls::kMostOpen; ++i)
    EXPECT_NE(slow.began(rpc::Method::kReadChunk, now), 0);
  EXPECT_EQ(slow.began(rpc::Method::kReadChunk, now), 0);
}

TEST_F(WatchedCalls, AreHeardOfOnlyWhileSomebodyWaits) {
  slow.end();
  {
    const rpc::WatchedCall nobody_hears(rpc::Method::kReadChunk);
  }
  slow.begin(rpc::Method::kReadChunk, Duration(1));
  EXPECT_FALSE(slow.found());
  {
    const rpc::WatchedCall call(rpc::Method::kReadChunk);
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_TRUE(slow.found());
}

struct LaterRecordings : Traced {
  ~LaterRecordings() override {
    (void)agent.detach();
    (void)wait_until_ended();
  }
  Status attach(const std::string& event, Duration limit, std::optional<Duration> recorded_for = {}) {
    AttachOptions options{.session = {directory_.path(), event, Mode::kLinear, 4 << 20}, .limit = limit};
    const auto parsed = parse_start_event(event);
    EXPECT_TRUE(parsed);
    options.event = *parsed;
    options.recorded_for = recorded_for;
    return agent.attach(std::move(options));
  }
  AgentStatus wait_for(Phase phase) {
    if (agent.status().phase == Phase::kIdle) return {};
    for (int i = 0; i < 2000 && agent.status().phase < phase; ++i)
      std::this_thread::sleep_for(milliseconds(5));
    return agent.status();
  }
  AgentStatus wait_until_ended() { return wait_for(Phase::kEnded); }
  Agent& agent = Agent::of_process();
};

TEST_F(LaterRecordings, BeginWhenTheirTimeHasCome) {
  const std::string before = code();
  KINTSUGI_ASSERT_OK(attach("after:300ms", seconds(60), milliseconds(100)));
  EXPECT_EQ(wait_for(Phase::kWaiting).began_unix_ms, 0);
  EXPECT_TRUE(code() == before) << "nothing is changed before";
  subject::leaf();
  const AgentStatus recording = wait_for(Phase::kRecording);
  EXPECT_EQ(recording.phase, Phase::kRecording);
  EXPECT_EQ(recording.began, "its time had come");
  EXPECT_GT(recording.began_unix_ms, 0);
  EXPECT_LE(recording.left, milliseconds(100)) << "it lasts no longer than it is told";
  subject::outer();
  const AgentStatus ended = wait_until_ended();
  EXPECT_TRUE(code() == before);
  const auto trace = read_trace(ended.path);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->end, End::kDeadline);
  EXPECT_EQ(trace->start, "after:300ms");
  EXPECT_THAT(lines(*trace), ::testing::Contains(">outer"));
}

TEST_F(LaterRecordings, AreRefusedWhenTheirTimeWouldBeOver) {
  EXPECT_EQ(attach("after:10s", seconds(10)).code(), Code::kInvalidArgument);
}

TEST_F(LaterRecordings, EndWithTheirWaitAndSayWhy) {
  const std::string before = code();
  KINTSUGI_ASSERT_OK(attach("slow:ReadChunk:50ms", milliseconds(100)));
  AgentStatus ended = wait_until_ended();
  EXPECT_EQ(ended.phase, Phase::kEnded);
  EXPECT_EQ(ended.began_unix_ms, 0);
  EXPECT_EQ(ended.began, "no ReadChunk came meanwhile");
  EXPECT_EQ(agent.read(0, 0, 100).error().message(), "nothing was recorded: no ReadChunk came meanwhile");
  EXPECT_TRUE(code() == before);
  KINTSUGI_ASSERT_OK(attach("after:50s", seconds(60)));
  (void)wait_for(Phase::kWaiting);
  KINTSUGI_EXPECT_OK(agent.detach());
  EXPECT_EQ(wait_until_ended().began, "its time has not come");
}

TEST_F(LaterRecordings, BeginWhileTheSlowRequestIsServed) {
  KINTSUGI_ASSERT_OK(attach("slow:ReadChunk:50ms", seconds(60), seconds(30)));
  (void)wait_for(Phase::kWaiting);
  std::this_thread::sleep_for(milliseconds(50));
  const rpc::WatchedCall call(rpc::Method::kReadChunk);
  const AgentStatus recording = wait_for(Phase::kRecording);
  EXPECT_THAT(recording.began, HasSubstr("a ReadChunk has been served for"));
  subject::outer();
  KINTSUGI_EXPECT_OK(agent.detach());
  const auto trace = read_trace(wait_until_ended().path);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_THAT(lines(*trace), ::testing::Contains(">outer"));
}

/// Whether this process has a handler for the signal, as anybody can see.
bool has_handler() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (uint64_t caught = 0; word == "SigCgt:" && status >> std::hex >> caught)
      return (caught >> (kTraceSignal - 1) & 1) != 0;
  return false;
}

TEST_F(LaterRecordings, BeginWithASignalThatInterruptsNobody) {
  EXPECT_FALSE(has_handler()) << "then the signal would end the process";
  listen_for_signal();
  listen_for_signal();
  EXPECT_TRUE(has_handler());
  sigval value{};
  value.sival_int = 60'000;
  std::atomic<int> interrupted{-1};
  std::thread sleeper([&] {
    timespec time{.tv_sec = 0, .tv_nsec = 200'000'000};
    interrupted = ::nanosleep(&time, nullptr) != 0;
  });
  std::this_thread::sleep_for(milliseconds(20));
  ASSERT_EQ(::sigqueue(::getpid(), kTraceSignal, value), 0);
  for (int i = 0; i < 2000 && agent.status().phase == Phase::kIdle; ++i)
    std::this_thread::sleep_for(milliseconds(5));
  const AgentStatus recording = wait_for(Phase::kRecording);
  EXPECT_GT(recording.left, seconds(50));
  EXPECT_LE(recording.left, seconds(60));
  sleeper.join();
  EXPECT_EQ(interrupted, 0);
  ASSERT_EQ(::sigqueue(::getpid(), kTraceSignal, value), 0) << "it records already";
  subject::outer();
  KINTSUGI_EXPECT_OK(agent.detach());
  const AgentStatus ended = wait_until_ended();
  const auto trace = read_trace(ended.path);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->start, "all");
  std::filesystem::remove(ended.path);
}

}  // namespace
}  // namespace kintsugi::tracing
