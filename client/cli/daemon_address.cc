#include "client/cli/daemon_address.h"

#include "client/cli/servers.h"

namespace kintsugi::cli {

Result<std::optional<runtime::Endpoint>> find_daemon(client::BlockingClient& client,
                                                     const std::string& where) {
  constexpr std::string_view kMetaserver = "metaserver";
  if (where == kMetaserver) return std::optional<runtime::Endpoint>();
  if (const auto address = runtime::Endpoint::parse(where)) return std::optional(*address);
  KINTSUGI_ASSIGN(const proto::ListServersResponse servers, client.run(client.async().list_servers()));
  KINTSUGI_ASSIGN(const proto::ServerState server, find_server(servers, where));
  KINTSUGI_ASSIGN(const runtime::Endpoint address, runtime::Endpoint::parse(server.address()));
  return std::optional(address);
}

}  // namespace kintsugi::cli
