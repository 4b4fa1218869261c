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
    suffers_[process] = share.suffers();
    ++machine.processes;
    machine.suffering += share.suffers() ? 1 : 0;
  }
}

Shortage Shortages::explains(uint64_t process) const {
  const auto own = suffers_.find(process);
  const bool is_known = own != suffers_.end(), suffers = is_known && own->second;
  const auto machine = machines_.find(shares_.machine_of(process));
  if (machine == machines_.end()) return Shortage::kNone;
  const size_t others = machine->second.processes - (is_known ? 1 : 0);
  const size_t suffering = machine->second.suffering - (suffers ? 1 : 0);
  if (others >= kLeastOthers && 2 * suffering >= others) return Shortage::kOfMachine;
  return suffers ? Shortage::kOfProcess : Shortage::kNone;
}

}  // namespace kintsugi::progress
