#include "monitoring/progress/evidence/unwell.h"

namespace kintsugi::progress {
namespace {

/// No call takes longer.
constexpr Duration kForgetUnwell = 30min;

}  // namespace

void Unwell::observe(const OpenTasks& tasks, const ProcessorShares& shares) {
  const TimePoint now = tasks.snapshot().taken;
  for (size_t i = 0; i < tasks.processes().size(); i++) {
    const uint64_t process = tasks.snapshot().processes[i]->process();
    const ProcessState& state = tasks.processes()[i];
    const ProcessorShares::Share lately = shares.latest(process);
    const bool stood = lately.starves() || lately.stood_still >= kMostOfTheTime;
    if (state.silent || state.spinning || stood) last_[process] = now;
  }
  std::erase_if(last_, [&](const auto& entry) { return now - entry.second > kForgetUnwell; });
}

bool Unwell::since(uint64_t process, TimePoint when) const {
  const auto found = last_.find(process);
  return found != last_.end() && found->second >= when;
}

}  // namespace kintsugi::progress
