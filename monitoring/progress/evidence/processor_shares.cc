#include "monitoring/progress/evidence/processor_shares.h"

#include "monitoring/model/counters.h"

namespace kintsugi::progress {

void ProcessorShares::update(const model::Snapshot& snapshot) {
  std::map<uint64_t, Process> kept;
  for (const auto& view : snapshot.processes) {
    const proto::SightSystem& system = view->last().system();
    if (system.machine().empty() || system.loop_cpu_ns() == 0) continue;
    const auto known = processes_.find(view->process());
    Process& process = kept[view->process()];
    if (known != processes_.end()) process = std::move(known->second);
    process.machine = system.machine();
    if (!process.samples.empty() && process.samples.back().uptime_ns >= view->last().uptime_ns()) continue;
    process.samples.push_back({.at = view->arrived(),
                               .uptime_ns = view->last().uptime_ns(),
                               .ran = system.loop_cpu_ns(),
                               .delayed = system.loop_delay_ns(),
                               .all_delayed = system.delay_ns(),
                               .pressure = system.pressure_ns(),
                               .stood_still = system.stood_still_ns()});
    if (process.samples.size() > kSamples) process.samples.pop_front();
  }
  processes_ = std::move(kept);
}

ProcessorShares::Share ProcessorShares::between(const Sample& first, const Sample& last) {
  // By the sender's clock: how long a report was on its way is no matter.
  const double ns = model::grown(first.uptime_ns, last.uptime_ns);
  if (ns <= 0) return {};
  return {.known = true,
          .of = Duration(static_cast<int64_t>(ns)),
          .ran = model::grown(first.ran, last.ran) / ns,
          .delayed = model::grown(first.delayed, last.delayed) / ns,
          .all_delayed = model::grown(first.all_delayed, last.all_delayed) / ns,
          .pressure = model::grown(first.pressure, last.pressure) / ns,
          .stood_still = model::grown(first.stood_still, last.stood_still) / ns};
}

ProcessorShares::Share ProcessorShares::since(uint64_t process, TimePoint from) const {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return {};
  const std::deque<Sample>& samples = found->second.samples;
  const Sample* first = nullptr;
  for (const Sample& sample : samples)
    if (first == nullptr || sample.at <= from) first = &sample;
  return between(*first, samples.back());
}

ProcessorShares::Share ProcessorShares::latest(uint64_t process) const {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return {};
  const std::deque<Sample>& samples = found->second.samples;
  for (auto first = samples.rbegin(); first != samples.rend(); ++first)
    if (const Share share = between(*first, samples.back()); share.known && share.of >= kStretch)
      return share;
  return {};
}

Duration ProcessorShares::starves_for(uint64_t process) const {
  Duration sum{};
  const auto found = processes_.find(process);
  if (found == processes_.end()) return sum;
  const std::deque<Sample>& samples = found->second.samples;
  for (size_t last = samples.size() - 1; last > 0; --last) {
    const Share share = between(samples[last - 1], samples[last]);
    if (!share.starves()) break;
    sum += share.of;
  }
  return sum;
}

const std::string& ProcessorShares::machine_of(uint64_t process) const {
  static const std::string unknown;
  const auto found = processes_.find(process);
  return found == processes_.end() ? unknown : found->second.machine;
}

std::vector<uint64_t> ProcessorShares::processes() const {
  std::vector<uint64_t> found;
  for (const auto& [process, known] : processes_)
    found.push_back(process);
  return found;
}

std::vector<uint64_t> ProcessorShares::on_machine(const std::string& machine) const {
  std::vector<uint64_t> found;
  for (const auto& [process, known] : processes_)
    if (known.machine == machine) found.push_back(process);
  return found;
}

}  // namespace kintsugi::progress
