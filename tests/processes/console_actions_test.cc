// Operators change a cluster of real processes from the console: requests are sent over HTTP as a browser sends them.
#include <algorithm>
#include <csignal>
#include <future>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using Json = nlohmann::json;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

class ConsoleActions : public ProcessCluster {
 protected:
  /// A token of this name, as its holder has it.
  std::string make_token(const std::string& name, const std::string& role) const {
    const Outcome made = kintsugi({"token", "create", name, "--role", role, "--out", path(name)});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    std::string token = read_file(path(name));
    token.erase(token.find_last_not_of('\n') + 1);
    return token;
  }
  std::string monitor() const {
    return Json::parse(read_file(cluster_directory() + "/cluster.json")).at("monitor_http");
  }
  /// The status and the body: "200 Server ...".
  std::string ask(const std::string& action, const std::vector<std::string>& headers,
                  const std::string& method = "POST") const {
    std::vector<std::string> command{"/usr/bin/env", "curl", "-s", "-m",          "20",
                                     "-X",           method, "-w", "%{http_code}"};
    for (const std::string& header : headers)
      command.insert(command.end(), {"-H", header});
    command.push_back("http://" + monitor() + "/api/v1/actions/" + action);
    std::string out = run_command(command).out;
    if (out.size() < 3) return out;
    return out.substr(out.size() - 3) + " " + out.substr(0, out.size() - 3);
  }
  bool knows_its_servers() const {
    const std::string page = "http://" + monitor() + "/api/v1/servers";
    return run_command({"/usr/bin/env", "curl", "-s", page}).out.find("chunkserver-3") != std::string::npos;
  }
  Json servers() const { return Json::parse(kintsugi({"server", "list", "--json"}).out).at("servers"); }
  std::string id_of(const std::string& name) const {
    for (const Json& server : servers())
      if (server.at("name") == name) return server.at("server_id");
    return "";
  }
  size_t draining() const {
    size_t count = 0;
    for (const Json& server : servers())
      count += server.at("draining") == true ? 1 : 0;
    return count;
  }
  std::string audit_log(const std::string& daemon) const {
    return read_file(cluster_directory() + "/log/" + daemon + ".audit.log");
  }
};

std::string bearer(const std::string& token) {
  return "Authorization: Bearer " + token;
}

/// `printf %s any:TOKEN | base64`, as a browser sends a password.
std::string basic(const std::string& token) {
  return "Authorization: Basic " +
         run_command({"/bin/bash", "-c", "printf 'any:%s' \"$1\" | base64 -w0", "x", token}).out;
}

TEST_F(ConsoleActions, AreDoneInTheNameOfTheTokenThatWasShownAndOfNoOther) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  const std::string boss = make_token("boss", "admin"), worker = make_token("worker", "write");
  const std::string drain = "drain?server=" + id_of("chunkserver-3");
  const std::string here = "Origin: http://" + monitor();
  ASSERT_TRUE(eventually([&] { return knows_its_servers(); }, seconds(20)));

  // Each refusal is one line, and changes nothing.
  EXPECT_THAT(ask(drain, {here}),
              StartsWith("401 this changes the cluster, and needs a token of the role admin"));
  EXPECT_THAT(ask(drain, {basic(boss)}), StartsWith("401 this changes the cluster"))
      << "a browser sends a password for pages of others, too";
  EXPECT_THAT(ask(drain, {bearer("garbage")}), HasSubstr("is not a token"));
  EXPECT_THAT(ask(drain, {bearer(boss + "0")}), StartsWith("401 "));
  EXPECT_THAT(ask(drain, {bearer(worker), here}),
              HasSubstr("403 DrainServer needs the right to administer the "
                        "cluster, which the token worker does not give"));
  EXPECT_THAT(ask(drain, {bearer(boss), "Origin: http://evil.example"}),
              StartsWith("403 refused: a page of \"http://evil.example\" asks for this"));
  EXPECT_THAT(ask(drain, {bearer(boss), "Origin: null"}), StartsWith("403 refused"));
  EXPECT_THAT(ask("drain?server=12345", {bearer(boss)}), StartsWith("404 no such server"));
  EXPECT_THAT(ask("drain?server=chunkserver-3", {bearer(boss)}), StartsWith("400 which server?"));
  EXPECT_THAT(ask("drain", {bearer(boss)}), StartsWith("400 which server?"));
  EXPECT_THAT(ask(drain, {bearer(boss)}, "GET"), StartsWith("405 only POST"));
  EXPECT_THAT(ask("explode?server=1", {bearer(boss)}), StartsWith("405 "));
  EXPECT_THAT(ask("remove?server=" + id_of("chunkserver-3"), {bearer(boss)}),
              StartsWith("409 server chunkserver-3 is in use: drain it first"));
  EXPECT_EQ(draining(), 0u);

  EXPECT_THAT(ask(drain, {bearer(boss), here}), StartsWith("200 Server chunkserver-3 gets no new chunks"));
  EXPECT_EQ(draining(), 1u);
  const auto is_audited = [&](const std::string& daemon, const std::string& line) {
    return eventually([&] { return audit_log(daemon).find(line) != std::string::npos; }, seconds(5));
  };
  EXPECT_TRUE(is_audited("metaserver", "token boss (")) << audit_log("metaserver");
  EXPECT_TRUE(is_audited("metaserver", ", drain: done")) << audit_log("metaserver");
  EXPECT_TRUE(is_audited("metaserver", "token worker (")) << audit_log("metaserver");
  EXPECT_TRUE(is_audited("monitor", ": drain server chunkserver-3 by the console: done"))
      << audit_log("monitor");
  EXPECT_THAT(ask("undrain?server=" + id_of("chunkserver-3"), {bearer(boss)}),
              StartsWith("200 Server chunkserver-3 takes new chunks again"));
  EXPECT_EQ(draining(), 0u);

  // Maintenance and the limit of repairs have a number each.
  const std::string id = id_of("chunkserver-3");
  const auto left = [&] {
    for (const Json& server : servers())
      if (server.at("name") == "chunkserver-3") return server.at("maintenance_seconds").get<double>();
    return -1.0;
  };
  const auto limit = [&] {
    return Json::parse(kintsugi({"repair", "status", "--json"}).out)
        .at("limit_bytes_per_second")
        .get<uint64_t>();
  };
  for (const char* wrong :
       {"", "&seconds=", "&seconds=0", "&seconds=x", "&seconds=1h", "&seconds=99999999999999999999",
        "&rate=7", "&seconds=60&seconds=60", "&seconds=60x"})
    EXPECT_THAT(ask("maintain?server=" + id + wrong, {bearer(boss)}), StartsWith("400 ")) << wrong;
  EXPECT_THAT(ask("maintain?server=" + id + "&seconds=86401", {bearer(boss)}),
              StartsWith("400 maintenance lasts 24 hours at most"));
  EXPECT_THAT(ask("drain?server=" + id + "&seconds=60", {bearer(boss)}),
              StartsWith("400 the action drain takes nothing else"));
  EXPECT_THAT(ask("maintain?server=" + id + "&seconds=600", {bearer(worker)}),
              StartsWith("403 MaintainServer needs"));
  EXPECT_EQ(left(), 0);
  EXPECT_THAT(ask("maintain?server=" + id + "&seconds=600", {bearer(boss), here}),
              StartsWith("200 Server chunkserver-3 is in maintenance"));
  EXPECT_GT(left(), 500);
  EXPECT_TRUE(is_audited("metaserver", ", maintenance for 600 s: done")) << audit_log("metaserver");
  EXPECT_TRUE(is_audited("monitor", ": maintain server chunkserver-3, seconds 600 by the console: done"))
      << audit_log("monitor");
  EXPECT_THAT(ask("end-maintenance?server=" + id, {bearer(boss)}),
              StartsWith("200 Server chunkserver-3 is not in maintenance"));
  EXPECT_EQ(left(), 0);
  for (const char* wrong : {"", "?rate=", "?rate=0", "?rate=1", "?rate=50MiB", "?server=1&rate=52428800"})
    EXPECT_THAT(ask(std::string("limit-repairs") + wrong, {bearer(boss)}), StartsWith("400 ")) << wrong;
  EXPECT_THAT(ask("limit-repairs?rate=52428800", {bearer(worker)}), StartsWith("403 LimitRepairs needs"));
  EXPECT_EQ(limit(), 0u);
  EXPECT_THAT(ask("limit-repairs?rate=52428800", {bearer(boss), here}),
              StartsWith("200 Repairs are limited"));
  EXPECT_EQ(limit(), 52'428'800u);
  EXPECT_TRUE(is_audited("monitor", ": limit-repairs, rate 52428800 by the console: done"))
      << audit_log("monitor");
  EXPECT_THAT(ask("unlimit-repairs", {bearer(boss)}), StartsWith("200 Repairs are not limited"));
  EXPECT_EQ(limit(), 0u);

  ASSERT_EQ(kintsugi({"token", "revoke", "boss"}).exit_code, 0);
  EXPECT_THAT(ask(drain, {bearer(boss)}), StartsWith("403 "));
  EXPECT_THAT(ask(drain, {bearer(boss)}), HasSubstr("the token boss is revoked"));
  const std::string other = make_token("other", "admin");
  kill9("metaserver");
  EXPECT_THAT(ask(drain, {bearer(other)}), StartsWith("503 the metaserver does not answer"));
  // Nobody can tell now that these tokens may do nothing: they do not fill the audit log.
  const size_t asked = 70;
  for (size_t i = 0; i < asked; ++i)
    EXPECT_THAT(ask(drain, {bearer(worker)}), StartsWith("503 "));
  restart_missing();
  // What is done is always told, and comes after what failed before.
  const std::string undrain = "undrain?server=" + id_of("chunkserver-3");
  ASSERT_TRUE(eventually([&] { return ask(undrain, {bearer(other)}).starts_with("200 "); }, seconds(20)));
  const auto last_line = [&] {
    const std::string log = audit_log("monitor");
    const size_t begin = log.size() < 2 ? log.npos : log.rfind('\n', log.size() - 2);
    return begin == log.npos ? log : log.substr(begin + 1);
  };
  ASSERT_TRUE(
      eventually([&] { return last_line().find("by the console: done") != std::string::npos; }, seconds(5)));
  const std::string log = audit_log("monitor");
  EXPECT_LT(static_cast<size_t>(std::count(log.begin(), log.end(), '\n')), asked) << log;
  EXPECT_EQ(draining(), 0u);
}

TEST_F(ConsoleActions, ThatWaitForAMetaserverThatHangsAreFewAndEnd) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string boss = make_token("boss", "admin"), drain = "drain?server=" + id_of("chunkserver-3");
  ASSERT_TRUE(eventually([&] { return knows_its_servers(); }, seconds(20)));
  send("metaserver", SIGSTOP);
  std::vector<std::future<std::string>> asked;
  asked.reserve(12);
  for (int i = 0; i < 12; ++i)
    asked.push_back(std::async(std::launch::async, [&] { return ask(drain, {bearer(boss)}); }));
  std::map<std::string, int> answers;
  for (std::future<std::string>& answer : asked)
    ++answers[answer.get().substr(0, 3)];
  EXPECT_TRUE(knows_its_servers()) << "pages are served meanwhile";
  send("metaserver", SIGCONT);
  EXPECT_EQ(answers, (std::map<std::string, int>{{"429", 4}, {"503", 8}}));
  ASSERT_TRUE(eventually([&] { return kintsugi({"ls", "/"}).exit_code == 0; }, seconds(20)));
  EXPECT_EQ(draining(), 0u);
  // The monitor ends while one waits, and does not wait for long.
  send("metaserver", SIGSTOP);
  std::future<std::string> last = std::async(std::launch::async, [&] { return ask(drain, {bearer(boss)}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const pid_t pid = pid_of("monitor");
  send("monitor", SIGTERM);
  EXPECT_TRUE(eventually([&] { return ::kill(pid, 0) != 0; }, seconds(15)));
  last.get();
  send("metaserver", SIGCONT);
}

}  // namespace
}  // namespace kintsugi::processes
