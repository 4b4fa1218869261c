#include "monitoring/similarity/complaints.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::similarity {

void ComplaintWatch::look(const std::vector<Complaints>& totals, TimePoint now) {
  for (const Complaints& total : totals) {
    if (total.count == 0) continue;
    const std::pair key{total.process, total.of_address};
    if (!totals_.contains(key) && totals_.size() >= settings_.most) continue;
    Total& known = totals_[key];
    const uint64_t more = total.count - std::min(total.count, known.count);
    known = {.count = total.count, .seen = now};
    if (more == 0) continue;
    Of& of = of_[total.of_address];
    if (of.count == 0) of.first = now;
    of.count += more;
    of.last = now;
    of.method = total.method;
  }
  std::erase_if(totals_, [&](const auto& entry) { return now - entry.second.seen > settings_.forgotten; });
  std::erase_if(of_, [&](const auto& entry) { return now - entry.second.last > settings_.remembered; });
}

std::vector<proto::Verdict> ComplaintWatch::alarms(TimePoint now) const {
  std::vector<proto::Verdict> found;
  for (const auto& [address, of] : of_) {
    proto::Verdict verdict;
    verdict.set_kind(proto::Verdict::MESSAGES);
    verdict.set_server(address);
    if (!of.method.empty()) verdict.set_region("serve." + of.method);
    verdict.set_masked(true);
    const bool many = of.count >= settings_.likely;
    verdict.set_confidence(many ? proto::Verdict::LIKELY : proto::Verdict::UNSURE);
    verdict.set_probability(many ? 0.95 : 0.5);
    verdict.set_since_ns(static_cast<uint64_t>(std::max<int64_t>(0, (now - of.first).count())));
    verdict.set_factor(static_cast<double>(of.count));
    verdict.add_why(fmt::format(
        "their receivers counted {} lately; the network, or the memory or disk of this machine, damages "
        "or loses data",
        of.count));
    found.push_back(std::move(verdict));
  }
  std::ranges::sort(found, [](const auto& a, const auto& b) { return a.factor() > b.factor(); });
  return found;
}

}  // namespace kintsugi::similarity
