#include "client/cli/local_cluster.h"

#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "client/cli/free_ports.h"
#include "client/cli/json.h"
#include "client/cli/paths.h"
#include "common/rpc/secret.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

std::string toml_string(const std::string& text) {
  // Basic strings of TOML escape like JSON does.
  return Json(text).compact();
}

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (char c : text)
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

Result<std::string> own_directory() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return status_from_errno(error.value(), "/proc/self/exe");
  return self.parent_path().string();
}

std::string chunkserver_name(size_t number) {
  return fmt::format("chunkserver-{}", number);
}

constexpr const char* kMonitorProgram = "kintsugi-monitor";

bool monitor_is_installed() {
  const auto bin = own_directory();
  std::error_code ignored;
  return bin && fs::exists(*bin + "/" + kMonitorProgram, ignored);
}

std::string repair_manager_name(uint32_t number) {
  return fmt::format("repair-manager-{}", number);
}

}  // namespace

LocalCluster::LocalCluster(const std::string& directory)
    : directory_(trimmed(fs::absolute(directory).lexically_normal().string())),
      named_directory_(directory_) {}

std::vector<std::string> LocalCluster::chunkserver_addresses() const {
  std::vector<std::string> addresses;
  for (const Chunkserver& server : chunkservers_)
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
  for (size_t i = 1; i <= chunkservers_.size(); ++i)
    all.push_back(daemon(chunkserver_name(i), "kintsugi-chunkserver"));
  for (uint32_t i = 1; i <= options_.repair_managers; ++i)
    all.push_back(daemon(repair_manager_name(i), "kintsugi-repair-manager"));
  if (!monitor_.empty()) all.push_back(daemon("monitor", kMonitorProgram));
  return all;
}

Result<LocalCluster> LocalCluster::load(const std::string& directory) {
  LocalCluster cluster(directory);
  const std::string path = cluster.directory_ + "/cluster.json";
  auto text = read_file(path);
  if (!text && text.error().code() == Code::kNotFound) {
    return Status{
        Code::kNotFound,
        fmt::format("there is no cluster in {} (`kintsugi cluster start` makes one, --dir names another)",
                    cluster.directory_)};
  }
  if (!text) return text.error();
  try {
    const auto json = nlohmann::json::parse(*text);
    cluster.metaserver_ = json.at("metaserver");
    cluster.metaserver_http_ = json.at("metaserver_http");
    cluster.options_.racks = json.at("racks");
    cluster.options_.policy = json.at("policy");
    cluster.options_.repair_delay_seconds = json.at("repair_delay_seconds");
    cluster.options_.chunk_bytes = json.at("chunk_bytes");
    // Clusters made earlier have no repair managers, and are where they were.
    cluster.options_.repair_managers = json.value("repair_managers", 0u);
    cluster.named_directory_ = json.value("directory", cluster.directory_);
    cluster.monitor_ = json.value("monitor", "");
    cluster.monitor_http_ = json.value("monitor_http", "");
    for (const auto& server : json.at("chunkservers"))
      cluster.chunkservers_.push_back({server.at("listen"), server.at("http"), server.at("rack")});
  } catch (const nlohmann::json::exception& error) {
    return Status{Code::kCorrupt,
                  fmt::format("{} is not as `kintsugi cluster start` wrote it, and the cluster cannot be "
                              "found without it: put a copy back ({})",
                              path, error.what())};
  }
  cluster.options_.chunkservers = static_cast<uint32_t>(cluster.chunkservers_.size());
  return cluster;
}

Result<LocalCluster> LocalCluster::create(const std::string& directory, const LocalClusterOptions& options) {
  LocalCluster cluster(directory);
  cluster.options_ = options;
  KINTSUGI_TRY(cluster.close_to_others());
  std::error_code error;
  fs::create_directories(cluster.directory_ + "/data/meta", error);
  if (error) return status_from_errno(error.value(), cluster.directory_ + "/data/meta");
  auto secret = rpc::Secret::create(cluster.secret_file());
  if (!secret && secret.error().code() != Code::kAlreadyExists) return secret.error();
  {
    FreePorts ports({});
    KINTSUGI_ASSIGN(cluster.metaserver_, ports.next());
    KINTSUGI_ASSIGN(cluster.metaserver_http_, ports.next());
  }
  KINTSUGI_TRY(cluster.write_metaserver_config());
  KINTSUGI_TRY(cluster.add_chunkservers(options.chunkservers));
  KINTSUGI_TRY(cluster.write_repair_manager_configs());
  KINTSUGI_TRY(cluster.grow_monitor());
  KINTSUGI_TRY(cluster.write_env());
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
  const std::string description = directory_ + "/cluster.json";
  fs::permissions(description, fs::perms::owner_read | fs::perms::owner_write, error);
  // A cluster that is just being made has none.
  if (error && error != std::errc::no_such_file_or_directory)
    return status_from_errno(error.value(), description);
  return {};
}

Status LocalCluster::write_env() const {
  std::string env = fmt::format("export KINTSUGI_META={}\nexport KINTSUGI_SECRET_FILE={}\n",
                                shell_quoted(metaserver_), shell_quoted(secret_file()));
  // For `kintsugi diagnose` when it is the metaserver that hangs.
  if (!monitor_.empty()) env += fmt::format("export KINTSUGI_MONITOR={}\n", shell_quoted(monitor_));
  return write_file(env_file(), env);
}

std::optional<std::string> LocalCluster::moved_from() const {
  std::error_code ignored;  // of a directory that is gone
  if (named_directory_ == directory_ || fs::equivalent(named_directory_, directory_, ignored)) return {};
  return named_directory_;
}

Status LocalCluster::adopt_directory() {
  // Only paths that begin with the old directory change. What its owner put elsewhere, or changed, stays.
  const auto beginning = [](const std::string& directory) {
    std::string text = toml_string(directory + "/");
    text.pop_back();  // the quotation mark at its end
    return text;
  };
  const std::string before = beginning(named_directory_), now = beginning(directory_);
  for (const LocalDaemon& daemon : daemons()) {
    KINTSUGI_ASSIGN(std::string config, read_file(daemon.config));
    for (size_t at = 0; (at = config.find(before, at)) != std::string::npos; at += now.size())
      config.replace(at, before.size(), now);
    KINTSUGI_TRY(write_file(daemon.config, config));
  }
  KINTSUGI_TRY(write_env());
  named_directory_ = directory_;
  return save();
}

Status LocalCluster::grow(uint32_t chunkservers) {
  const size_t before = chunkservers_.size();
  KINTSUGI_TRY(add_chunkservers(chunkservers - options_.chunkservers));
  KINTSUGI_TRY(share_memory(before));
  options_.chunkservers = chunkservers;
  return save();
}

Status LocalCluster::grow_repair_managers(uint32_t count) {
  options_.repair_managers = count;
  KINTSUGI_TRY(write_repair_manager_configs());
  return save();
}

Status LocalCluster::grow_monitor() {
  if (!monitor_.empty() || !monitor_is_installed()) return {};
  std::set<std::string> taken{metaserver_, metaserver_http_};
  for (const Chunkserver& server : chunkservers_)
    taken.insert({server.listen, server.http});
  FreePorts ports(std::move(taken));
  KINTSUGI_ASSIGN(monitor_, ports.next());
  KINTSUGI_ASSIGN(monitor_http_, ports.next());
  KINTSUGI_TRY(write_monitor_config());
  KINTSUGI_TRY(write_env());
  return save();
}

Status LocalCluster::shrink(const LocalClusterOptions& before, std::chrono::milliseconds patience) {
  if (before.chunkservers == chunkservers_.size() && before.repair_managers == options_.repair_managers)
    return {};
  for (size_t i = before.chunkservers + 1; i <= chunkservers_.size(); ++i)
    KINTSUGI_TRY(daemon(chunkserver_name(i), "kintsugi-chunkserver").stop(patience));
  for (uint32_t i = before.repair_managers + 1; i <= options_.repair_managers; ++i)
    KINTSUGI_TRY(daemon(repair_manager_name(i), "kintsugi-repair-manager").stop(patience));
  const size_t chunkservers = chunkservers_.size();
  chunkservers_.resize(before.chunkservers);
  options_ = before;
  KINTSUGI_TRY(share_memory(chunkservers));
  return save();
}

std::string LocalCluster::memory_line(size_t chunkservers) const {
  // Repair managers have no caches to speak of.
  return fmt::format("daemons_on_machine = {}\n", chunkservers + 1);
}

/// Has the daemons share the machine with as many as there are now. Those that run do so from their next start on.
Status LocalCluster::share_memory(size_t chunkservers_before) const {
  // A line that its owner has changed stays as it is.
  const std::string before = memory_line(chunkservers_before), now = memory_line(chunkservers_.size());
  for (const LocalDaemon& daemon : daemons()) {
    KINTSUGI_ASSIGN(std::string config, read_file(daemon.config));
    const size_t at = config.find(before);
    if (at == std::string::npos) continue;
    KINTSUGI_TRY(write_file(daemon.config, config.replace(at, before.size(), now)));
  }
  return {};
}

Status LocalCluster::add_chunkservers(uint32_t count) {
  std::set<std::string> taken{metaserver_, metaserver_http_, monitor_, monitor_http_};
  for (const Chunkserver& server : chunkservers_)
    taken.insert({server.listen, server.http});
  FreePorts ports(std::move(taken));
  for (uint32_t i = 0; i < count; ++i) {
    Chunkserver server;
    KINTSUGI_ASSIGN(server.listen, ports.next());
    KINTSUGI_ASSIGN(server.http, ports.next());
    const size_t number = chunkservers_.size() + 1;
    if (options_.racks > 0) server.rack = fmt::format("rack-{}", (number - 1) % options_.racks + 1);
    chunkservers_.push_back(server);
    std::error_code error;
    const std::string data = fmt::format("{}/data/{}", directory_, chunkserver_name(number));
    fs::create_directories(data, error);
    if (error) return status_from_errno(error.value(), data);
  }
  for (size_t number = chunkservers_.size() - count + 1; number <= chunkservers_.size(); ++number)
    KINTSUGI_TRY(write_chunkserver_config(number));
  return {};
}

Status LocalCluster::write_metaserver_config() const {
  std::string config = fmt::format(
      "listen = {}\nhttp_listen = {}\ndata_dir = {}\nsecret_file = {}\nlog_file = {}\n",
      toml_string(metaserver_), toml_string(metaserver_http_), toml_string(directory_ + "/data/meta"),
      toml_string(secret_file()), toml_string(directory_ + "/log/metaserver.log"));
  config += memory_line(options_.chunkservers);
  if (!options_.policy.empty()) config += fmt::format("policy = {}\n", toml_string(options_.policy));
  if (options_.chunk_bytes > 0) config += fmt::format("chunk_bytes = {}\n", options_.chunk_bytes);
  if (options_.repair_delay_seconds >= 0) {
    const auto milliseconds = static_cast<int64_t>(options_.repair_delay_seconds * 1000);
    config += milliseconds % 1000 == 0 ? fmt::format("repair.delay = \"{}s\"\n", milliseconds / 1000)
                                       : fmt::format("repair.delay = \"{}ms\"\n", milliseconds);
  }
  return write_file(directory_ + "/etc/metaserver.toml", config);
}

Status LocalCluster::write_chunkserver_config(size_t number) const {
  const Chunkserver& server = chunkservers_[number - 1];
  const std::string name = chunkserver_name(number);
  std::string config = fmt::format(
      "name = {}\nlisten = {}\nhttp_listen = {}\nmetaserver = {}\ndisks = [{}]\nsecret_file = {}\nlog_file = "
      "{}\n",
      toml_string(name), toml_string(server.listen), toml_string(server.http), toml_string(metaserver_),
      toml_string(fmt::format("{}/data/{}", directory_, name)), toml_string(secret_file()),
      toml_string(fmt::format("{}/log/{}.log", directory_, name)));
  config += memory_line(chunkservers_.size());
  if (!server.rack.empty()) config += fmt::format("rack = {}\n", toml_string(server.rack));
  return write_file(fmt::format("{}/etc/{}.toml", directory_, name), config);
}

Status LocalCluster::write_monitor_config() const {
  const std::string config = fmt::format(
      "listen = {}\nhttp_listen = {}\nmetaserver = {}\ndata_dir = {}\nsecret_file = {}\nlog_file = {}\n",
      toml_string(monitor_), toml_string(monitor_http_), toml_string(metaserver_),
      toml_string(directory_ + "/data/monitor"), toml_string(secret_file()),
      toml_string(directory_ + "/log/monitor.log"));
  return write_file(directory_ + "/etc/monitor.toml", config);
}

Status LocalCluster::write_repair_manager_configs() const {
  for (uint32_t i = 1; i <= options_.repair_managers; ++i) {
    const std::string path = fmt::format("{}/etc/{}.toml", directory_, repair_manager_name(i));
    if (fs::exists(path)) continue;  // its owner may have changed it
    // It listens at any port and tells the metaserver which one.
    KINTSUGI_TRY(write_file(
        path, fmt::format("metaserver = {}\nsecret_file = {}\nlog_file = {}\n", toml_string(metaserver_),
                          toml_string(secret_file()),
                          toml_string(fmt::format("{}/log/{}.log", directory_, repair_manager_name(i))))));
  }
  return {};
}

Status LocalCluster::save() const {
  Json json{{"directory", named_directory_},
            {"metaserver", metaserver_},
            {"metaserver_http", metaserver_http_},
            {"racks", options_.racks},
            {"policy", options_.policy},
            {"repair_delay_seconds", options_.repair_delay_seconds},
            {"chunk_bytes", options_.chunk_bytes},
            {"repair_managers", options_.repair_managers},
            {"monitor", monitor_},
            {"monitor_http", monitor_http_},
            {"chunkservers", Json::array()}};
  for (const Chunkserver& server : chunkservers_) {
    json["chunkservers"].push_back({{"listen", server.listen}, {"http", server.http}, {"rack", server.rack}});
  }
  return write_file(directory_ + "/cluster.json", json.pretty() + "\n", 0600);
}

}  // namespace kintsugi::cli
