#include "monitoring/gray/errors.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::gray {

void ErrorWatch::look(const std::vector<Answers>& answers, const std::set<uint64_t>& running, TimePoint now) {
  for (const Answers& told : answers) {
    Known& one = known_[{told.of.process, told.role}];
    one.of = told.of;
    one.role = told.role;
    one.all.add(told.at, told.all);
    one.faulty.add(told.at, told.faulty);
  }
  std::erase_if(known_, [&](const auto& one) { return !running.contains(one.first.first); });
  const TimePoint from = now - settings_.over;
  for (auto& [key, one] : known_) {
    one.answers = one.all.grown(from);
    one.share =
        one.answers == 0 ? 0 : static_cast<double>(one.faulty.grown(from)) / static_cast<double>(one.answers);
  }
  for (auto& [key, one] : known_) {
    const bool begins =
        one.answers >= settings_.answers && one.share >= settings_.raise && !is_everybodys(one);
    if (!one.errs && begins) one.since = now;
    one.errs = one.errs ? one.share >= settings_.clear : begins;
  }
}

bool ErrorWatch::is_everybodys(const Known& one) const {
  std::vector<double> others;
  for (const auto& [key, other] : known_)
    if (other.role == one.role && other.of.kind == one.of.kind && other.of.process != one.of.process &&
        other.answers >= settings_.peer_answers)
      others.push_back(other.share);
  if (others.size() < settings_.peers) return true;
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::ranges::nth_element(others, middle);
  return *middle > settings_.of_peers;
}

std::vector<proto::Verdict> ErrorWatch::alarms(TimePoint now) const {
  std::map<uint64_t, const Known*> worst;  // by process
  for (const auto& [key, one] : known_) {
    if (!one.errs) continue;
    const Known*& known = worst[key.first];
    if (known == nullptr || one.share > known->share) known = &one;
  }
  std::vector<proto::Verdict> found;
  for (const auto& [process, one] : worst) {
    proto::Verdict verdict = about(one->of, proto::Verdict::ERRORS, now - one->since, proto::Verdict::LIKELY);
    verdict.set_region(one->role);
    // So many calls it takes for an answer: others avoid it for that.
    verdict.set_factor(1 / std::max(1 - one->share, 0.01));
    verdict.add_why(
        fmt::format("it answered {:.0f} % of {} requests of the last {:.0f} s with an error of its "
                    "own, while most others that serve the same did not",
                    100 * one->share, one->answers, to_seconds(settings_.over)));
    found.push_back(std::move(verdict));
  }
  return found;
}

}  // namespace kintsugi::gray
