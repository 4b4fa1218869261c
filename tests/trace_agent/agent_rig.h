/// The agent of a process, asked as an operator asks it, and as several do at a time.
#pragma once

#include <algorithm>
#include <string>
#include <thread>

#include "tests/trace_agent/rig.h"
#include "tracing/agent/agent.h"

namespace kintsugi::tracing {

struct AgentOfAProcess : Traced {
  ~AgentOfAProcess() override {
    (void)agent.detach();
    (void)wait_for(Phase::kEnded);
  }
  Status attach(const std::string& start, Duration limit = std::chrono::seconds(60)) {
    return agent.attach({.session = {directory_.path(), start, Mode::kLinear, 4 << 20}, .limit = limit});
  }
  AgentStatus wait_for(Phase phase) {
    for (int i = 0; i < 1000; ++i) {
      const AgentStatus now = agent.status();
      if (now.phase == phase || now.phase == Phase::kFailed || now.phase == Phase::kIdle) return now;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "the agent did not get there";
    return agent.status();
  }
  Agent& agent = Agent::of_process();
};

struct SharedRecordings : AgentOfAProcess {
  AttachOptions options_of(uint64_t owner, Duration limit = std::chrono::seconds(60)) const {
    return {.session = {directory_.path(), "all", Mode::kLinear, 4 << 20},
            .owner = owner,
            .limit = limit,
            .follow = FollowTerms{.hops = 1}};
  }
  Status of(uint64_t owner, Duration limit = std::chrono::seconds(60)) {
    return agent.attach(options_of(owner, limit));
  }
  AgentStatus wait_for_end_of(uint64_t owner) {
    for (int i = 0; i < 1000 && agent.status(owner).is_busy(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(agent.status(owner).phase, Phase::kEnded);
    EXPECT_EQ(agent.status(owner).owner, owner);
    return agent.status(owner);
  }
  /// How often a function was entered, in a trace of an owner.
  static int64_t calls(const AgentStatus& ended, const std::string& function) {
    const auto trace = read_trace(ended.path);
    EXPECT_TRUE(trace) << (trace ? "" : trace.error().message());
    int64_t found = 0;
    for (size_t thread = 0; trace && thread < trace->threads.size(); ++thread)
      found += std::ranges::count(lines(*trace, thread), ">" + function);
    return found;
  }
};

}  // namespace kintsugi::tracing
