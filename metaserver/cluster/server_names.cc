#include "metaserver/cluster/server_names.h"

#include <algorithm>

#include "common/base/server_name.h"

namespace kintsugi::metaserver {

void ServerNames::choose_holder(Claims& claims) const {
  const auto living = std::ranges::find_if(claims.servers, [&](const auto& claim) {
    return known_.at(claim.second).standing == Standing::kLiving;
  });
  claims.holder = living == claims.servers.end() ? claims.servers.begin()->second : living->second;
}

void ServerNames::release(ServerId server, const Known& known) {
  const auto claims = claims_.find(known.claimed);
  if (claims == claims_.end()) return;
  claims->second.servers.erase({known.number, server});
  if (claims->second.servers.empty()) {
    claims_.erase(claims);
  } else {
    choose_holder(claims->second);
  }
}

void ServerNames::put(ServerId server, const proto::StoredServer& stored, Standing standing) {
  Known& known = known_[server];
  release(server, known);
  known.number = stored.number();
  known.standing = standing;
  known.claimed = stored.name().empty() ? stored.address() : stored.name();
  if (known.number != 0) numbers_[known.number] = server;
  if (standing == Standing::kRemoved) return;
  Claims& claims = claims_[known.claimed];
  claims.servers.insert({known.number, server});
  choose_holder(claims);
}

uint32_t ServerNames::free_number(uint32_t wanted) const {
  if (wanted != 0 && wanted <= kMaxWantedServerNumber && !numbers_.contains(wanted)) return wanted;
  return numbers_.empty() ? 1 : numbers_.rbegin()->first + 1;
}

std::string ServerNames::name(ServerId server) const {
  const auto known = known_.find(server);
  // A record from before there were names has none when its server was removed.
  if (known == known_.end() || known->second.claimed.empty()) return fmt::format("{}", server);
  const auto& [number, claimed, standing] = known->second;
  const auto claims = claims_.find(claimed);
  if (claims == claims_.end() || claims->second.holder == server) return claimed;
  // A record from before there were numbers has none until its server registers again.
  return fmt::format("{}#{}", claimed, number != 0 ? number : server.value);
}

proto::ServerName ServerNames::of(ServerId server) const {
  proto::ServerName name;
  name.set_server_id(server.value);
  name.set_name(this->name(server));
  if (const auto known = known_.find(server); known != known_.end()) name.set_number(known->second.number);
  return name;
}

}  // namespace kintsugi::metaserver
