// Servers are called by the names of their processes, or by numbers, and stay who they are.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

class Names : public ProcessCluster {
 protected:
  Json server(const std::string& name) const {
    const Json listed = Json::parse(kintsugi({"server", "list", "--json"}).out);
    for (const Json& server : listed.at("servers"))
      if (server.at("name") == name) return server;
    return {};
  }
  int number_of(const std::string& name) const { return server(name).value("number", -1); }
  std::string state_of(const std::string& name) const {
    std::istringstream list(kintsugi({"server", "list"}).out);
    for (std::string line; std::getline(list, line);)
      if (line.find(" " + name + " ") != std::string::npos) return line;
    return "";
  }
};

TEST_F(Names, OfProcessesAndNumbersAreTakenAndShownEverywhere) {
  start({"--chunkservers", "6", "--policy", "rs-2-1-64k", "--repair-delay", "0"});
  for (int i = 1; i <= 6; ++i)
    EXPECT_EQ(number_of("chunkserver-" + std::to_string(i)), i);
  ASSERT_EQ(kintsugi({"put", make_file("file", 300'000, 1), "/file"}).exit_code, 0);
  const std::string id = server("chunkserver-2").at("server_id");
  EXPECT_THAT(kintsugi({"server", "list"}).out, Not(HasSubstr(id)));

  EXPECT_THAT(kintsugi({"server", "drain", "chunkserver-2"}).out, HasSubstr("Server chunkserver-2 gets"));
  ASSERT_TRUE(
      eventually([&] { return state_of("chunkserver-2").find("drained") != std::string::npos; }, seconds(60)))
      << state_of("chunkserver-2");
  EXPECT_THAT(kintsugi({"server", "undrain", "2"}).out, HasSubstr("Server chunkserver-2 takes"));
  EXPECT_THAT(kintsugi({"server", "drain", id, "--json"}).out, HasSubstr("\"name\": \"chunkserver-2\""));
  EXPECT_EQ(kintsugi({"server", "undrain", id}).exit_code, 0);
  const Outcome unknown = kintsugi({"server", "drain", "chunkserver-7"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("there are chunkserver-1 (1, alive), chunkserver-2 (2, alive)"));
  EXPECT_EQ(std::count(unknown.err.begin(), unknown.err.end(), '\n'), 1) << unknown.err;

  kill9("chunkserver-3");
  ASSERT_TRUE(eventually([&] { return server("chunkserver-3").value("liveness", "") == "dead" && healthy(); },
                         seconds(60)));
  EXPECT_THAT(read_file(cluster_directory() + "/log/metaserver.log"), HasSubstr("server chunkserver-3 at"));
  const Json history = Json::parse(kintsugi({"repair", "history", "--json"}).out);
  for (const Json& record : history.at("repairs"))
    EXPECT_THAT(record.at("destination_name").get<std::string>(), HasSubstr("chunkserver-")) << record;
}

TEST_F(Names, StayOverRestartsAndANewDiskGetsANewNumber) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string before = server("chunkserver-3").at("server_id");
  ASSERT_EQ(kintsugi({"cluster", "stop", "--dir", cluster_directory()}).exit_code, 0);
  restart_missing();
  for (int i = 1; i <= 3; ++i)
    EXPECT_EQ(number_of("chunkserver-" + std::to_string(i)), i);
  EXPECT_EQ(server("chunkserver-3").at("server_id"), before);
  EXPECT_THAT(
      metrics_of("chunkserver-3"),
      HasSubstr("\nkintsugi_server_info{kind=\"chunkserver\",name=\"chunkserver-3\",server=\"3\"} 1\n"));
  EXPECT_THAT(metrics_of("metaserver"),
              HasSubstr("\nkintsugi_server_info{kind=\"metaserver\",name=\"metaserver\"} 1\n"));

  kill9("chunkserver-3");
  ASSERT_TRUE(
      eventually([&] { return server("chunkserver-3").value("liveness", "") == "dead"; }, seconds(30)));
  const std::string disk = cluster_directory() + "/data/chunkserver-3";
  std::filesystem::remove_all(disk);
  std::filesystem::create_directory(disk);
  restart_missing();
  EXPECT_EQ(number_of("chunkserver-3"), 4) << "the living one has the name";
  EXPECT_NE(server("chunkserver-3").at("server_id"), before);
  EXPECT_EQ(number_of("chunkserver-3#3"), 3);
  const Outcome which = kintsugi({"server", "remove", "chunkserver-3"});
  EXPECT_EQ(which.exit_code, 1) << "it may be either";
  EXPECT_THAT(which.err, HasSubstr("chunkserver-3#3 (3, dead), chunkserver-3 (4, alive)"));
  EXPECT_EQ(kintsugi({"server", "remove", "3"}).exit_code, 0);
  EXPECT_EQ(number_of("chunkserver-3"), 4);
}

TEST_F(Names, ThatAreNoneAreRefusedInOneLine) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  kill9("chunkserver-2");
  const std::string config = cluster_directory() + "/etc/chunkserver-2.toml";
  std::string text = read_file(config);
  const size_t at = text.find("\"chunkserver-2\"");
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, 15, "\"1234\"");
  std::ofstream(config) << text;
  const Outcome started = kintsugi({"cluster", "start", "--dir", cluster_directory()});
  EXPECT_EQ(started.exit_code, 1);
  EXPECT_THAT(started.err,
              HasSubstr("\"1234\" is not a valid name for a server: only digits would be a server's number"));
}

}  // namespace
}  // namespace kintsugi::processes
