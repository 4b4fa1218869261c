#include "tracing/anomaly/profile.h"

#include <algorithm>
#include <unordered_map>

#include "common/base/hash.h"

namespace kintsugi::anomaly {
namespace {

using flow::EventId;
using flow::kNone;

constexpr double kNanosecondsOfASecond = 1e9;

template <class Number>
void add(Number& to, Number more) {
  if (__builtin_add_overflow(to, more, &to)) to = std::numeric_limits<Number>::max();
}

/// Totals by group and path while they grow.
class Accumulator {
 public:
  PathTotal& at(uint32_t group, PathId path, int64_t first) {
    const uint64_t key = uint64_t{group} << 32 | path;
    const auto [found, added] = places_.try_emplace(key, totals_.size());
    if (added) totals_.emplace_back(group, PathTotal{.path = path, .first = first});
    PathTotal& total = totals_[found->second].second;
    total.first = std::min(total.first, first);
    return total;
  }

  std::vector<PathTotals> by_group(size_t groups) && {
    std::vector<PathTotals> all(groups);
    for (const auto& [group, total] : totals_)
      all[group].push_back(total);
    for (PathTotals& totals : all)
      std::sort(totals.begin(), totals.end(),
                [](const PathTotal& a, const PathTotal& b) { return a.path < b.path; });
    return all;
  }

 private:
  struct Hash {
    size_t operator()(uint64_t key) const { return mix_bits(key); }
  };
  std::unordered_map<uint64_t, size_t, Hash> places_;
  std::vector<std::pair<uint32_t, PathTotal>> totals_;
};

/// visit(event, path, from_ns, to_ns): the path runs between the event and the next one of its thread.
template <class Visit>
void walk(const flow::Trace& trace, CallPaths& paths, Visit visit) {
  const TraceNames names(trace, paths);
  for (const flow::Thread& thread : trace.threads()) {
    StackWalk stack(paths, names, thread.process);
    int64_t now = trace.event(thread.events.front()).time_ns;
    for (size_t i = 0; i < thread.events.size(); ++i) {
      const PathId path = stack.step(trace.event(thread.events[i]));
      int64_t next = now;
      if (i + 1 < thread.events.size())
        next = trace.event(thread.events[i + 1]).time_ns;
      else if (stack.open())
        next = trace.processes()[thread.process].end_ns;
      next = std::max(now, next);  // A clock that steps back gives nobody negative time.
      visit(thread.events[i], path, now, next);
      now = next;
    }
  }
}

/// fill(group) for each group that the event counts for.
template <class Fill>
void for_groups(const Groups& groups, EventId id, Fill fill) {
  if (groups.of[id] != kNone) fill(groups.of[id]);
  if (!groups.share || groups.share->shared_of.empty() || groups.share->shared_of[id] == kNone) return;
  for (flow::FlowId other : groups.share->others_of(id))
    fill(other);
}

int64_t order_of(const flow::Trace& trace, const Groups& groups, EventId id) {
  return groups.order.empty() ? trace.event(id).time_ns : groups.order[id];
}

/// Where fragments begin.
class Cuts {
 public:
  explicit Cuts(const Fragments& fragments)
      : fragments_(fragments),
        width_((static_cast<double>(fragments.end_ns) - static_cast<double>(fragments.begin_ns)) /
               fragments.count) {}

  int64_t begin_of(uint32_t fragment) const {
    if (fragment == fragments_.count) return fragments_.end_ns;
    return fragments_.begin_ns + static_cast<int64_t>(width_ * fragment);
  }

  /// The first one for times before it.
  uint32_t fragment_at(int64_t time_ns) const {
    const double at = (static_cast<double>(time_ns) - static_cast<double>(fragments_.begin_ns)) / width_;
    auto fragment = static_cast<uint32_t>(std::clamp(at, 0.0, fragments_.count - 1.0));
    // What rounding has put beside it.
    while (fragment > 0 && begin_of(fragment) > time_ns)
      --fragment;
    while (fragment + 1 < fragments_.count && begin_of(fragment + 1) <= time_ns)
      ++fragment;
    return fragment;
  }

 private:
  const Fragments& fragments_;
  double width_;
};

double total_time(const PathTotals& totals) {
  double sum = 0;
  for (const PathTotal& total : totals)
    sum += static_cast<double>(total.self_ns);
  return sum;
}

double total_bytes(const PathTotals& totals) {
  double sum = 0;
  for (const PathTotal& total : totals)
    sum += static_cast<double>(total.bytes);
  return sum;
}

void append_coverage(const PathTotals& totals, const CallPaths& paths, Profile& profile) {
  std::vector<PathId> seen;
  for (const PathTotal& total : totals)
    for (PathId path = total.path; paths.depth(path) > 0; path = paths.parent(path))
      seen.push_back(path);
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (PathId path : seen)
    profile.push_back({Measure::kCoverage, path, 1});
}

}  // namespace

Groups groups_by_flow(const flow::Flows& flows, bool replicate) {
  return {.count = flows.flows.size(), .of = flows.of, .share = replicate ? &flows : nullptr};
}

Groups groups_by_process(const flow::Trace& trace) {
  Groups groups{.count = trace.processes().size()};
  groups.of.reserve(trace.size());
  for (const flow::Event& event : trace.events())
    groups.of.push_back(event.process);
  return groups;
}

std::vector<PathTotals> totals_of(const flow::Trace& trace, const Groups& groups, CallPaths& paths) {
  Accumulator accumulator;
  walk(trace, paths, [&](EventId id, PathId path, int64_t from, int64_t to) {
    const flow::Event& event = trace.event(id);
    for_groups(groups, id, [&](uint32_t group) {
      PathTotal& total = accumulator.at(group, path, order_of(trace, groups, id));
      add(total.self_ns, to - from);
      if (event.kind == flow::Kind::kSend) add(total.bytes, event.size);
    });
  });
  return std::move(accumulator).by_group(groups.count);
}

std::vector<std::vector<PathTotals>> totals_of_fragments(const flow::Trace& trace, const Groups& groups,
                                                         CallPaths& paths, const Fragments& fragments) {
  std::vector<Accumulator> accumulators(fragments.count);
  const Cuts cuts(fragments);
  walk(trace, paths, [&](EventId id, PathId path, int64_t from, int64_t to) {
    const flow::Event& event = trace.event(id);
    if (from >= fragments.end_ns || to < fragments.begin_ns) return;
    const uint32_t first = cuts.fragment_at(from);
    for (uint32_t fragment = first; fragment < fragments.count; ++fragment) {
      const int64_t begin = std::max(from, cuts.begin_of(fragment)),
                    end = std::min(to, cuts.begin_of(fragment + 1));
      if (fragment > first && begin >= to) break;
      for_groups(groups, id, [&](uint32_t group) {
        PathTotal& total = accumulators[fragment].at(group, path, order_of(trace, groups, id));
        add(total.self_ns, std::max<int64_t>(0, end - begin));
        if (fragment == first && event.kind == flow::Kind::kSend && from >= fragments.begin_ns)
          add(total.bytes, event.size);
      });
    }
  });
  std::vector<std::vector<PathTotals>> all;
  for (Accumulator& accumulator : accumulators)
    all.push_back(std::move(accumulator).by_group(groups.count));
  return all;
}

std::string_view name_of(ProfileKind kind) {
  switch (kind) {
    case ProfileKind::kTime: return "time";
    case ProfileKind::kCoverage: return "coverage";
    case ProfileKind::kCommunication: return "communication";
    case ProfileKind::kComposite: return "composite";
    case ProfileKind::kElapsed: return "elapsed time";
  }
  return "?";
}

Profile profile_of(const PathTotals& totals, const CallPaths& paths, ProfileKind kind) {
  Profile profile;
  if (kind == ProfileKind::kCoverage) append_coverage(totals, paths, profile);
  if (kind == ProfileKind::kTime || kind == ProfileKind::kComposite || kind == ProfileKind::kElapsed) {
    const double all = kind == ProfileKind::kElapsed ? kNanosecondsOfASecond : total_time(totals);
    for (const PathTotal& total : totals)
      if (total.self_ns > 0)
        profile.push_back({Measure::kTime, total.path, static_cast<double>(total.self_ns) / all});
  }
  if (kind == ProfileKind::kCommunication || kind == ProfileKind::kComposite) {
    const double all = total_bytes(totals);
    for (const PathTotal& total : totals)
      if (total.bytes > 0)
        profile.push_back({Measure::kCommunication, total.path, static_cast<double>(total.bytes) / all});
  }
  return profile;
}

double distance(const Profile& g, const Profile& h) {
  const auto key = [](const Component& one) { return std::tuple(one.measure, one.path); };
  double sum = 0;
  auto a = g.begin(), b = h.begin();
  while (a != g.end() || b != h.end()) {
    if (b == h.end() || (a != g.end() && key(*a) < key(*b)))
      sum += (a++)->value;
    else if (a == g.end() || key(*b) < key(*a))
      sum += (b++)->value;
    else
      sum += std::abs((a++)->value - (b++)->value);
  }
  return sum;
}

double length_of(const Profile& profile) {
  double sum = 0;
  for (const Component& one : profile)
    sum += one.value;
  return sum;
}

}  // namespace kintsugi::anomaly
