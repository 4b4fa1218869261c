#include "monitoring/gray/errors.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::gray {

ErrorWatch::Share ErrorWatch::share_of(const Known& one, TimePoint now) const {
  return {one.all.grown(now - settings_.over), one.failed.grown(now - settings_.over)};
}

bool ErrorWatch::others_answer(const Known& one, TimePoint now) const {
  std::vector<double> shares;
  for (const auto& [process, other] : known_) {
    if (&other == &one || other.last.who.kind != one.last.who.kind) continue;
    if (const Share share = share_of(other, now); share.all >= settings_.least)
      shares.push_back(share.value());
  }
  if (shares.size() < settings_.least_others) return false;
  std::ranges::sort(shares);
  return shares[shares.size() / 2] <= settings_.of_others;
}

void ErrorWatch::look(const std::vector<Answers>& processes, TimePoint now) {
  std::map<uint64_t, Known> known;
  for (const Answers& process : processes) {
    const auto before = known_.find(process.who.process);
    Known& one = known[process.who.process] = before == known_.end() ? Known{} : std::move(before->second);
    if (one.last.at != TimePoint{} && process.failed > one.last.failed) one.latest = process.at;
    one.last = process;
    one.all.add(process.at, process.all);
    one.failed.add(process.at, process.failed);
  }
  known_ = std::move(known);
  for (auto& [process, one] : known_) {
    const Share share = share_of(one, now);
    const bool fails =
        share.failed >= settings_.least && share.value() >= settings_.share && others_answer(one, now);
    if (fails && !one.fails) one.since = now;
    // Users go elsewhere, so it may have little to answer any more.
    one.fails =
        fails || (one.fails && now - one.latest < settings_.ends_at && share.value() >= settings_.share);
  }
}

std::vector<proto::Verdict> ErrorWatch::alarms(TimePoint now) const {
  std::vector<proto::Verdict> found;
  for (const auto& [process, one] : known_) {
    if (!one.fails) continue;
    const Share share = share_of(one, now);
    proto::Verdict verdict =
        verdict_on(one.last.who, proto::Verdict::ERRORS, now - one.since, proto::Verdict::CERTAIN);
    constexpr double kMostCalls = 100;
    verdict.set_factor(std::min(kMostCalls, 1 / std::max(1 - share.value(), 1 / kMostCalls)));
    verdict.add_why(
        fmt::format("{} of {} answers in the last {:.0f} s were errors of the server's own, while most "
                    "others of its kind answer",
                    share.failed, share.all, to_seconds(settings_.over)));
    found.push_back(std::move(verdict));
  }
  return found;
}

}  // namespace kintsugi::gray
