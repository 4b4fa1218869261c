#include "monitoring/gray/losses.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::gray {

void LossWatch::look(const std::vector<Link>& links, TimePoint now) {
  std::map<Key, Cell> cells = sum(links, now);
  for (auto& [key, cell] : cells) {
    const auto before = cells_.find(key);
    const bool lost_before = before != cells_.end() && before->second.loses;
    const bool stands_out = cell.segments >= settings_.segments && cell.lost >= settings_.lost &&
                            cell.times >= settings_.times && cell.share() >= settings_.raise &&
                            !is_the_machines(key, cell.share(), cells);
    const bool is_explained =
        cell.lacks_processor && cell.share() < settings_.beside_shortage * settings_.raise;
    cell.loses = (stands_out && !is_explained) || (lost_before && cell.share() >= settings_.clear);
    cell.excused = stands_out && !cell.loses;
    cell.since = lost_before ? before->second.since : now;
  }
  cells_ = std::move(cells);
}

std::map<LossWatch::Key, LossWatch::Cell> LossWatch::sum(const std::vector<Link>& links, TimePoint now) {
  const TimePoint from = now - settings_.over;
  std::map<std::string, Source> sources;
  std::map<Key, Cell> cells;
  for (const Link& link : links) {
    const auto before = sources_.find(link.source);
    Source& source = sources[link.source] = before == sources_.end() ? Source{} : std::move(before->second);
    source.segments.add(link.at, link.segments);
    source.lost.add(link.at, link.lost);
    Cell& cell = cells[{link.server.process, link.machine}];
    cell.server = link.server;
    cell.segments += source.segments.grown(from);
    cell.lost += source.lost.grown(from);
    cell.times = std::max(cell.times, source.lost.times());
    cell.lacks_processor |= link.lacks_processor;
  }
  sources_ = std::move(sources);
  return cells;
}

bool LossWatch::is_the_machines(const Key& key, double share, const std::map<Key, Cell>& cells) const {
  std::vector<double> others;
  for (const auto& [other, cell] : cells)
    if (other.second == key.second && other.first != key.first && cell.segments >= settings_.segments)
      others.push_back(cell.share());
  if (others.size() < settings_.peers) return true;
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::ranges::nth_element(others, middle);
  return *middle > settings_.of_peers * share;
}

proto::Verdict LossWatch::verdict_of(const Key& key, const Cell& cell, TimePoint now) const {
  proto::Verdict verdict =
      about(cell.server, proto::Verdict::LOSSES, now - cell.since, proto::Verdict::LIKELY);
  verdict.add_why(fmt::format("{} of {} segments between it and machine {} were lost in the last {:.0f} s",
                              cell.lost, cell.segments, key.second, to_seconds(settings_.over)));
  return verdict;
}

std::vector<proto::Verdict> LossWatch::excused(TimePoint now) const {
  std::vector<proto::Verdict> found;
  for (const auto& [key, cell] : cells_)
    if (cell.excused) found.push_back(verdict_of(key, cell, now));
  return found;
}

std::vector<proto::Verdict> LossWatch::alarms(TimePoint now) const {
  struct Ends {
    size_t known = 0, losing = 0;
  };
  std::map<uint64_t, Ends> servers;
  for (const auto& [key, cell] : cells_) {
    if (cell.loses || cell.segments >= settings_.segments) ++servers[key.first].known;
    if (cell.loses) ++servers[key.first].losing;
  }
  std::vector<proto::Verdict> found;
  for (const auto& [key, cell] : cells_) {
    if (!cell.loses) continue;
    Ends& ends = servers[key.first];
    const bool is_server = 2 * ends.losing >= ends.known;
    if (is_server && ends.losing == 0) continue;  // it was told
    proto::Verdict verdict = verdict_of(key, cell, now);
    if (is_server) {
      verdict.add_why(fmt::format("so it is with {} of {} machines with which it exchanges enough",
                                  ends.losing, ends.known));
      ends = {};
    } else {
      verdict.set_peer("machine " + key.second);
    }
    found.push_back(std::move(verdict));
  }
  return found;
}

}  // namespace kintsugi::gray
