#include "client/mount/kernel/interrupts.h"

#include <algorithm>

#include "client/mount/kernel/arguments.h"
#include "client/mount/kernel/caller_process.h"
#include "client/mount/kernel/operations/operation.h"

namespace kintsugi::mount {

void Interrupts::on_interrupt(const Request& message) {
  Arguments in(message.body);
  const uint64_t id = in.take<fuse_interrupt_in>().unique & ~kUniqueResend;
  Request* request = in.error() == 0 ? requests_.find(id) : nullptr;
  // It may have been answered while the interrupt was on its way.
  if (request == nullptr || request->answered || request->interrupt.requested()) return;
  look_after(*request, std::max(clock_.now(), request->arrived + patience_));
  request->interrupt.request();
}

void Interrupts::look_after(Request& request, TimePoint due) {
  request.patience = clock_.call_at(due, [this, &request] {
    request.patience = runtime::TimerId::kNone;
    if (request.operation->gives_up == GivesUp::kAtAnySignal || was_killed(request.caller.pid))
      return answers_.abandon(request);
    // The kernel tells of the first signal only, and the one that kills may come later.
    look_after(request, clock_.now() + patience_);
  });
}

void Interrupts::look_for_killed() {
  const TimePoint old = clock_.now() - patience_;
  for (Request* request : std::vector(requests_.all())) {
    if (request->answered || request->arrived > old || !was_killed(request->caller.pid)) continue;
    answers_.abandon(*request);
    request->interrupt.request();
  }
}

void Interrupts::forget(Request& request) {
  if (request.patience != runtime::TimerId::kNone) clock_.cancel(request.patience);
  request.patience = runtime::TimerId::kNone;
}

}  // namespace kintsugi::mount
