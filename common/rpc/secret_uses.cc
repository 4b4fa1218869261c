#include "common/rpc/secret_uses.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/rpc/peers.h"

namespace kintsugi::rpc {

std::shared_ptr<SecretUses::Connection> SecretUses::opened(const Principal& by, const std::string& address,
                                                           TimePoint now) {
  return std::make_shared<Connection>(shared_from_this(), by.secret,
                                      fmt::format("{} at {}", by.text(), address_of(address)), now);
}

void SecretUses::tell(uint64_t in_use, TimePoint now, proto::SecretStatusResponse& response) const {
  std::map<std::pair<uint64_t, std::string>, proto::SecretUse> users;
  for (const Connection* const connection : connections_) {
    if (connection->secret_ == in_use || connection->refused_) continue;
    const double idle = to_seconds(now - connection->used_);
    const auto [at, is_new] = users.try_emplace({connection->secret_, connection->who_});
    proto::SecretUse& use = at->second;
    use.set_secret(connection->secret_);
    use.set_who(connection->who_);
    use.set_connections(use.connections() + 1);
    use.set_idle_seconds(is_new ? idle : std::min(idle, use.idle_seconds()));
  }
  std::vector<proto::SecretUse> told;
  told.reserve(users.size());
  for (auto& [key, use] : users)
    told.push_back(std::move(use));
  std::ranges::stable_sort(told, {}, &proto::SecretUse::idle_seconds);
  if (told.size() > kMostTold) told.resize(kMostTold);
  response.mutable_uses()->Assign(told.begin(), told.end());
}

}  // namespace kintsugi::rpc
