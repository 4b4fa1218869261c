#include "client/cli/host_files.h"

#include <fmt/format.h>

#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "common/runtime/network.h"

namespace kintsugi::cli {
namespace {

constexpr uint16_t kMetaserverPort = 9600, kChunkserverPort = 9602, kRepairManagerPort = 9604,
                   kMonitorPort = 9700;

std::string in_directory(std::string_view name) {
  return fmt::format("{}/{}", kHostDirectory, name);
}

std::string address_of(const HostDescription& host, uint16_t port) {
  return runtime::Endpoint{host.address, port}.to_string();
}

/// Where a daemon listens; its pages are at the next port.
std::string listen_lines(const HostDescription& host, uint16_t port) {
  return fmt::format("listen = \"{}\"\nhttp_listen = \"{}\"\n", address_of(host, port),
                     address_of(host, static_cast<uint16_t>(port + 1)));
}

std::string metaserver_line(const HostsFile& hosts) {
  return fmt::format("metaserver = \"{}\"\n", address_of(hosts.with(HostRole::kMetaserver), kMetaserverPort));
}

/// Returns the settings by which a host proves itself: one that only uses the cluster has a token in place of the secret.
std::string key_lines(const HostDescription& host) {
  const std::string proof =
      host.serves()
          ? fmt::format("secret_file = \"{}\"\n", in_directory(kHostSecret))
          : fmt::format("token_file = \"{}\"   # of `kintsugi token create`\n", in_directory(kHostToken));
  return proof + fmt::format("tls.certificate = \"{}\"\ntls.key = \"{}\"\ntls.authority = \"{}\"\n",
                             in_directory(kHostCertificate), in_directory(kHostKey),
                             in_directory(kHostAuthority));
}

std::string head(std::string_view file) {
  return fmt::format(
      "# {}, made by `kintsugi cluster init`: every setting is in docs/reference/settings.md.\n",
      in_directory(file));
}

/// Metaserver and chunkserver share the memory of a host that has both.
std::string memory_line(const HostDescription& host) {
  const bool both = host.roles.contains(HostRole::kMetaserver) && host.roles.contains(HostRole::kChunkserver);
  return both ? "daemons_on_machine = 2\n" : "";
}

HostFile metaserver_file(const HostsFile& hosts, const HostDescription& host) {
  std::string text = head("metaserver.toml") + listen_lines(host, kMetaserverPort) +
                     "data_dir = \"/var/lib/kintsugi/meta\"\n" + memory_line(host);
  text += fmt::format("policy = {}   # of new files below /; it counts when the cluster is made\n",
                      toml_string(hosts.policy));
  return {"metaserver.toml", text + key_lines(host)};
}

HostFile chunkserver_file(const HostsFile& hosts, const HostDescription& host) {
  std::string text = head("chunkserver-1.toml") + fmt::format("name = {}\n", toml_string(host.name));
  if (!host.rack.empty()) text += fmt::format("rack = {}\n", toml_string(host.rack));
  text += listen_lines(host, kChunkserverPort) + metaserver_line(hosts);
  std::string disks;
  for (const std::string& disk : host.disks)
    disks += (disks.empty() ? "" : ", ") + toml_string(disk);
  text += fmt::format("disks = [{}]   # mount them first\n", disks) + memory_line(host);
  return {"chunkserver-1.toml", text + key_lines(host)};
}

HostFile env_file(const HostsFile& hosts, const HostDescription& host) {
  const auto path = [](std::string_view name) { return in_directory(name); };
  return {"env", fmt::format("export KINTSUGI_META={}\nexport KINTSUGI_MONITOR={}\nexport {}={}\n"
                             "export KINTSUGI_TLS_CERTIFICATE={}\nexport KINTSUGI_TLS_KEY={}\nexport "
                             "KINTSUGI_TLS_AUTHORITY={}\n",
                             address_of(hosts.with(HostRole::kMetaserver), kMetaserverPort),
                             address_of(hosts.with(HostRole::kMonitor), kMonitorPort),
                             host.serves() ? kSecretVariable : kTokenVariable,
                             path(host.serves() ? kHostSecret : kHostToken), path(kHostCertificate),
                             path(kHostKey), path(kHostAuthority))};
}

}  // namespace

std::vector<HostFile> settings_of_host(const HostsFile& hosts, const HostDescription& host) {
  std::vector<HostFile> files;
  if (host.roles.contains(HostRole::kMetaserver)) files.push_back(metaserver_file(hosts, host));
  if (host.roles.contains(HostRole::kChunkserver)) files.push_back(chunkserver_file(hosts, host));
  if (host.roles.contains(HostRole::kRepairManager))
    files.push_back({"repair-manager.toml", head("repair-manager.toml") +
                                                listen_lines(host, kRepairManagerPort) +
                                                metaserver_line(hosts) + key_lines(host)});
  if (host.roles.contains(HostRole::kMonitor))
    files.push_back({"monitor.toml", head("monitor.toml") + listen_lines(host, kMonitorPort) +
                                         metaserver_line(hosts) +
                                         "data_dir = \"/var/lib/kintsugi/monitor\"\n" + key_lines(host)});
  files.push_back({"mount.toml", head("mount.toml") + metaserver_line(hosts) + key_lines(host)});
  files.push_back(env_file(hosts, host));
  return files;
}

std::vector<HostFile> keys_of_host(const runtime::CertifiedKey& own, const std::string& authority) {
  return {{std::string(kHostCertificate), own.certificate},
          {std::string(kHostKey), own.key, 0600},
          {std::string(kHostAuthority), authority}};
}

std::vector<std::string> certified_hosts(const HostDescription& host) {
  if (!host.serves()) return {};
  std::vector<std::string> all{host.address};
  for (const std::string& name : host.names)
    if (name != host.address) all.push_back(name);
  return all;
}

}  // namespace kintsugi::cli
