#include "client/cli/metaserver_pages.h"

#include <memory>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/runtime/tls/tls_network.h"

namespace kintsugi::cli {
namespace {

/// Sockets of a host can be bound to its own addresses only.
bool is_of_this_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), "0", &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool bound = ::bind(fd, found->ai_addr, found->ai_addrlen) == 0;
  ::close(fd);
  return bound;
}

}  // namespace

Result<runtime::Endpoint> metaserver_pages(const std::string& told, const runtime::Endpoint& metaserver) {
  if (told.empty()) return runtime::Endpoint{metaserver.host, static_cast<uint16_t>(metaserver.port + 1)};
  KINTSUGI_ASSIGN(runtime::Endpoint pages, runtime::Endpoint::parse(told));
  if (pages.is_wildcard()) pages.host = metaserver.host;
  if (!runtime::is_loopback(pages.host) || is_of_this_host(metaserver.host)) return pages;
  return Status{Code::kUnavailable,
                fmt::format("the metaserver's pages are at {} of its own host only (http_listen)", told)};
}

}  // namespace kintsugi::cli
