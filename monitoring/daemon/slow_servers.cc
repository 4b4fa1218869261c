#include "monitoring/daemon/slow_servers.h"

#include <algorithm>

#include "common/proto/slow_servers.h"

namespace kintsugi::monitoring {
namespace {

constexpr size_t kMostTold = 256;

/// What of the verdict's server others had better avoid.
std::optional<proto::SlowServer::Part> part_to_avoid(const proto::Verdict& verdict) {
  switch (verdict.kind()) {
    case proto::Verdict::DEVICE: return proto::SlowServer::DISK;
    case proto::Verdict::PAUSES:
      return verdict.device().empty() ? proto::SlowServer::LINK : proto::SlowServer::DISK;
    case proto::Verdict::SLOW:
      if (verdict.factor() > 1 && verdict.servers_waiting_size() > 0) return proto::SlowServer::LINK;
      return {};
    case proto::Verdict::LOSSES:
      if (verdict.peer().empty()) return proto::SlowServer::LINK;
      return {};
    case proto::Verdict::RESOURCE:  // with a region it is on that: memory
      if (verdict.region().empty() && verdict.confidence() == proto::Verdict::CERTAIN)
        return proto::SlowServer::LINK;
      return {};
    case proto::Verdict::ERRORS:
    case proto::Verdict::UNREACHED: return proto::SlowServer::LINK;
    default: return {};
  }
}

}  // namespace

std::optional<proto::SlowServer> slow_server(const proto::Verdict& verdict,
                                             std::span<const model::ServerLife> servers) {
  const std::optional<proto::SlowServer::Part> part = part_to_avoid(verdict);
  const auto known = std::ranges::find(servers, verdict.server_id(), &model::ServerLife::server_id);
  if (!part || verdict.server_id() == 0 || known == servers.end()) return {};
  proto::SlowServer slow;
  slow.set_server_id(verdict.server_id());
  slow.set_part(*part);
  if (*part == proto::SlowServer::DISK) slow.set_name(verdict.device());
  slow.set_factor(verdict.factor());
  slow.set_since_ms(verdict.since_ns() / 1'000'000);
  slow.set_alarm(verdict.id());
  return slow;
}

std::vector<proto::SlowServer> slow_servers(std::span<const proto::Verdict> verdicts,
                                            std::span<const model::ServerLife> servers) {
  std::vector<proto::SlowServer> slow;
  for (const proto::Verdict& verdict : verdicts)
    if (const auto one = slow_server(verdict, servers)) slow.push_back(*one);
  std::ranges::stable_sort(slow, std::greater<>(), proto::badness);
  if (slow.size() > kMostTold) slow.resize(kMostTold);
  return slow;
}

}  // namespace kintsugi::monitoring
