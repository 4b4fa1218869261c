#include "monitoring/progress/waits/machine_disks.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/proto/verdicts.h"

namespace kintsugi::progress {
namespace {

using proto::kMostNames;
using proto::Verdict;

/// How many processes of each machine have a disk.
std::map<std::string, size_t> count_with_disks(const model::Snapshot& snapshot) {
  std::map<std::string, size_t> count;
  for (const auto& view : snapshot.processes) {
    const proto::SightReport& report = view->last();
    const bool has_disk =
        std::ranges::any_of(report.devices(), [](const auto& device) { return !device.peer(); });
    if (has_disk && !report.last() && !report.system().machine().empty()) count[report.system().machine()]++;
  }
  return count;
}

/// The machine of the process whose disk the verdict blames; empty: it does not blame one, or the machine is not known.
std::string machine_of(const model::Snapshot& snapshot, const Verdict& verdict) {
  const int at = verdict.kind() == Verdict::DEVICE ? snapshot.index_of(verdict.process()) : -1;
  return at < 0 ? "" : snapshot.processes[at]->last().system().machine();
}

void add_names(const google::protobuf::RepeatedPtrField<std::string>& from,
               google::protobuf::RepeatedPtrField<std::string>& to) {
  for (const std::string& name : from)
    if (to.size() < kMostNames && std::ranges::find(to, name) == to.end()) *to.Add() = name;
}

/// `blamed`: the verdicts on its disks, the worst first.
Verdict of_machine(const model::Snapshot& snapshot, const std::vector<Verdict>& blamed, size_t with_disks) {
  const proto::SightReport& one = snapshot.processes[snapshot.index_of(blamed.front().process())]->last();
  Verdict whole;
  whole.set_kind(Verdict::DEVICE);
  whole.set_server("machine " + (one.host().empty() ? one.system().machine() : one.host()));
  whole.set_masked(true);
  std::set<std::string> servers;
  for (const Verdict& verdict : blamed) {
    servers.insert(verdict.server());
    whole.set_since_ns(std::max(whole.since_ns(), verdict.since_ns()));
    whole.set_waiters(whole.waiters() + verdict.waiters());
    whole.set_masked(whole.masked() && verdict.masked());
    whole.set_confidence(std::max(whole.confidence(), verdict.confidence()));
    whole.set_probability(std::max(whole.probability(), verdict.probability()));
    add_names(verdict.servers_waiting(), *whole.mutable_servers_waiting());
    proto::add_waiting(whole, verdict.process());
    for (const uint64_t waiting : verdict.processes_waiting())
      proto::add_waiting(whole, waiting);
    add_names(verdict.operations(), *whole.mutable_operations());
  }
  *whole.mutable_chain() = blamed.front().chain();
  whole.add_why(fmt::format("the disks of {} of the {} processes there that have one do not answer: {}",
                            servers.size(), std::max(with_disks, servers.size()), fmt::join(servers, ", ")));
  return whole;
}

}  // namespace

std::set<uint64_t> MachineDisks::join(const model::Snapshot& snapshot, std::vector<Verdict>& verdicts) {
  const std::map<std::string, size_t> with_disks = count_with_disks(snapshot);
  std::map<std::string, std::set<uint64_t>> blamed;  // by machine
  for (const Verdict& verdict : verdicts)
    if (const std::string machine = machine_of(snapshot, verdict); !machine.empty())
      blamed[machine].insert(verdict.process());
  for (const auto& [machine, processes] : blamed) {
    const auto count = with_disks.find(machine);
    if (processes.size() >= kLeast && (count == with_disks.end() || 2 * processes.size() >= count->second))
      joined_[machine] = snapshot.taken;
  }
  std::erase_if(joined_, [&](const auto& entry) { return snapshot.taken - entry.second > kAfter; });
  if (joined_.empty()) return {};

  std::map<std::string, std::vector<Verdict>> of;  // by machine
  std::vector<Verdict> kept;
  std::map<std::string, size_t> place;  // of the verdict on the machine
  std::set<uint64_t> joined;
  for (Verdict& verdict : verdicts) {
    const std::string machine = machine_of(snapshot, verdict);
    if (machine.empty() || !joined_.contains(machine)) {
      kept.push_back(std::move(verdict));
      continue;
    }
    if (place.emplace(machine, kept.size()).second) kept.emplace_back();
    joined.insert(verdict.process());
    of[machine].push_back(std::move(verdict));
  }
  for (const auto& [machine, at] : place) {
    const auto count = with_disks.find(machine);
    kept[at] = of_machine(snapshot, of[machine], count == with_disks.end() ? 0 : count->second);
  }
  verdicts = std::move(kept);
  return joined;
}

}  // namespace kintsugi::progress
