#include "client/cli/local_cluster.h"

#include <filesystem>
#include <random>
#include <set>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "common/rpc/secret.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Loopback ports that nobody listens on, below the range that the kernel hands to outgoing connections, so
/// that they are likely still free when the cluster starts again.
class FreePorts {
 public:
  /// Never those of `taken`, whose daemons may be down just now.
  explicit FreePorts(std::set<std::string> taken) : taken_(std::move(taken)) {}
  FreePorts(const FreePorts&) = delete;
  ~FreePorts() {
    for (int fd : held_)
      ::close(fd);
  }

  /// Held until this object dies, so that no two are the same.
  Result<std::string> next() {
    constexpr int kAttempts = 1000;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const auto port = static_cast<uint16_t>(std::uniform_int_distribution<int>(20000, 31999)(random_));
      if (taken_.contains(fmt::format("127.0.0.1:{}", port))) continue;
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (fd < 0) return status_from_errno(errno, "socket");
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(port);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
        held_.push_back(fd);
        return fmt::format("127.0.0.1:{}", port);
      }
      ::close(fd);
    }
    return Status{Code::kLimitExceeded, "no free port on 127.0.0.1 between 20000 and 31999"};
  }

 private:
  std::set<std::string> taken_;
  std::vector<int> held_;
  std::mt19937 random_{std::random_device{}()};
};

std::string toml_string(const std::string& text) {
  // Basic strings of TOML escape like JSON does.
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
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

std::string repair_manager_name(int number) {
  return fmt::format("repair-manager-{}", number);
}

}  // namespace

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
  for (int i = 1; i <= options_.repair_managers; ++i)
    all.push_back(daemon(repair_manager_name(i), "kintsugi-repair-manager"));
  return all;
}

Result<LocalCluster> LocalCluster::load(const std::string& directory) {
  LocalCluster cluster;
  cluster.directory_ = fs::absolute(directory).lexically_normal().string();
  while (cluster.directory_.size() > 1 && cluster.directory_.ends_with('/'))
    cluster.directory_.pop_back();
  const std::string path = cluster.directory_ + "/cluster.json";
  auto text = read_file(path);
  if (!text && text.error().code() == Code::kNotFound) {
    return Status{Code::kNotFound, fmt::format("there is no cluster in {}", cluster.directory_)};
  }
  if (!text) return text.error();
  try {
    const Json json = Json::parse(*text);
    cluster.metaserver_ = json.at("metaserver");
    cluster.metaserver_http_ = json.at("metaserver_http");
    cluster.options_.racks = json.at("racks");
    cluster.options_.policy = json.at("policy");
    cluster.options_.repair_delay_seconds = json.at("repair_delay_seconds");
    cluster.options_.chunk_bytes = json.at("chunk_bytes");
    cluster.options_.repair_managers = json.value("repair_managers", 0);  // not in those made earlier
    for (const Json& server : json.at("chunkservers")) {
      cluster.chunkservers_.push_back({server.at("listen"), server.at("http"), server.at("rack")});
    }
  } catch (const nlohmann::json::exception& error) {
    return Status{Code::kCorrupt, fmt::format("{}: {}", path, error.what())};
  }
  cluster.options_.chunkservers = static_cast<int>(cluster.chunkservers_.size());
  return cluster;
}

Result<LocalCluster> LocalCluster::create(const std::string& directory, const LocalClusterOptions& options) {
  LocalCluster cluster;
  cluster.directory_ = fs::absolute(directory).lexically_normal().string();
  while (cluster.directory_.size() > 1 && cluster.directory_.ends_with('/'))
    cluster.directory_.pop_back();
  cluster.options_ = options;
  for (const char* part : {"etc", "log", "run", "data/meta"}) {
    std::error_code error;
    fs::create_directories(cluster.directory_ + "/" + part, error);
    if (error) return status_from_errno(error.value(), cluster.directory_ + "/" + part);
  }
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
  KINTSUGI_TRY(
      write_file(cluster.env_file(),
                 fmt::format("export KINTSUGI_META={}\nexport KINTSUGI_SECRET_FILE={}\n",
                             shell_quoted(cluster.metaserver_), shell_quoted(cluster.secret_file()))));
  KINTSUGI_TRY(cluster.save());
  return cluster;
}

Status LocalCluster::grow(int chunkservers) {
  KINTSUGI_TRY(add_chunkservers(chunkservers - static_cast<int>(chunkservers_.size())));
  options_.chunkservers = chunkservers;
  return save();
}

Status LocalCluster::grow_repair_managers(int count) {
  options_.repair_managers = count;
  KINTSUGI_TRY(write_repair_manager_configs());
  return save();
}

Status LocalCluster::add_chunkservers(int count) {
  std::set<std::string> taken{metaserver_, metaserver_http_};
  for (const Chunkserver& server : chunkservers_)
    taken.insert({server.listen, server.http});
  FreePorts ports(std::move(taken));
  for (int i = 0; i < count; ++i) {
    Chunkserver server;
    KINTSUGI_ASSIGN(server.listen, ports.next());
    KINTSUGI_ASSIGN(server.http, ports.next());
    const size_t number = chunkservers_.size() + 1;
    if (options_.racks > 0)
      server.rack = fmt::format("rack-{}", (number - 1) % static_cast<size_t>(options_.racks) + 1);
    chunkservers_.push_back(server);
    std::error_code error;
    const std::string data = fmt::format("{}/data/{}", directory_, chunkserver_name(number));
    fs::create_directories(data, error);
    if (error) return status_from_errno(error.value(), data);
    KINTSUGI_TRY(write_chunkserver_config(number));
  }
  return {};
}

Status LocalCluster::write_metaserver_config() const {
  std::string config = fmt::format(
      "listen = {}\nhttp_listen = {}\ndata_dir = {}\nsecret_file = {}\nlog_file = {}\n",
      toml_string(metaserver_), toml_string(metaserver_http_), toml_string(directory_ + "/data/meta"),
      toml_string(secret_file()), toml_string(directory_ + "/log/metaserver.log"));
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
      "listen = {}\nhttp_listen = {}\nmetaserver = {}\ndisks = [{}]\nsecret_file = {}\nlog_file = {}\n",
      toml_string(server.listen), toml_string(server.http), toml_string(metaserver_),
      toml_string(fmt::format("{}/data/{}", directory_, name)), toml_string(secret_file()),
      toml_string(fmt::format("{}/log/{}.log", directory_, name)));
  if (!server.rack.empty()) config += fmt::format("rack = {}\n", toml_string(server.rack));
  return write_file(fmt::format("{}/etc/{}.toml", directory_, name), config);
}

Status LocalCluster::write_repair_manager_configs() const {
  for (int i = 1; i <= options_.repair_managers; ++i) {
    const std::string path = fmt::format("{}/etc/{}.toml", directory_, repair_manager_name(i));
    if (fs::exists(path)) continue;  // somebody may have changed it
    // At any port: it tells the metaserver which one.
    KINTSUGI_TRY(write_file(
        path, fmt::format("metaserver = {}\nsecret_file = {}\nlog_file = {}\n", toml_string(metaserver_),
                          toml_string(secret_file()),
                          toml_string(fmt::format("{}/log/{}.log", directory_, repair_manager_name(i))))));
  }
  return {};
}

Status LocalCluster::save() const {
  Json json{{"metaserver", metaserver_},
            {"metaserver_http", metaserver_http_},
            {"racks", options_.racks},
            {"policy", options_.policy},
            {"repair_delay_seconds", options_.repair_delay_seconds},
            {"chunk_bytes", options_.chunk_bytes},
            {"repair_managers", options_.repair_managers},
            {"chunkservers", Json::array()}};
  for (const Chunkserver& server : chunkservers_) {
    json["chunkservers"].push_back({{"listen", server.listen}, {"http", server.http}, {"rack", server.rack}});
  }
  return write_file(directory_ + "/cluster.json", json.dump(2) + "\n");
}

}  // namespace kintsugi::cli
