#include "monitoring/daemon/slow_servers.h"

#include <algorithm>

namespace kintsugi::monitoring {
namespace {

constexpr size_t kMostTold = 256;

}  // namespace

std::optional<proto::SlowServer> slow_server(const proto::Verdict& verdict,
                                             std::span<const model::ServerLife> servers) {
  // A disk that does not answer at all has no factor: whoever waits for it finds out by itself.
  if (verdict.factor() <= 1) return {};
  proto::SlowServer slow;
  if (verdict.kind() == proto::Verdict::DEVICE) {
    slow.set_server_id(verdict.server_id());
    slow.set_part(proto::SlowServer::DISK);
    slow.set_name(verdict.device());
  } else if ((verdict.kind() == proto::Verdict::SLOW && verdict.servers_waiting_size() > 0) ||
             (verdict.kind() == proto::Verdict::PAUSES && verdict.device().empty()) ||
             verdict.kind() == proto::Verdict::ERRORS) {
    slow.set_server_id(verdict.server_id());
    slow.set_part(proto::SlowServer::LINK);
  }
  const auto known = std::ranges::find(servers, slow.server_id(), &model::ServerLife::server_id);
  if (slow.server_id() == 0 || known == servers.end()) return {};
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
  std::ranges::stable_sort(slow, std::greater<>(), &proto::SlowServer::factor);
  if (slow.size() > kMostTold) slow.resize(kMostTold);
  return slow;
}

}  // namespace kintsugi::monitoring
