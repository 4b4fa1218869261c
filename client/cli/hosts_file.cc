#include "client/cli/hosts_file.h"

#include <algorithm>
#include <array>
#include <map>

#include <boost/asio/ip/address.hpp>

#include "client/cli/local_daemon.h"
#include "common/base/assert.h"
#include "common/base/quote.h"
#include "common/base/server_name.h"
#include "common/config/nearest.h"
#include "common/config/toml.h"
#include "common/runtime/network.h"
#include "common/runtime/tls/tls_network.h"
#include "erasure/policy.h"

namespace kintsugi::cli {
namespace {

/// toml++ recurses for each part of a dotted key, which stands on one line.
constexpr size_t kMostOfALine = 16 << 10;
constexpr size_t kMostOfAFile = 1 << 20;

constexpr std::array<std::pair<std::string_view, HostRole>, 5> kRoles{
    {{"metaserver", HostRole::kMetaserver},
     {"repair-manager", HostRole::kRepairManager},
     {"monitor", HostRole::kMonitor},
     {"chunkserver", HostRole::kChunkserver},
     {"client", HostRole::kClient}}};

/// `what` is "key", "role".
template <size_t N>
std::string unknown(std::string_view what, std::string_view word,
                    const std::array<std::string_view, N>& known) {
  const std::string_view meant = config::nearest(word, known);
  return fmt::format("unknown {} \"{}\"{}", what, word,
                     meant.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", meant));
}

Result<std::string> text_of(std::string_view key, const toml::node& node) {
  const auto* text = node.as_string();
  if (text == nullptr) return invalid(fmt::format("{}: expected a string", key));
  return text->get();
}

Result<std::vector<std::string>> texts_of(std::string_view key, const toml::node& node) {
  std::vector<std::string> texts;
  const toml::array* array = node.as_array();
  if (array == nullptr) return invalid(fmt::format("{}: expected an array of strings", key));
  for (const toml::node& item : *array) {
    KINTSUGI_ASSIGN(std::string text, text_of(key, item));
    if (std::ranges::find(texts, text) != texts.end())
      return invalid(fmt::format("{}: \"{}\" is there twice", key, text));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<HostRole> role_of(std::string_view word) {
  std::array<std::string_view, kRoles.size()> known;
  std::ranges::transform(kRoles, known.begin(), [](const auto& role) { return role.first; });
  const auto* found = std::ranges::find(kRoles, word, [](const auto& role) { return role.first; });
  if (found == kRoles.end()) return invalid(unknown("role", word, known));
  return found->second;
}

Status check_address(const std::string& address) {
  boost::system::error_code no_address;
  (void)boost::asio::ip::make_address(address, no_address);
  // A name has no colons, but for the one before a port.
  const bool may_be_name = address.find(':') == address.npos && runtime::Endpoint::parse(address + ":1");
  if (no_address && !may_be_name)
    return invalid(fmt::format(
        "\"{}\" is neither a name nor an address of a host (a port is not wanted here)", address));
  if (address == "0.0.0.0" || address == "::" || address == "localhost" || runtime::is_loopback(address))
    return invalid(fmt::format("{} is not an address at which other hosts reach this one", address));
  return {};
}

Status set(HostDescription& host, std::string_view key, const toml::node& node) {
  static constexpr std::array<std::string_view, 5> kKeys{"address", "names", "rack", "disks", "roles"};
  if (key == "address") {
    KINTSUGI_ASSIGN(host.address, text_of(key, node));
    return check_address(host.address);
  }
  if (key == "rack") {
    KINTSUGI_ASSIGN(host.rack, text_of(key, node));
    return {};
  }
  if (key == "names") {
    KINTSUGI_ASSIGN(host.names, texts_of(key, node));
    for (const std::string& name : host.names)
      KINTSUGI_TRY(check_address(name));
    return {};
  }
  if (key == "disks") {
    KINTSUGI_ASSIGN(host.disks, texts_of(key, node));
    for (const std::string& disk : host.disks)
      if (!disk.starts_with('/')) return invalid(fmt::format("disks: \"{}\" does not begin with a /", disk));
    return {};
  }
  if (key == "roles") {
    KINTSUGI_ASSIGN(const std::vector<std::string> words, texts_of(key, node));
    for (const std::string& word : words) {
      KINTSUGI_ASSIGN(const HostRole role, role_of(word));
      host.roles.insert(role);
    }
    return {};
  }
  return invalid(unknown("key", key, kKeys));
}

/// The entries of a table in the order of the file.
std::vector<std::pair<const toml::key*, const toml::node*>> in_order(const toml::table& table) {
  std::vector<std::pair<const toml::key*, const toml::node*>> entries;
  for (auto&& [key, node] : table)
    entries.emplace_back(&key, &node);
  std::ranges::sort(entries, {}, [](const auto& entry) {
    return std::pair(entry.first->source().begin.line, entry.first->source().begin.column);
  });
  return entries;
}

Result<HostDescription> read_host(const toml::key& name, const toml::node& node, const std::string& file) {
  HostDescription host{.name = std::string(name.str())};
  if (const Status named = check_host_name(host.name); !named.ok())
    return config::error_at(file, name.source(), named.message());
  const toml::table* table = node.as_table();
  if (table == nullptr) return config::error_at(file, name.source(), "expected [hosts.NAME]");
  for (const auto& [key, value] : in_order(*table))
    if (const Status done = set(host, key->str(), *value); !done.ok())
      return config::error_at(file, key->source(), done.message());
  if (host.address.empty())
    return config::error_at(file, name.source(), fmt::format("{} has no address", host.name));
  if (!host.disks.empty()) host.roles.insert(HostRole::kChunkserver);
  if (host.roles.contains(HostRole::kChunkserver) && host.disks.empty())
    return config::error_at(file, name.source(), fmt::format("{} is a chunkserver without disks", host.name));
  if (host.roles.empty()) host.roles.insert(HostRole::kClient);
  return host;
}

/// "fd00:0::1" and "fd00::1" are one address, and so are "Store-1" and "store-1".
std::string one_form_of(const std::string& address) {
  boost::system::error_code is_name;
  const auto parsed = asio::ip::make_address(address, is_name);
  if (!is_name) return parsed.to_string();
  std::string name = address;
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return name;
}

Result<std::vector<HostDescription>> read_hosts(const toml::node& node, const std::string& file) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return config::error_at(file, node.source(), "expected [hosts.NAME]");
  std::vector<HostDescription> hosts;
  std::map<std::string, std::string> by_address;
  for (const auto& [key, value] : in_order(*table)) {
    KINTSUGI_ASSIGN(HostDescription host, read_host(*key, *value, file));
    std::vector<std::string> addresses = host.names;
    addresses.push_back(host.address);
    for (const std::string& address : addresses) {
      const auto [other, is_new] = by_address.emplace(one_form_of(address), host.name);
      if (!is_new && other->second != host.name)
        return config::error_at(file, key->source(),
                                fmt::format("{} has the address of {}", host.name, other->second));
    }
    hosts.push_back(std::move(host));
  }
  if (hosts.size() > HostsFile::kMostHosts)
    return invalid(fmt::format("{}: {} hosts, at most {}", file, hosts.size(), HostsFile::kMostHosts));
  return hosts;
}

/// Repair manager and monitor go to the metaserver's host unless somebody has them.
Status complete(HostsFile& hosts, const std::string& file) {
  const size_t metaservers = hosts.count(HostRole::kMetaserver);
  if (metaservers != 1)
    return invalid(fmt::format("{}: {} hosts have the role \"metaserver\": a cluster has one", file,
                               metaservers == 0 ? "no" : std::to_string(metaservers)));
  for (const HostRole role : {HostRole::kRepairManager, HostRole::kMonitor}) {
    if (hosts.count(role) > 0) continue;
    std::ranges::find_if(hosts.hosts, [](const HostDescription& host) {
      return host.roles.contains(HostRole::kMetaserver);
    })->roles.insert(role);
  }
  if (hosts.count(HostRole::kMonitor) > 1)
    return invalid(file + ": more than one host has the role \"monitor\"");
  return {};
}

}  // namespace

Status check_host_name(std::string_view name) {
  if (name.starts_with('.'))
    return invalid(fmt::format("{} begins with a dot", quoted(name, kMaxServerNameBytes)));
  return check_server_name(name);
}

Result<HostsFile> HostsFile::parse(std::string_view text, const std::string& name) {
  if (text.size() > kMostOfAFile) return invalid(fmt::format("{}: larger than {} bytes", name, kMostOfAFile));
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin > kMostOfALine) return invalid(fmt::format("{}: a line of {} bytes", name, end - begin));
    begin = end + 1;
  }
  KINTSUGI_ASSIGN(const toml::table table, config::parse_toml(text, name));
  HostsFile found;
  for (const auto& [key, node] : in_order(table)) {
    static constexpr std::array<std::string_view, 3> kKeys{"cluster", "policy", "hosts"};
    if (key->str() == "hosts") {
      KINTSUGI_ASSIGN(found.hosts, read_hosts(*node, name));
      continue;
    }
    if (key->str() != "cluster" && key->str() != "policy")
      return config::error_at(name, key->source(), unknown("key", key->str(), kKeys));
    const auto value = text_of(key->str(), *node);
    if (!value) return config::error_at(name, key->source(), value.error().message());
    (key->str() == "cluster" ? found.cluster : found.policy) = *value;
    if (key->str() != "policy") continue;
    const auto policy = erasure::Policy::parse(*value);
    if (!policy) return config::error_at(name, key->source(), policy.error().message());
  }
  KINTSUGI_TRY(complete(found, name));
  return found;
}

Result<HostsFile> HostsFile::read(const std::string& path) {
  KINTSUGI_ASSIGN(const std::string text, read_file(path));
  return parse(text, path);
}

const HostDescription& HostsFile::with(HostRole role) const {
  const auto found =
      std::ranges::find_if(hosts, [role](const HostDescription& host) { return host.roles.contains(role); });
  KINTSUGI_ASSERT(found != hosts.end());
  return *found;
}

size_t HostsFile::count(HostRole role) const {
  return static_cast<size_t>(std::ranges::count_if(
      hosts, [role](const HostDescription& host) { return host.roles.contains(role); }));
}

}  // namespace kintsugi::cli
