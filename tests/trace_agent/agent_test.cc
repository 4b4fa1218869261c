// The agent of a process, asked as an operator asks it.
#include "tracing/agent/agent.h"

#include <cstdio>
#include <cstdlib>

#include <sys/resource.h>

#include "tests/trace_agent/agent_rig.h"

namespace kintsugi::tracing {
namespace {

using ::testing::HasSubstr;

TEST_F(AgentOfAProcess, RecordsFromTheStartFunctionUntilItIsDetached) {
  KINTSUGI_ASSERT_OK(attach("outer"));
  EXPECT_EQ(wait_for(Phase::kWaiting).phase, Phase::kWaiting);
  subject::outer();
  const AgentStatus recording = wait_for(Phase::kRecording);
  EXPECT_GT(recording.left, Duration{});
  EXPECT_GE(recording.met, 3);
  EXPECT_LE(recording.met, recording.patched);
  KINTSUGI_EXPECT_OK(agent.detach());
  const AgentStatus ended = wait_for(Phase::kEnded);
  const auto trace = read_trace(ended.path);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->threads.at(0).records.size(), 11);
}

TEST_F(AgentOfAProcess, GivesTheCodeBackWhenNobodyDetachesIt) {
  const std::string before = code();
  KINTSUGI_ASSERT_OK(attach("all", std::chrono::milliseconds(200)));
  EXPECT_EQ(wait_for(Phase::kEnded).phase, Phase::kEnded);
  EXPECT_EQ(code(), before);
  EXPECT_EQ(read_trace(agent.status().path)->end, End::kDeadline);
}

TEST_F(AgentOfAProcess, IsFreeForTheNextAfterItGotNoThread) {
  GTEST_FLAG_SET(death_test_style,
                 "threadsafe");  // in a process of its own, which keeps no stacks of threads that ended
  const auto attach_without_and_with_memory = [&] {
    rlimit before{};
    ::getrlimit(RLIMIT_AS, &before);
    const rlimit none{1 << 20, before.rlim_max};
    ::setrlimit(RLIMIT_AS, &none);
    const Status refused = attach("all");
    ::setrlimit(RLIMIT_AS, &before);
    const Status done = attach("all");
    std::fprintf(stderr, "first: %s; then: %s\n", refused.to_string().c_str(), done.to_string().c_str());
    std::_Exit(refused.ok() || !done.ok());
  };
  EXPECT_EXIT(attach_without_and_with_memory(), ::testing::ExitedWithCode(0), "a thread to record with");
}

TEST_F(AgentOfAProcess, EndsWhenTheMemoryIsFull) {
  KINTSUGI_ASSERT_OK(attach("all"));
  (void)wait_for(Phase::kRecording);
  subject::call_empty(1'000'000);
  EXPECT_EQ(wait_for(Phase::kEnded).phase, Phase::kEnded);
  EXPECT_EQ(read_trace(agent.status().path)->end, End::kFull);
}

TEST_F(AgentOfAProcess, IsAttachedOnceAtATime) {
  KINTSUGI_ASSERT_OK(attach("outer"));
  const Status second = attach("all");
  EXPECT_EQ(second.code(), Code::kAlreadyExists);
  EXPECT_THAT(second.message(), HasSubstr("s more"));
  EXPECT_EQ(agent.read(0, 0, 100).error().code(), Code::kConflict);
}

TEST_F(AgentOfAProcess, SaysWhatCannotBeDone) {
  EXPECT_EQ(agent.detach().code(), Code::kNotFound);
  EXPECT_EQ(attach("").code(), Code::kInvalidArgument);
  EXPECT_EQ(attach("outer\n2026-11-28 error of nobody").code(), Code::kInvalidArgument);
  EXPECT_EQ(attach("all", Duration{}).code(), Code::kInvalidArgument);
  EXPECT_EQ(attach("all", std::chrono::hours(25)).code(), Code::kInvalidArgument);
  KINTSUGI_ASSERT_OK(attach("no_such_function"));
  const AgentStatus failed = wait_for(Phase::kFailed);
  EXPECT_EQ(failed.failure.code(), Code::kNotFound);
}

}  // namespace
}  // namespace kintsugi::tracing
