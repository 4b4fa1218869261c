#include "client/cli/daemon_configs.h"

#include <filesystem>

#include <fmt/format.h>

#include "client/cli/json.h"
#include "client/cli/printable.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string chunkserver_name(size_t number) {
  return fmt::format("chunkserver-{}", number);
}

std::string repair_manager_name(uint32_t number) {
  return fmt::format("repair-manager-{}", number);
}

std::string secret_file(const std::string& cluster) {
  return cluster + "/secret";
}

std::string env_file(const std::string& cluster) {
  return cluster + "/env";
}

Status DaemonConfigs::write_env() const {
  std::string env = fmt::format("export KINTSUGI_META={}\nexport KINTSUGI_SECRET_FILE={}\n",
                                shell_quoted(cluster_.metaserver), shell_quoted(secret_file(directory_)));
  // For `kintsugi diagnose` when it is the metaserver that hangs.
  if (!cluster_.monitor.empty())
    env += fmt::format("export KINTSUGI_MONITOR={}\n", shell_quoted(cluster_.monitor));
  return write_file(env_file(directory_), env);
}

std::string DaemonConfigs::memory_line(size_t chunkservers) const {
  // Repair managers have no caches to speak of.
  return fmt::format("daemons_on_machine = {}\n", chunkservers + 1);
}

Status DaemonConfigs::write_metaserver() const {
  std::string config =
      fmt::format("listen = {}\nhttp_listen = {}\ndata_dir = {}\nsecret_file = {}\nlog_file = {}\n",
                  toml_string(cluster_.metaserver), toml_string(cluster_.metaserver_http),
                  toml_string(directory_ + "/data/meta"), toml_string(secret_file(directory_)),
                  toml_string(directory_ + "/log/metaserver.log"));
  config += memory_line(cluster_.options.chunkservers);
  if (!cluster_.options.policy.empty())
    config += fmt::format("policy = {}\n", toml_string(cluster_.options.policy));
  if (cluster_.options.chunk_bytes > 0)
    config += fmt::format("chunk_bytes = {}\n", cluster_.options.chunk_bytes);
  if (cluster_.options.repair_delay_seconds >= 0) {
    const auto milliseconds = static_cast<int64_t>(cluster_.options.repair_delay_seconds * 1000);
    config += milliseconds % 1000 == 0 ? fmt::format("repair.delay = \"{}s\"\n", milliseconds / 1000)
                                       : fmt::format("repair.delay = \"{}ms\"\n", milliseconds);
  }
  return write_file(directory_ + "/etc/metaserver.toml", config);
}

Status DaemonConfigs::write_chunkserver(size_t number) const {
  const ClusterDescription::Chunkserver& server = cluster_.chunkservers[number - 1];
  const std::string name = chunkserver_name(number);
  std::string config = fmt::format(
      "name = {}\nlisten = {}\nhttp_listen = {}\nmetaserver = {}\ndisks = [{}]\nsecret_file = {}\nlog_file = "
      "{}\n",
      toml_string(name), toml_string(server.listen), toml_string(server.http),
      toml_string(cluster_.metaserver), toml_string(fmt::format("{}/data/{}", directory_, name)),
      toml_string(secret_file(directory_)), toml_string(fmt::format("{}/log/{}.log", directory_, name)));
  config += memory_line(cluster_.chunkservers.size());
  if (!server.rack.empty()) config += fmt::format("rack = {}\n", toml_string(server.rack));
  return write_file(fmt::format("{}/etc/{}.toml", directory_, name), config);
}

Status DaemonConfigs::write_repair_managers() const {
  for (uint32_t i = 1; i <= cluster_.options.repair_managers; ++i) {
    const std::string path = fmt::format("{}/etc/{}.toml", directory_, repair_manager_name(i));
    if (fs::exists(path)) continue;  // its owner may have changed the file
    // It listens at any port, and tells the metaserver and the monitor which ones.
    KINTSUGI_TRY(write_file(
        path, fmt::format("http_listen = \"127.0.0.1:0\"\nmetaserver = {}\nsecret_file = {}\nlog_file = {}\n",
                          toml_string(cluster_.metaserver), toml_string(secret_file(directory_)),
                          toml_string(fmt::format("{}/log/{}.log", directory_, repair_manager_name(i))))));
  }
  return {};
}

Status DaemonConfigs::write_monitor() const {
  const std::string config = fmt::format(
      "listen = {}\nhttp_listen = {}\nmetaserver = {}\ndata_dir = {}\nsecret_file = {}\nlog_file = {}\n",
      toml_string(cluster_.monitor), toml_string(cluster_.monitor_http), toml_string(cluster_.metaserver),
      toml_string(directory_ + "/data/monitor"), toml_string(secret_file(directory_)),
      toml_string(directory_ + "/log/monitor.log"));
  return write_file(directory_ + "/etc/monitor.toml", config);
}

Status DaemonConfigs::share_memory(const std::vector<LocalDaemon>& daemons,
                                   size_t chunkservers_before) const {
  // A line that its owner has changed stays as it is.
  const std::string before = memory_line(chunkservers_before),
                    now = memory_line(cluster_.chunkservers.size());
  for (const LocalDaemon& daemon : daemons) {
    KINTSUGI_ASSIGN(std::string config, read_file(daemon.config));
    const size_t at = config.find(before);
    if (at == std::string::npos) continue;
    KINTSUGI_TRY(write_file(daemon.config, config.replace(at, before.size(), now)));
  }
  return {};
}

Status DaemonConfigs::adopt_directory(const std::vector<LocalDaemon>& daemons) const {
  // Only paths that begin with the old directory change. What its owner put elsewhere, or changed, stays.
  const auto beginning = [](const std::string& directory) {
    std::string text = toml_string(directory + "/");
    text.pop_back();  // removes the closing quotation mark
    return text;
  };
  const std::string before = beginning(cluster_.directory), now = beginning(directory_);
  for (const LocalDaemon& daemon : daemons) {
    KINTSUGI_ASSIGN(std::string config, read_file(daemon.config));
    for (size_t at = 0; (at = config.find(before, at)) != std::string::npos; at += now.size())
      config.replace(at, before.size(), now);
    KINTSUGI_TRY(write_file(daemon.config, config));
  }
  return {};
}

}  // namespace kintsugi::cli
