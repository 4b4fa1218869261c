#include "tracing/events/steps.h"

namespace kintsugi::tracing {

Steps::Steps(const Trace& trace) : trace_(trace), next_(trace.threads.size()) {
  for (size_t thread = 0; thread < next_.size(); ++thread)
    wait(thread);
}

const Record* Steps::at(size_t thread) const {
  const std::vector<Record>& records = trace_.threads[thread].records;
  return next_[thread] < records.size() ? &records[next_[thread]] : nullptr;
}

void Steps::wait(size_t thread) {
  // The entry that arguments belong to may have been overwritten.
  while (at(thread) != nullptr && at(thread)->kind == Kind::kArgument)
    ++next_[thread];
  if (const Record* record = at(thread)) waiting_.push({record->ticks, thread});
}

std::optional<Step> Steps::next() {
  if (waiting_.empty()) return std::nullopt;
  const size_t thread = waiting_.top().thread;
  waiting_.pop();
  Step step{.thread = thread, .record = *at(thread)};
  step.unix_ns = trace_.began.unix_ns + static_cast<int64_t>(trace_.nanoseconds(step.record.ticks));
  ++next_[thread];
  for (; at(thread) != nullptr && at(thread)->kind == Kind::kArgument; ++next_[thread]) {
    step.arguments[at(thread)->extra - 1] = at(thread)->ticks;
    step.recorded |= static_cast<uint8_t>(1 << (at(thread)->extra - 1));
  }
  wait(thread);
  return step;
}

}  // namespace kintsugi::tracing
