#include "monitoring/gray/errors.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::gray {

void ErrorWatch::look(const std::vector<Answers>& answers, const std::set<uint64_t>& running, TimePoint now) {
  for (const Answers& told : answers) {
    Known& one = known_[{told.of.process, told.role}];
    if (told.all != one.last.all) one.asked = told.at;
    const bool failed = told.faulty != one.last.faulty;
    one.last = told;
    if (failed) one.good_before = one.good();
    one.all.add(told.at, told.all);
    one.faulty.add(told.at, told.faulty);
  }
  std::erase_if(known_, [&](const auto& one) { return !running.contains(one.first.first); });
  const TimePoint from = now - settings_.over;
  for (auto& [key, one] : known_) {
    one.answers = one.all.grown(from);
    // Both counts grow while they are read, so that one may be ahead of the other.
    one.faulty_answers = std::min(one.answers, one.faulty.grown(from));
    one.share =
        one.answers == 0 ? 0 : static_cast<double>(one.faulty_answers) / static_cast<double>(one.answers);
  }
  for (auto& [key, one] : known_)
    judge(one, now);
}

void ErrorWatch::judge(Known& one, TimePoint now) const {
  const bool enough = one.answers >= settings_.answers;
  if (!one.errs) {
    one.errs = enough && one.share >= settings_.raise && !is_everybodys(one);
    one.since = now;
  } else if (one.share < settings_.clear) {
    // Others avoid it, so that a share of few answers, or of none, says nothing.
    const uint64_t good_lately = one.answers - one.faulty_answers;
    const bool answers_well = std::max(good_lately, one.good() - one.good_before) >= settings_.good;
    one.errs = !answers_well && now - one.asked < settings_.unasked;
  }
  if (!one.errs || !enough || one.share < settings_.clear) return;
  one.erred_share = one.share;
  one.erred_answers = one.answers;
}

bool ErrorWatch::is_everybodys(const Known& one) const {
  std::vector<double> others;
  for (const auto& [key, other] : known_)
    if (other.last.role == one.last.role && other.last.of.kind == one.last.of.kind &&
        other.last.of.process != one.last.of.process && other.answers >= settings_.peer_answers)
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
    if (known == nullptr || one.erred_share > known->erred_share) known = &one;
  }
  std::vector<proto::Verdict> found;
  for (const auto& [process, one] : worst) {
    proto::Verdict verdict =
        about(one->last.of, proto::Verdict::ERRORS, now - one->since, proto::Verdict::LIKELY);
    verdict.set_region(one->last.role);
    // So many calls it takes for an answer: others avoid it for that.
    verdict.set_factor(1 / std::max(1 - one->erred_share, 0.01));
    verdict.add_why(
        fmt::format("it answered {:.0f} % of {} requests within {:.0f} s with an error of its own, "
                    "while most others that serve the same did not",
                    100 * one->erred_share, one->erred_answers, to_seconds(settings_.over)));
    if (one->answers < settings_.answers)
      verdict.add_why(
          fmt::format("it is hardly asked now, and has given {} good answers since: {} are needed",
                      one->good() - one->good_before, settings_.good));
    found.push_back(std::move(verdict));
  }
  return found;
}

}  // namespace kintsugi::gray
