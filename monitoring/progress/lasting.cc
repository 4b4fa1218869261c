#include "monitoring/progress/lasting.h"

#include "monitoring/progress/waits/verdicts.h"

namespace kintsugi::progress {

using proto::Verdict;

namespace {

/// What was concluded longer ago is no round before this one.
constexpr Duration kForgetAfter = 30s;

}  // namespace

void Lasting::keep(const OpenTasks& tasks, std::vector<Verdict>& verdicts) {
  const TimePoint now = tasks.snapshot().taken;
  std::map<uint64_t, uint64_t> sequences;
  for (size_t i = 0; i < tasks.processes().size(); i++)
    if (!tasks.processes()[i].silent)
      sequences[tasks.snapshot().processes[i]->process()] = tasks.snapshot().processes[i]->last().sequence();
  std::map<uint64_t, Candidate> standing;
  std::erase_if(verdicts, [&](const Verdict& verdict) {
    const uint64_t id = identity(verdict);
    Candidate candidate;
    if (const auto before = candidates_.find(id);
        before != candidates_.end() && now - before->second.seen <= kForgetAfter)
      candidate = before->second;
    const auto reported = sequences.find(verdict.process());
    const uint64_t sequence = reported == sequences.end() ? 0 : reported->second;
    const bool is_new = candidate.rounds == 0 || (sequence != 0 && sequence != candidate.sequence) ||
                        (sequence == 0 && now - candidate.seen >= 500ms);
    if (is_new) {
      candidate.rounds++;
      candidate.sequence = sequence;
      candidate.seen = now;
    }
    if (standing.size() < kMaxCandidates) standing[id] = candidate;
    return candidate.rounds < rounds_;
  });
  candidates_ = std::move(standing);
}

}  // namespace kintsugi::progress
