#include "tests/processes/repair_rig.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <signal.h>

namespace kintsugi::processes {

namespace {

namespace fs = std::filesystem;

constexpr size_t kHeaderBytes = 4096;  // of a chunk file
constexpr uint64_t kUnderWayBytes = 1 << 20;

void append(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::app) << text;
}

/// Files below the directory, which may change meanwhile.
std::vector<fs::path> files_below(const std::string& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    if (at->is_regular_file(error)) files.push_back(at->path());
  return files;
}

}  // namespace

void RepairRig::set_up_slow(const RigOptions& options) {
  start({"--chunkservers", std::to_string(options.servers), "--policy", options.policy, "--chunk-size",
         options.chunk_size, "--repair-delay", options.repair_delay});
  // The settings that `cluster start` has no options for; no chunk comes from memory.
  ASSERT_EQ(kintsugi({"cluster", "stop", "--dir", cluster_directory()}).exit_code, 0);
  append(cluster_directory() + "/etc/metaserver.toml",
         "heartbeat_interval = \"200ms\"\nsuspect_after = \"1500ms\"\ndead_after = \"4s\"\n");
  for (int i = 1; i <= options.servers; ++i) {
    append(fmt::format("{}/etc/chunkserver-{}.toml", cluster_directory(), i),
           fmt::format("cache.memory = 0\nlink.probe = false\nrepair.bandwidth = \"{}\"\n",
                       options.repair_bandwidth));
  }
  restart_missing();
}

void RepairRig::start_rig(const RigOptions& options) {
  ASSERT_NO_FATAL_FAILURE(set_up_slow(options));
  std::map<std::string, std::string> daemon_at;
  const Json cluster = Json::parse(read_file(cluster_directory() + "/cluster.json"));
  size_t number = 0;
  for (const Json& server : cluster.at("chunkservers"))
    daemon_at[server.at("listen")] = fmt::format("chunkserver-{}", ++number);
  const Json listed = ask({"server", "list"});
  for (const Json& server : listed.at("servers"))
    daemons_[server.at("server_id")] = daemon_at.at(server.at("address"));
  ASSERT_EQ(daemons_.size(), size_t(options.servers));

  make_file("file", options.file_bytes, 1);
  const Outcome put = kintsugi({"put", file(), "/file"});
  ASSERT_EQ(put.exit_code, 0) << put.err;
  stripe_id_ = std::to_string(ask({"stat", "/file"}).at("stripes").at(0).at("stripe_id").get<uint64_t>());
  const size_t count = placements().size();
  for (size_t i = 0; i < count; ++i) {
    const auto found = copies(i);
    ASSERT_EQ(found.size(), 1u) << "chunk " << i;
    originals_.push_back(data_of(found.front().second));
    ASSERT_FALSE(originals_.back().empty()) << "chunk " << i;
  }
}

void RepairRig::TearDown() {
  revived_.clear();
  ProcessCluster::TearDown();
}

RepairRig::Json RepairRig::ask(std::vector<std::string> arguments) const {
  arguments.push_back("--json");
  Json answer = Json::parse(kintsugi(arguments).out, nullptr, /*allow_exceptions=*/false);
  return answer.is_object() ? answer : Json::object();
}

RepairRig::Json RepairRig::placements() const {
  const Json stripes = ask({"stat", "/file"}).value("stripes", Json::array());
  return stripes.empty() ? Json::array() : stripes.front().at("chunks");
}

std::string RepairRig::server_of(size_t index) const {
  const Json places = placements();
  return index < places.size() ? places.at(index).at("server_id").get<std::string>() : "";
}

void RepairRig::kill_server(const std::string& server) {
  ASSERT_NO_FATAL_FAILURE(kill9(daemon_of(server)));
  down_.insert(daemon_of(server));
}

void RepairRig::revive(const std::string& daemon) {
  const std::string program = daemon == "metaserver" ? "kintsugi-metaserver" : "kintsugi-chunkserver";
  const std::vector<std::string> arguments{fmt::format("{}/{}", KINTSUGI_BINARIES, program), "--config",
                                           fmt::format("{}/etc/{}.toml", cluster_directory(), daemon)};
  revived_[daemon] = std::make_unique<BackgroundCommand>(arguments, environment());
  down_.erase(daemon);
}

void RepairRig::revive_server(const std::string& server) {
  revive(daemon_of(server));
}

int RepairRig::exit_code_of(const std::string& server) {
  down_.insert(daemon_of(server));
  return revived_.at(daemon_of(server))->exit_code();
}

void RepairRig::stop_server(const std::string& server) const {
  send(daemon_of(server), SIGSTOP);
}

void RepairRig::continue_server(const std::string& server) const {
  send(daemon_of(server), SIGCONT);
}

void RepairRig::corrupt(size_t index) {
  const auto found = copies(index);
  ASSERT_EQ(found.size(), 1u);
  std::fstream file(found.front().second, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = std::streamoff(kHeaderBytes + originals_.at(index).size() / 2);
  char bytes[64];
  file.seekg(middle).read(bytes, sizeof bytes);
  for (char& byte : bytes)
    byte = char(~byte);
  file.seekp(middle).write(bytes, sizeof bytes);
  ASSERT_TRUE(file.flush().good());
}

RepairRig::Json RepairRig::running_tree() const {
  Json running;
  const auto under_way = [&] {
    for (const Json& record : ask({"repair", "status"}).value("running", Json::array())) {
      if (record.at("kind") != "repair") continue;
      const std::string directory = fmt::format("{}/data/{}/tmp", cluster_directory(),
                                                daemon_of(record.at("destination").get<std::string>()));
      for (const fs::path& file : files_below(directory)) {
        std::error_code error;
        if (fs::file_size(file, error) < kUnderWayBytes || error) continue;
        running = record;
        return true;
      }
    }
    return false;
  };
  eventually(under_way, kLimit);
  return running;
}

std::vector<RepairRig::Json> RepairRig::history() const {
  return ask({"repair", "history"}).value("repairs", Json::array()).get<std::vector<Json>>();
}

bool RepairRig::failed_naming(const std::string& server) const {
  const auto records = history();
  return std::ranges::any_of(records, [&](const Json& record) {
    return record.at("outcome") == "failed" &&
           record.at("detail").get<std::string>().find("server " + daemon_of(server)) != std::string::npos;
  });
}

size_t RepairRig::done_of(size_t index) const {
  const auto records = history();
  return size_t(std::ranges::count_if(records, [&](const Json& record) {
    const auto indexes = record.at("indexes").get<std::set<size_t>>();
    return record.at("outcome") == "done" && record.at("kind") == "repair" && indexes.contains(index) &&
           record.at("chunk").get<std::string>().starts_with(stripe_id_ + ":");
  }));
}

bool RepairRig::repaired_away_from(const std::vector<std::string>& servers) const {
  const Json places = placements();
  return places.size() == chunks() && std::ranges::all_of(places, [&](const Json& place) {
           return place.at("available").get<bool>() &&
                  std::ranges::find(servers, place.at("server_id").get<std::string>()) == servers.end();
         });
}

bool RepairRig::settled() const {
  const Json status = ask({"repair", "status"});
  if (status.value("queued", 1u) + status.value("delayed", 1u) > 0) return false;
  if (!status.value("running", Json::array()).empty() || !healthy()) return false;
  for (size_t i = 0; i < chunks(); ++i) {
    const auto found = copies(i);
    if (found.size() != 1 || found.front().first != daemon_of(server_of(i))) return false;
  }
  return true;
}

void RepairRig::expect_whole() {
  std::string state;
  if (!eventually([&] { return settled(); }, kLimit)) {
    for (size_t i = 0; i < chunks(); ++i)
      for (const auto& [daemon, path] : copies(i))
        state += fmt::format("chunk {} of server {}: {}\n", i, server_of(i), path);
    FAIL() << state << kintsugi({"fsck", "/"}).out << kintsugi({"repair", "status"}).out
           << kintsugi({"repair", "history"}).out;
  }
  for (size_t i = 0; i < chunks(); ++i)
    EXPECT_TRUE(data_of(copies(i).at(0).second) == originals_[i]) << "chunk " << i << " is not what was put";
  const Outcome get = kintsugi({"get", "--replace", "/file", path("back")});
  ASSERT_EQ(get.exit_code, 0) << get.err;
  EXPECT_EQ(run_command({"/usr/bin/cmp", file(), path("back")}).exit_code, 0);
}

std::string RepairRig::begin_of_name(size_t index) const {
  return fmt::format("{:016x}-{}-", std::stoull(stripe_id_), index);
}

std::vector<std::pair<std::string, std::string>> RepairRig::copies(size_t index) const {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [server, daemon] : daemons_) {
    if (down_.contains(daemon)) continue;
    const std::string directory = fmt::format("{}/data/{}/chunks", cluster_directory(), daemon);
    for (const fs::path& file : files_below(directory))
      if (file.filename().string().starts_with(begin_of_name(index)))
        found.emplace_back(daemon, file.string());
  }
  return found;
}

std::string RepairRig::data_of(const std::string& chunk_file) const {
  const std::string all = read_file(chunk_file);
  uint64_t length = 0;
  for (const Json& place : placements())
    if (chunk_file.find("/" + begin_of_name(place.at("index").get<size_t>())) != std::string::npos)
      length = place.at("length").get<uint64_t>();
  return all.size() < kHeaderBytes + length ? "" : all.substr(kHeaderBytes, length);
}

}  // namespace kintsugi::processes
