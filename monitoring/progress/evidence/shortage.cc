#include "monitoring/progress/evidence/shortage.h"

namespace kintsugi::progress {
namespace {

/// Fewer others say nothing of a machine.
constexpr size_t kLeastOthers = 2;

}  // namespace

Shortages::Shortages(const ProcessorShares& shares, TimePoint from) : shares_(shares) {
  for (const uint64_t process : shares.processes()) {
    const ProcessorShares::Share share = shares.since(process, from);
    if (!share.known) continue;
    Machine& machine = machines_[shares.machine_of(process)];
    ++machine.processes;
    if (!share.suffers()) continue;
    ++machine.suffering;
    suffering_.insert(process);
  }
}

Shortage Shortages::explains(uint64_t process) const {
  const bool suffers = suffering_.contains(process);
  const auto machine = machines_.find(shares_.machine_of(process));
  if (machine == machines_.end()) return Shortage::kNone;
  const size_t others = machine->second.processes - 1;
  const size_t suffering = machine->second.suffering - (suffers ? 1 : 0);
  if (others >= kLeastOthers && 2 * suffering >= others) return Shortage::kOfMachine;
  return suffers ? Shortage::kOfProcess : Shortage::kNone;
}

}  // namespace kintsugi::progress
