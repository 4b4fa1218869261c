#include "client/cli/cluster_description.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "client/cli/json.h"
#include "client/cli/local_daemon.h"

namespace kintsugi::cli {

namespace {

using Object = nlohmann::json;

bool has_type(const Object& value, const std::string*) {
  return value.is_string();
}
bool has_type(const Object& value, const uint32_t*) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= UINT32_MAX;
}
bool has_type(const Object& value, const uint64_t*) {
  return value.is_number_unsigned();
}
bool has_type(const Object& value, const double*) {
  return value.is_number();
}

enum class Field { kNeeded, kMayLack };

/// Sets `target` to a field of an object. One that may lack keeps its value then.
template <class T>
Status take(const Object& from, const char* name, T& target, Field field = Field::kNeeded) {
  const auto found = from.find(name);
  if (found == from.end()) {
    if (field == Field::kMayLack) return {};
    return {Code::kCorrupt, fmt::format("has no \"{}\"", name)};
  }
  if (!has_type(*found, &target)) return {Code::kCorrupt, fmt::format("has a wrong value for \"{}\"", name)};
  target = found->template get<T>();
  return {};
}

Status take_chunkserver(const Object& from, std::vector<ClusterDescription::Chunkserver>& into) {
  if (!from.is_object()) return {Code::kCorrupt, "has a wrong value for \"chunkservers\""};
  ClusterDescription::Chunkserver server;
  KINTSUGI_TRY(take(from, "listen", server.listen));
  KINTSUGI_TRY(take(from, "http", server.http));
  KINTSUGI_TRY(take(from, "rack", server.rack));
  into.push_back(std::move(server));
  return {};
}

Result<Object> parse_object(const std::string& text) {
  try {
    auto parsed = Object::parse(text);
    if (parsed.is_object()) return parsed;
    return Status{Code::kCorrupt, "holds no JSON object"};
  } catch (const Object::parse_error& error) {
    const size_t end = std::min(error.byte, text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(end), '\n');
    return Status{Code::kCorrupt, text.empty() ? "is empty" : fmt::format("is no JSON (line {})", line)};
  }
}

/// An error continues the file's name.
Status read_description(const std::string& text, const std::string& cluster, ClusterDescription& found) {
  KINTSUGI_ASSIGN(const Object json, parse_object(text));
  KINTSUGI_TRY(take(json, "metaserver", found.metaserver));
  KINTSUGI_TRY(take(json, "metaserver_http", found.metaserver_http));
  KINTSUGI_TRY(take(json, "racks", found.options.racks));
  KINTSUGI_TRY(take(json, "policy", found.options.policy));
  KINTSUGI_TRY(take(json, "repair_delay_seconds", found.options.repair_delay_seconds));
  KINTSUGI_TRY(take(json, "chunk_bytes", found.options.chunk_bytes));
  // Clusters made earlier have no repair managers, until they are started the next time, and are where they were.
  found.options.repair_managers = 0;
  found.directory = cluster;
  KINTSUGI_TRY(take(json, "repair_managers", found.options.repair_managers, Field::kMayLack));
  KINTSUGI_TRY(take(json, "directory", found.directory, Field::kMayLack));
  KINTSUGI_TRY(take(json, "monitor", found.monitor, Field::kMayLack));
  KINTSUGI_TRY(take(json, "monitor_http", found.monitor_http, Field::kMayLack));
  const auto servers = json.find("chunkservers");
  if (servers == json.end()) return {Code::kCorrupt, "has no \"chunkservers\""};
  if (!servers->is_array()) return {Code::kCorrupt, "has a wrong value for \"chunkservers\""};
  for (const Object& server : *servers)
    KINTSUGI_TRY(take_chunkserver(server, found.chunkservers));
  return {};
}

}  // namespace

std::string description_file(const std::string& cluster) {
  return cluster + "/cluster.json";
}

Result<ClusterDescription> ClusterDescription::read(const std::string& cluster) {
  ClusterDescription found;
  const std::string path = description_file(cluster);
  auto text = read_file(path);
  if (!text && text.error().code() == Code::kNotFound) {
    return Status{
        Code::kNotFound,
        fmt::format("there is no cluster in {} (`kintsugi cluster start` makes one, --dir names another)",
                    cluster)};
  }
  if (!text) return text.error();
  const Status read = read_description(*text, cluster, found);
  if (!read.ok()) {
    return Status{
        Code::kCorrupt,
        fmt::format("{} {}: it is not as `kintsugi cluster start` wrote it, and the cluster cannot be "
                    "found without it; put a copy back",
                    path, read.message())};
  }
  found.options.chunkservers = static_cast<uint32_t>(found.chunkservers.size());
  return found;
}

Status ClusterDescription::write(const std::string& cluster) const {
  Json json{{"directory", directory},
            {"metaserver", metaserver},
            {"metaserver_http", metaserver_http},
            {"racks", options.racks},
            {"policy", options.policy},
            {"repair_delay_seconds", options.repair_delay_seconds},
            {"chunk_bytes", options.chunk_bytes},
            {"repair_managers", options.repair_managers},
            {"monitor", monitor},
            {"monitor_http", monitor_http},
            {"chunkservers", Json::array()}};
  for (const Chunkserver& server : chunkservers) {
    json["chunkservers"].push_back({{"listen", server.listen}, {"http", server.http}, {"rack", server.rack}});
  }
  return write_file(description_file(cluster), json.pretty() + "\n", 0600);
}

std::set<std::string> ClusterDescription::addresses() const {
  std::set<std::string> all{metaserver, metaserver_http, monitor, monitor_http};
  for (const Chunkserver& server : chunkservers)
    all.insert({server.listen, server.http});
  return all;
}

}  // namespace kintsugi::cli
