#include "client/cli/cluster_description.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "client/cli/json.h"
#include "client/cli/local_daemon.h"

namespace kintsugi::cli {

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
  try {
    const auto json = nlohmann::json::parse(*text);
    found.metaserver = json.at("metaserver");
    found.metaserver_http = json.at("metaserver_http");
    found.options.racks = json.at("racks");
    found.options.policy = json.at("policy");
    found.options.repair_delay_seconds = json.at("repair_delay_seconds");
    found.options.chunk_bytes = json.at("chunk_bytes");
    // Clusters made earlier have no repair managers, until they are started the next time, and are where they were.
    found.options.repair_managers = json.value("repair_managers", 0u);
    found.directory = json.value("directory", cluster);
    found.monitor = json.value("monitor", "");
    found.monitor_http = json.value("monitor_http", "");
    for (const auto& server : json.at("chunkservers"))
      found.chunkservers.push_back({server.at("listen"), server.at("http"), server.at("rack")});
  } catch (const nlohmann::json::exception& error) {
    return Status{Code::kCorrupt,
                  fmt::format("{} is not as `kintsugi cluster start` wrote it, and the cluster cannot be "
                              "found without it: put a copy back ({})",
                              path, error.what())};
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
