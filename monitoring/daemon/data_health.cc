#include "monitoring/daemon/data_health.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "common/proto/verdicts.h"
#include "monitoring/daemon/absence_detector.h"

namespace kintsugi::monitoring {
namespace {

constexpr size_t kMostListed = 3;  ///< servers that a sentence names

/// "1,204".
std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3;)
    digits.insert(at -= 3, ",");
  return digits;
}

std::string counted(uint64_t number, std::string_view one) {
  return fmt::format("{} {}{}", grouped(number), one, number == 1 ? "" : "s");
}

/// "chunkserver-3, chunkserver-4 and 2 others".
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostListed); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + proto::printable(names[i]);
  if (names.size() > kMostListed)
    text += fmt::format(" and {}", counted(names.size() - kMostListed, "other"));
  return text;
}

std::vector<std::string> servers_away(const proto::ListServersResponse& servers) {
  std::vector<std::string> names;
  for (const proto::ServerState& server : servers.servers())
    if (server.liveness() != proto::ServerState::ALIVE) names.push_back(server.name());
  return names;
}

/// "chunkserver-3 is in maintenance, for 2 h at most"; empty: none is.
std::string maintenance_clause(const proto::ListServersResponse& servers) {
  std::vector<std::string> names;
  double longest = 0;
  for (const proto::ServerState& server : servers.servers()) {
    if (server.maintenance_seconds() <= 0) continue;
    names.push_back(server.name());
    longest = std::max(longest, server.maintenance_seconds());
  }
  if (names.empty()) return {};
  return fmt::format("{} {} in maintenance, for {} at most", listed(names), names.size() == 1 ? "is" : "are",
                     proto::time_left(longest));
}

/// Some server is dead, and each that is was said to be away for a while.
bool all_dead_are_awaited(const proto::ListServersResponse& servers) {
  const auto is_dead = [](const proto::ServerState& server) {
    return server.liveness() == proto::ServerState::DEAD;
  };
  return std::ranges::any_of(servers.servers(), is_dead) &&
         std::ranges::none_of(servers.servers(), [&](const proto::ServerState& server) {
           return is_dead(server) && server.maintenance_seconds() <= 0;
         });
}

uint64_t repairing(const proto::RepairStatusResponse& repairs) {
  return static_cast<uint64_t>(
      std::ranges::count(repairs.running(), proto::RepairRecord::REPAIR, &proto::RepairRecord::kind));
}

/// What comes next for stripes that lack chunks, as the second half of a sentence.
std::string what_comes_next(const ClusterWatch& watch, int64_t wall_ns) {
  const proto::RepairStatusResponse& repairs = watch.repairs();
  if (repairing(repairs) > 0) {
    const std::optional<Duration> left = repairs_left(watch, wall_ns);
    if (!left) return "they are being repaired, which takes longer than estimated";
    return fmt::format("they are being repaired, about {} left", proto::time_left(to_seconds(*left)));
  }
  if (repairs.unrepairable() > 0)
    return fmt::format("{} cannot be rebuilt now", counted(repairs.unrepairable(), "chunk"));
  if (repairs.queued() > 0) return "their repair waits, and none runs";
  if (repairs.delayed() > 0 && all_dead_are_awaited(watch.servers()))
    return "their repair waits for the end of a maintenance";
  if (repairs.delayed() > 0)
    return fmt::format("their repair begins when the servers have been dead for {}",
                       proto::time_left(repairs.repair_delay_seconds()));
  return "their repair has not begun";
}

/// "3 of 1,204 stripes".
std::string some_of(uint64_t some, const proto::DiskFreeResponse& space) {
  return fmt::format("{} of {}", grouped(some), counted(space.stripes(), "stripe"));
}

/// `otherwise`: what helps besides starting the servers that are away.
std::string bring_back(const ClusterWatch& watch, std::string_view otherwise) {
  const std::vector<std::string> away = servers_away(watch.servers());
  if (away.empty()) return "Look at the alarms, and bring back the disks that are missing.";
  return fmt::format("Start {} again, or {}.", listed(away), otherwise);
}

DataHealth degraded_health(const ClusterWatch& watch, int64_t wall_ns) {
  const proto::DiskFreeResponse& space = watch.space();
  const proto::StripeHealth& health = space.health();
  const bool at_risk = health.without_spare() > health.unreadable();
  std::string lack = at_risk ? fmt::format("{} cannot lose another chunk",
                                           some_of(health.without_spare() - health.unreadable(), space))
                             : fmt::format("{} lack{} a chunk and can be read",
                                           some_of(health.degraded() - health.unreadable(), space),
                                           health.degraded() - health.unreadable() == 1 ? "s" : "");
  const std::string next = watch.nobody_repairs().empty()
                               ? what_comes_next(watch, wall_ns)
                               : "nothing repairs them, since no repair manager is registered";
  DataHealth told{.level = at_risk ? DataHealth::Level::kBad : DataHealth::Level::kWarning,
                  .sentence = fmt::format("{}; {}.", lack, next),
                  .action = {}};
  if (!watch.nobody_repairs().empty()) {
    told.level = DataHealth::Level::kBad;
    told.action = "Start kintsugi-repair-manager.";
  } else if (repairing(watch.repairs()) == 0 &&
             watch.repairs().unrepairable() + watch.repairs().queued() > 0) {
    told.action = bring_back(watch, "add servers");
  }
  return told;
}

/// What holds by an answer of the metaserver that is not old.
DataHealth told_health(const ClusterWatch& watch, int64_t wall_ns) {
  const proto::DiskFreeResponse& space = watch.space();
  const proto::StripeHealth& health = space.health();
  if (health.unreadable() > 0)
    return {.level = DataHealth::Level::kBad,
            .sentence = fmt::format("{} cannot be read: too few of their chunks are there.",
                                    some_of(health.unreadable(), space)),
            .action = bring_back(watch, "bring back the disks")};
  if (health.degraded() > 0) return degraded_health(watch, wall_ns);
  if (health.not_reported_size() > 0) {
    std::vector<std::string> names;
    for (const proto::ServerName& server : health.not_reported())
      names.push_back(server.name());
    return {.level = DataHealth::Level::kWarning,
            .sentence =
                fmt::format("Nothing is known to be missing; {} {} not told {} chunks yet.", listed(names),
                            names.size() == 1 ? "has" : "have", names.size() == 1 ? "its" : "their"),
            .action = {}};
  }
  const std::string whole = space.stripes() == 0 ? "No data is stored yet"
                            : space.stripes() == 1
                                ? "The only stripe is whole"
                                : fmt::format("All {} stripes are whole", grouped(space.stripes()));
  if (!watch.nobody_repairs().empty())
    return {
        .level = DataHealth::Level::kWarning,
        .sentence = whole + "; what is lost from now on stays lost, since no repair manager is registered.",
        .action = "Start kintsugi-repair-manager."};
  return {.level = DataHealth::Level::kGood, .sentence = whole + ".", .action = {}};
}

}  // namespace

std::string_view name_of(DataHealth::Level level) {
  switch (level) {
    case DataHealth::Level::kGood: return "good";
    case DataHealth::Level::kWarning: return "warning";
    default: return "bad";
  }
}

DataHealth data_health(const ClusterWatch& watch, int64_t wall_ns) {
  const std::optional<Duration> answered = watch.answered_ago();
  if (!answered || *answered > AbsenceDetector::kUnanswered)
    return {.level = DataHealth::Level::kBad,
            .sentence = "The metaserver does not answer: nothing can be read or written until it is back.",
            .action = fmt::format("Check that its process and its machine ({}) run, and start it again.",
                                  watch.metaserver().to_string())};
  if (const auto told = watch.space_told_ago(); !told || *told > AbsenceDetector::kUnanswered)
    return {
        .level = DataHealth::Level::kWarning,
        .sentence = "Whether all data is whole is not known: the metaserver answers, and has not said so.",
        .action = "Run `kintsugi df`, which asks it; this monitor's log says why it has no answer."};
  DataHealth told = told_health(watch, wall_ns);
  if (const std::string maintenance = maintenance_clause(watch.servers()); !maintenance.empty()) {
    told.sentence.pop_back();  // its full stop
    told.sentence += fmt::format("; {}.", maintenance);
  }
  return told;
}

std::optional<Duration> repairs_left(const ClusterWatch& watch, int64_t wall_ns) {
  const proto::RepairStatusResponse& repairs = watch.repairs();
  double estimated = 0, passed = 0, count = 0, chunks = static_cast<double>(repairs.queued());
  for (const proto::RepairRecord& record : repairs.running()) {
    if (record.kind() != proto::RepairRecord::REPAIR) continue;
    estimated += record.estimated_seconds();
    passed += std::max(0.0, static_cast<double>(wall_ns - record.started_ns()) / 1e9);
    count += 1;
    chunks += std::max(1, record.indexes_size());
  }
  if (count == 0) return {};
  double left = 0;
  if (const std::optional<double> pace = watch.repair_pace().chunks_per_second()) {
    left = chunks / *pace;
  } else {
    if (passed > estimated) return {};
    left = (estimated - passed + estimated * static_cast<double>(repairs.queued()) / count) / count;
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::clamp(left, 1.0, 1e9)));
}

}  // namespace kintsugi::monitoring
