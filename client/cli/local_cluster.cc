#include "client/cli/local_cluster.h"

#include <filesystem>

#include <fmt/format.h>

#include "client/cli/free_ports.h"
#include "client/cli/paths.h"
#include "common/rpc/secret.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

Result<std::string> own_directory() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return status_from_errno(error.value(), "/proc/self/exe");
  return self.parent_path().string();
}

constexpr const char* kMonitorProgram = "kintsugi-monitor";

bool monitor_is_installed() {
  const auto bin = own_directory();
  std::error_code ignored;
  return bin && fs::exists(*bin + "/" + kMonitorProgram, ignored);
}

}  // namespace

LocalCluster::LocalCluster(const std::string& directory)
    : directory_(trimmed(fs::absolute(directory).lexically_normal().string())),
      description_{.directory = directory_} {}

std::vector<std::string> LocalCluster::chunkserver_addresses() const {
  std::vector<std::string> addresses;
  for (const ClusterDescription::Chunkserver& server : description_.chunkservers)
    addresses.push_back(server.listen);
  return addresses;
}

LocalDaemon LocalCluster::daemon(const std::string& name, const std::string& program) const {
  const auto bin = own_directory();
  return {.name = name,
          .binary = bin ? *bin + "/" + program : program,
          .config = fmt::format("{}/etc/{}.toml", directory_, name),
          .pid_file = fmt::format("{}/run/{}.pid", directory_, name),
          .output = fmt::format("{}/log/{}.out", directory_, name),
          .log = fmt::format("{}/log/{}.log", directory_, name)};
}

std::vector<LocalDaemon> LocalCluster::daemons() const {
  std::vector<LocalDaemon> all{daemon("metaserver", "kintsugi-metaserver")};
  for (size_t i = 1; i <= description_.chunkservers.size(); ++i)
    all.push_back(daemon(chunkserver_name(i), "kintsugi-chunkserver"));
  for (uint32_t i = 1; i <= description_.options.repair_managers; ++i)
    all.push_back(daemon(repair_manager_name(i), "kintsugi-repair-manager"));
  if (!description_.monitor.empty()) all.push_back(daemon("monitor", kMonitorProgram));
  return all;
}

Result<LocalCluster> LocalCluster::load(const std::string& directory) {
  LocalCluster cluster(directory);
  KINTSUGI_ASSIGN(cluster.description_, ClusterDescription::read(cluster.directory_));
  return cluster;
}

Result<LocalCluster> LocalCluster::create(const std::string& directory, const LocalClusterOptions& options) {
  LocalCluster cluster(directory);
  cluster.description_.options = options;
  KINTSUGI_TRY(cluster.close_to_others());
  std::error_code error;
  fs::create_directories(cluster.directory_ + "/data/meta", error);
  if (error) return status_from_errno(error.value(), cluster.directory_ + "/data/meta");
  auto secret = rpc::Secret::create(cluster.secret_file());
  if (!secret && secret.error().code() != Code::kAlreadyExists) return secret.error();
  KINTSUGI_ASSIGN(FreePorts ports, FreePorts::open(cluster.directory_, {}));
  KINTSUGI_ASSIGN(cluster.description_.metaserver, ports.next());
  KINTSUGI_ASSIGN(cluster.description_.metaserver_http, ports.next());
  KINTSUGI_TRY(cluster.configs().write_metaserver());
  KINTSUGI_TRY(cluster.add_chunkservers(options.chunkservers, ports));
  KINTSUGI_TRY(cluster.configs().write_repair_managers());
  if (monitor_is_installed()) KINTSUGI_TRY(cluster.add_monitor(ports));
  KINTSUGI_TRY(cluster.configs().write_env());
  KINTSUGI_TRY(cluster.save());
  return cluster;
}

Status LocalCluster::close_to_others() const {
  std::error_code error;
  for (const char* part : {"etc", "log", "run", "data"}) {
    const std::string path = directory_ + "/" + part;
    fs::create_directories(path, error);
    if (!error) fs::permissions(path, fs::perms::owner_all, error);
    if (error) return status_from_errno(error.value(), path);
  }
  const std::string description = description_file(directory_);
  fs::permissions(description, fs::perms::owner_read | fs::perms::owner_write, error);
  // A cluster that is just being made has none.
  if (error && error != std::errc::no_such_file_or_directory)
    return status_from_errno(error.value(), description);
  return {};
}

std::optional<std::string> LocalCluster::moved_from() const {
  std::error_code ignored;  // the directory may be gone
  if (description_.directory == directory_ || fs::equivalent(description_.directory, directory_, ignored))
    return {};
  return description_.directory;
}

Status LocalCluster::adopt_directory() {
  KINTSUGI_TRY(configs().adopt_directory(daemons()));
  KINTSUGI_TRY(configs().write_env());
  description_.directory = directory_;
  return save();
}

Status LocalCluster::grow(uint32_t chunkservers) {
  const size_t before = description_.chunkservers.size();
  KINTSUGI_ASSIGN(FreePorts ports, FreePorts::open(directory_, description_.addresses()));
  KINTSUGI_TRY(add_chunkservers(chunkservers - description_.options.chunkservers, ports));
  KINTSUGI_TRY(configs().share_memory(daemons(), before));
  description_.options.chunkservers = chunkservers;
  return save();
}

Status LocalCluster::grow_repair_managers(uint32_t count) {
  description_.options.repair_managers = count;
  KINTSUGI_TRY(configs().write_repair_managers());
  return save();
}

Status LocalCluster::grow_monitor() {
  if (!description_.monitor.empty() || !monitor_is_installed()) return {};
  KINTSUGI_ASSIGN(FreePorts ports, FreePorts::open(directory_, description_.addresses()));
  KINTSUGI_TRY(add_monitor(ports));
  KINTSUGI_TRY(configs().write_env());
  return save();
}

Status LocalCluster::add_monitor(FreePorts& ports) {
  KINTSUGI_ASSIGN(description_.monitor, ports.next());
  KINTSUGI_ASSIGN(description_.monitor_http, ports.next());
  return configs().write_monitor();
}

Status LocalCluster::remember() const {
  KINTSUGI_ASSIGN(const KnownClusters known, KnownClusters::open(directory_));
  return {};
}

Status LocalCluster::shrink(const LocalClusterOptions& before, std::chrono::milliseconds patience) {
  if (before.chunkservers == description_.chunkservers.size() &&
      before.repair_managers == description_.options.repair_managers)
    return {};
  for (size_t i = before.chunkservers + 1; i <= description_.chunkservers.size(); ++i)
    KINTSUGI_TRY(daemon(chunkserver_name(i), "kintsugi-chunkserver").stop(patience));
  for (uint32_t i = before.repair_managers + 1; i <= description_.options.repair_managers; ++i)
    KINTSUGI_TRY(daemon(repair_manager_name(i), "kintsugi-repair-manager").stop(patience));
  const size_t chunkservers = description_.chunkservers.size();
  description_.chunkservers.resize(before.chunkservers);
  description_.options = before;
  KINTSUGI_TRY(configs().share_memory(daemons(), chunkservers));
  return save();
}

Status LocalCluster::add_chunkservers(uint32_t count, FreePorts& ports) {
  for (uint32_t i = 0; i < count; ++i) {
    ClusterDescription::Chunkserver server;
    KINTSUGI_ASSIGN(server.listen, ports.next());
    KINTSUGI_ASSIGN(server.http, ports.next());
    const size_t number = description_.chunkservers.size() + 1;
    if (description_.options.racks > 0)
      server.rack = fmt::format("rack-{}", (number - 1) % description_.options.racks + 1);
    description_.chunkservers.push_back(server);
    std::error_code error;
    const std::string data = fmt::format("{}/data/{}", directory_, chunkserver_name(number));
    fs::create_directories(data, error);
    if (error) return status_from_errno(error.value(), data);
  }
  for (size_t number = description_.chunkservers.size() - count + 1;
       number <= description_.chunkservers.size(); ++number)
    KINTSUGI_TRY(configs().write_chunkserver(number));
  return {};
}

}  // namespace kintsugi::cli
