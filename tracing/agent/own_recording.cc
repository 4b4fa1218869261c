#include "tracing/agent/own_recording.h"

#include <thread>

#include "tracing/agent/agent.h"
#include "tracing/agent/trace_service.h"

namespace kintsugi::tracing {
namespace {

constexpr auto kPhaseLook = std::chrono::milliseconds(1);

/// Waits while the agent is in one of the phases from `first` to `last`, and returns what comes after them.
AgentStatus after(Phase first, Phase last) {
  AgentStatus status = Agent::of_process().status();
  for (; status.phase >= first && status.phase <= last; status = Agent::of_process().status())
    std::this_thread::sleep_for(kPhaseLook);
  return status;
}

}  // namespace

Status begin_own_recording(uint64_t owner, uint32_t hops) {
  AttachOptions options{.session = {.directory = default_trace_directory(), .start = "all"},
                        .limit = kOwnRecordingLimit};
  FollowTerms terms{.owner = owner, .hops = hops, .own_work = true, .bytes = options.session.bytes};
  options.follow = terms;
  KINTSUGI_TRY(Agent::of_process().attach(options));
  if (after(Phase::kPreparing, Phase::kPreparing).phase == Phase::kFailed) {
    terms.deadline = std::chrono::steady_clock::now() + kOwnRecordingLimit;
    Following::of_process().begin(terms);
  }
  return {};
}

proto::TraceResponse end_own_recording() {
  // It may have ended by itself: its memory was full, or its time over.
  (void)Agent::of_process().detach();
  const AgentStatus status = after(Phase::kPreparing, Phase::kRecording);
  Following::of_process().end();
  proto::TraceResponse response;
  describe(status, response);
  return response;
}

}  // namespace kintsugi::tracing
