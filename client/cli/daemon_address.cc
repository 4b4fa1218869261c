#include "client/cli/daemon_address.h"

#include <array>
#include <charconv>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "client/cli/printable.h"
#include "client/cli/servers.h"
#include "common/proto/sight.pb.h"

namespace kintsugi::cli {
namespace {

constexpr std::string_view kPid = "pid:", kLoopback = "127.0.0.1";

/// A directory may be named, and mounted, with slashes at its end.
std::string_view without_slash(std::string_view directory) {
  while (directory.size() > 1 && directory.ends_with('/'))
    directory.remove_suffix(1);
  return directory;
}

/// A mount as the user names it.
struct WhichMount {
  std::string_view directory;  ///< empty: it is named by its process
  uint32_t pid = 0;

  bool is(const proto::ProcessLine& line) const {
    if (line.mount().empty()) return false;
    return directory.empty() ? line.pid() == pid : without_slash(line.mount()) == directory;
  }
};

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

bool names_mount(std::string_view where) {
  return where.starts_with('/') || where.starts_with(kPid);
}

Result<WhichMount> which_mount(std::string_view where) {
  if (!where.starts_with(kPid)) return WhichMount{.directory = without_slash(where)};
  WhichMount which;
  const std::string_view number = where.substr(kPid.size());
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), which.pid);
  if (error != std::errc() || end != number.data() + number.size() || which.pid == 0)
    return Status{Code::kInvalidArgument, fmt::format("{} names no process: pid:NUMBER", shown_name(where))};
  return which;
}

/// The mount of this host that spoke last, for the process of a mount may have been replaced.
Result<runtime::Endpoint> find_mount(client::BlockingClient& client, const std::string& where) {
  KINTSUGI_ASSIGN(const WhichMount which, which_mount(where));
  KINTSUGI_ASSIGN(const proto::DiagnoseResponse known,
                  client.run(client.async().diagnose(proto::DiagnoseRequest())));
  if (known.reduced())
    return Status{Code::kUnavailable, "mounts are known to the monitor, and it does not answer"};
  const std::string host = own_host_name();
  const proto::ProcessLine* found = nullptr;
  std::string elsewhere;
  for (const proto::ProcessLine& line : known.processes()) {
    if (!which.is(line)) continue;
    if (line.host() != host) {
      elsewhere = line.host();
    } else if (found == nullptr || line.silent_ns() < found->silent_ns()) {
      found = &line;
    }
  }
  if (found == nullptr && !elsewhere.empty())
    return Status{Code::kNotFound, fmt::format("{} is a mount of {}: it is traced from that host",
                                               shown_name(where), shown_name(elsewhere))};
  if (found == nullptr)
    return Status{Code::kNotFound,
                  fmt::format("the monitor knows no mount {} of this host (it hears of a new one within "
                              "seconds)",
                              shown_name(where))};
  if (found->trace_address().empty())
    return Status{Code::kNotSupported,
                  fmt::format("{} cannot be asked: it was mounted with a token", shown_name(where))};
  KINTSUGI_ASSIGN(runtime::Endpoint address, runtime::Endpoint::parse(found->trace_address()));
  // Whoever has a token may tell the monitor of mounts.
  if (address.host != kLoopback)
    return Status{Code::kPermissionDenied,
                  fmt::format("{} is said to listen at {}, which is not of this host", shown_name(where),
                              shown_name(address.to_string()))};
  return address;
}

}  // namespace

Result<std::optional<runtime::Endpoint>> find_daemon(client::BlockingClient& client,
                                                     const std::string& where) {
  constexpr std::string_view kMetaserver = "metaserver";
  if (where == kMetaserver) return std::optional<runtime::Endpoint>();
  if (names_mount(where)) {
    KINTSUGI_ASSIGN(const runtime::Endpoint mount, find_mount(client, where));
    return std::optional(mount);
  }
  if (const auto address = runtime::Endpoint::parse(where)) return std::optional(*address);
  KINTSUGI_ASSIGN(const proto::ListServersResponse servers, client.run(client.async().list_servers()));
  KINTSUGI_ASSIGN(const proto::ServerState server, find_server(servers, where));
  KINTSUGI_ASSIGN(const runtime::Endpoint address, runtime::Endpoint::parse(server.address()));
  return std::optional(address);
}

}  // namespace kintsugi::cli
