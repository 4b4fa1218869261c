#include "repair_manager/view/server_table.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

#include "common/base/statistics.h"

namespace kintsugi::repair_manager {

ServerTable::ServerTable(std::vector<ServerView> servers) : servers_(std::move(servers)) {
  std::sort(servers_.begin(), servers_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  std::unordered_map<std::string_view, uint32_t> numbers;
  std::set<uint32_t> alive;
  std::vector<double> up, down;
  for (size_t i = 0; i < servers_.size(); ++i) {
    const ServerView& server = servers_[i];
    by_id_.emplace(server.id, i);
    racks_.push_back(numbers.emplace(server.rack, numbers.size()).first->second);
    addresses_.push_back(server.address.to_string());
    if (server.alive) alive.insert(racks_.back());
    if (server.up_bytes_per_second == 0 || server.down_bytes_per_second == 0) continue;
    up.push_back(static_cast<double>(server.up_bytes_per_second));
    down.push_back(static_cast<double>(server.down_bytes_per_second));
  }
  rack_count_ = numbers.size();
  alive_racks_ = alive.size();
  usual_link_ = {upper_median_of(std::move(up)), upper_median_of(std::move(down))};
  stride_ = std::max<size_t>(1, servers_.size() * 618 / 1000);
  while (std::gcd(stride_, servers_.size()) > 1)
    ++stride_;
}

std::optional<size_t> ServerTable::position(ServerId id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? std::nullopt : std::optional(at->second);
}

const ServerView* ServerTable::find(ServerId id) const {
  const std::optional<size_t> at = position(id);
  return at ? &servers_[*at] : nullptr;
}

std::string ServerTable::name_of(ServerId id) const {
  const ServerView* server = find(id);
  return server && !server->name.empty() ? server->name : fmt::format("{}", id);
}

LinkRate ServerTable::link(const ServerView& server, double otherwise) const {
  const auto left = [&](uint64_t measured, double usual) {
    const double rate = measured > 0 ? static_cast<double>(measured) : usual > 0 ? usual : otherwise;
    const double for_repairs =
        std::max(rate - static_cast<double>(server.user_bytes_per_second), rate * kLeastRepairShare);
    const auto limit = static_cast<double>(server.repair_limit_bytes_per_second);
    return limit > 0 ? std::min(for_repairs, limit) : for_repairs;
  };
  return {left(server.up_bytes_per_second, usual_link_.up),
          left(server.down_bytes_per_second, usual_link_.down)};
}

double ServerTable::slow_penalty(const ServerView& server) const {
  if (usual_link_.up == 0 || server.up_bytes_per_second == 0 || server.down_bytes_per_second == 0) return 0;
  const double share = std::min(static_cast<double>(server.up_bytes_per_second) / usual_link_.up,
                                static_cast<double>(server.down_bytes_per_second) / usual_link_.down);
  return share >= kSlowLink ? 0 : std::min(kMaxSlowPenalty, 1 / std::max(share, 1e-3) - 1);
}

double ServerTable::busy_penalty(const ServerView& server) const {
  double penalty = kAvoidPenalty * std::clamp((server.busy - kBusyFrom) / (1 - kBusyFrom), 0.0, 1.0);
  const double up =
      server.up_bytes_per_second > 0 ? static_cast<double>(server.up_bytes_per_second) : usual_link_.up;
  if (up > 0 && static_cast<double>(server.user_bytes_per_second) > kVeryLoaded * up)
    penalty += kAvoidPenalty;
  if (server.slow) penalty += kFoundSlowPenalty;
  return penalty;
}

}  // namespace kintsugi::repair_manager
