#include "metaserver/cluster/slow_servers.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "common/log/log.h"
#include "common/proto/slow_servers.h"

namespace kintsugi::metaserver {
namespace {

std::string reason(const proto::SlowServer& slow) {
  const char* part = slow.part() == proto::SlowServer::DISK ? "disk" : "link";
  return slow.factor() > 0
             ? fmt::format("{} {} is {:.1f} times slower than those of others", part, slow.name(),
                           slow.factor())
             : fmt::format("{} {} does not work as it should (alarm {})", part, slow.name(), slow.alarm());
}

}  // namespace

void SlowServers::tell(const google::protobuf::RepeatedPtrField<proto::SlowServer>& slow) {
  std::map<ServerId, proto::SlowServer> told;
  for (const proto::SlowServer& one : slow) {
    const ServerId id{one.server_id()};
    if (servers_.is_dead(id)) continue;
    proto::SlowServer& worst = told[id];
    if (worst.server_id() == 0 || proto::badness(one) > proto::badness(worst)) worst = one;
  }
  // Servers that do not work at all come first. Of the others those stay that are avoided already: two that are about
  // as slow would take turns otherwise.
  std::vector<std::tuple<bool, bool, double, ServerId>> order;
  for (const auto& [id, one] : told)
    order.emplace_back(one.factor() <= 0, contains(id), proto::badness(one), id);
  std::ranges::sort(order, std::greater<>());
  const size_t most = std::min(kMost, servers_.servers().size() / kOneOf);
  for (size_t i = most; i < order.size(); ++i)
    told.erase(std::get<ServerId>(order[i]));

  for (const auto& [id, one] : told)
    if (!contains(id)) log::warning("server {} is avoided: {}", servers_.name_of(id), reason(one));
  for (const auto& [id, one] : slow_)
    if (believed() && !told.contains(id)) log::info("server {} is no longer avoided", servers_.name_of(id));
  slow_ = std::move(told);
  told_ = clock_.now();
}

const proto::SlowServer* SlowServers::find(ServerId server) const {
  if (!believed()) return nullptr;
  const auto found = slow_.find(server);
  return found == slow_.end() ? nullptr : &found->second;
}

std::vector<ServerId> SlowServers::list() const {
  std::vector<ServerId> servers;
  if (!believed()) return servers;
  for (const auto& [id, one] : slow_)
    servers.push_back(id);
  return servers;
}

}  // namespace kintsugi::metaserver
