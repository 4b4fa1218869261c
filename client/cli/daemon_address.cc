#include "client/cli/daemon_address.h"

#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "client/cli/printable.h"
#include "client/cli/servers.h"
#include "common/proto/sight.pb.h"

namespace kintsugi::cli {
namespace {

constexpr std::string_view kPid = "pid:", kLoopback = "127.0.0.1";

/// As mounts report theirs: without "." and "..", doubled slashes, and slashes at the end, with which it may be mounted.
std::string normal_directory(std::string_view directory) {
  std::string normal = std::filesystem::path(directory).lexically_normal();
  while (normal.size() > 1 && normal.ends_with('/'))
    normal.pop_back();
  return normal;
}

/// A mount as the user names it.
struct WhichMount {
  std::string directory;  ///< empty: it is named by its process
  uint32_t pid = 0;

  bool is(const proto::ProcessLine& line) const {
    if (line.mount().empty()) return false;
    return directory.empty() ? line.pid() == pid : normal_directory(line.mount()) == directory;
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
  if (!where.starts_with(kPid)) return WhichMount{.directory = normal_directory(where)};
  WhichMount which;
  const std::string_view number = where.substr(kPid.size());
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), which.pid);
  if (error != std::errc() || end != number.data() + number.size() || which.pid == 0)
    return Status{Code::kInvalidArgument, fmt::format("{} names no process: pid:NUMBER", shown_name(where))};
  return which;
}

/// Where a mount of this host says that it listens. Whoever has a token may tell the monitor of mounts.
Result<runtime::Endpoint> address_of(const proto::ProcessLine& mount, std::string_view where) {
  if (mount.trace_address().empty())
    return Status{
        Code::kNotSupported,
        fmt::format("{} cannot be asked: it was mounted with a token, or by a version that does not "
                    "trace itself",
                    shown_name(where))};
  const auto address = runtime::Endpoint::parse(mount.trace_address());
  if (!address || address->host != kLoopback)
    return Status{Code::kPermissionDenied,
                  fmt::format("{} is said to listen at {}, which is not of this host", shown_name(where),
                              shown_name(mount.trace_address()))};
  return *address;
}

Result<runtime::Endpoint> find_mount(client::BlockingClient& client, const std::string& where) {
  KINTSUGI_ASSIGN(const WhichMount which, which_mount(where));
  KINTSUGI_ASSIGN(const proto::DiagnoseResponse known,
                  client.run(client.async().diagnose(proto::DiagnoseRequest())));
  if (known.reduced())
    return Status{Code::kUnavailable, "mounts are known to the monitor, and it does not answer"};
  const std::string host = own_host_name();
  // The process of a mount may have been replaced: the one that spoke last serves it.
  const proto::ProcessLine *here = nullptr, *elsewhere = nullptr;
  for (const proto::ProcessLine& line : known.processes()) {
    if (!which.is(line)) continue;
    const proto::ProcessLine*& latest = line.host() == host ? here : elsewhere;
    if (latest == nullptr || line.silent_ns() < latest->silent_ns()) latest = &line;
  }
  if (here != nullptr) return address_of(*here, where);
  if (elsewhere != nullptr)
    return Status{Code::kNotFound, fmt::format("{} is a mount of {}: it is traced from that host",
                                               shown_name(where), shown_name(elsewhere->host()))};
  return Status{
      Code::kNotFound,
      fmt::format("the monitor knows no mount {} of this host (it hears of a new one within seconds)",
                  shown_name(where))};
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
