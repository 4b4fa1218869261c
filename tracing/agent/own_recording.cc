#include "tracing/agent/own_recording.h"

#include <thread>

#include "tracing/agent/agent.h"
#include "tracing/agent/trace_service.h"

namespace kintsugi::tracing {
namespace {

constexpr auto kPhaseLook = std::chrono::milliseconds(1);

/// Waits while the agent is in one of the phases from `first` to `last`, and returns what comes after them.
AgentStatus after(uint64_t owner, Phase first, Phase last) {
  AgentStatus status = Agent::of_process().status(owner);
  for (; status.phase >= first && status.phase <= last; status = Agent::of_process().status(owner))
    std::this_thread::sleep_for(kPhaseLook);
  return status;
}

}  // namespace

Status begin_own_recording(uint64_t owner, uint32_t hops) {
  AttachOptions options{
      .session = {.directory = default_trace_directory(), .start = std::string(kEveryFunction)},
      .owner = owner,
      .limit = kOwnRecordingLimit};
  FollowTerms terms{.hops = hops, .own_work = true, .bytes = options.session.bytes};
  options.follow = terms;
  KINTSUGI_TRY(Agent::of_process().attach(options));
  if (after(owner, Phase::kPreparing, Phase::kPreparing).phase == Phase::kFailed) {
    terms.deadline = std::chrono::steady_clock::now() + kOwnRecordingLimit;
    Following::of_process().begin(owner, terms);
  }
  return {};
}

proto::TraceResponse end_own_recording(uint64_t owner) {
  // It may have ended by itself: its memory was full, or its time over.
  (void)Agent::of_process().detach(owner);
  const AgentStatus status = after(owner, Phase::kPreparing, Phase::kRecording);
  Following::of_process().end(owner);
  proto::TraceResponse response;
  describe(status, response);
  return response;
}

}  // namespace kintsugi::tracing
