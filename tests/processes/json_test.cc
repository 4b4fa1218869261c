// Every command with --json: one document on standard output, errors as documents on the other, ids in one form.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class JsonOutput : public ProcessCluster {
 protected:
  /// The commands that the help lists, in words: "put", "policy list".
  std::set<std::string> all_commands(const std::string& group = "") const {
    Words words;
    if (!group.empty()) words.push_back(group);
    words.push_back("--help");
    std::istringstream help(kintsugi(words).out);
    std::set<std::string> names;
    bool listed = false;
    for (std::string line; std::getline(help, line);) {
      if (line.starts_with("Subcommands:")) listed = true;
      if (line.empty()) listed = false;
      if (!listed || !line.starts_with("  ")) continue;
      const std::string name = line.substr(2, line.find(' ', 2) - 2);
      if (!group.empty()) {
        names.insert(group + " " + name);
        continue;
      }
      const std::set<std::string> inner = all_commands(name);
      if (inner.empty()) names.insert(name);
      names.insert(inner.begin(), inner.end());
    }
    return names;
  }
  Json document(Words words) const {
    words.push_back("--json");
    const Outcome outcome = kintsugi(words);
    const Json parsed = Json::parse(outcome.out, nullptr, false);
    EXPECT_EQ(outcome.exit_code, 0) << testing::PrintToString(words) << outcome.err;
    EXPECT_EQ(outcome.err, "") << testing::PrintToString(words);
    EXPECT_TRUE(parsed.is_object()) << testing::PrintToString(words) << outcome.out;
    expect_documented(parsed, testing::PrintToString(words));
    return parsed;
  }
  /// Every field, however deep it stands, is in the reference.
  void expect_documented(const Json& value, const std::string& command) const {
    for (const auto& [field, inner] : value.items()) {
      if (value.is_object())
        EXPECT_NE(reference_.find("`" + field + "`"), std::string::npos)
            << command << " has the field " << field << ", which docs/reference/json.md does not have";
      if (inner.is_structured()) expect_documented(inner, command);
    }
  }

  const std::string reference_ = read_file(KINTSUGI_SOURCE "/docs/reference/json.md");
};

TEST_F(JsonOutput, IsGivenByEveryCommandButCat) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"put", make_file("large", 1'000'000, 1), "/large"}).exit_code, 0);
  const std::string stripe =
      std::to_string(document({"stat", "/large"}).at("stripes").at(0).at("stripe_id").get<uint64_t>());
  std::set<std::string> done{"cat", "trace export"};
  const auto does = [&](const std::string& command, const Words& arguments) {
    std::istringstream words(command);
    Words all;
    for (std::string word; words >> word;)
      all.push_back(word);
    all.insert(all.end(), arguments.begin(), arguments.end());
    done.insert(command);
    return document(all);
  };
  const std::string file = make_file("file", 1000, 2);
  does("cluster start", {"--dir", cluster_directory()});
  does("cluster status", {"--dir", cluster_directory()});
  const Json checked = does("cluster check", {"--etc", cluster_directory() + "/etc"});
  EXPECT_NE(checked.dump().find("is in use: the daemon runs"), std::string::npos) << checked.dump(1);
  does("doctor", {"--etc", cluster_directory() + "/etc", "--out", path("doctor.tar.gz")});
  const std::string hosts = path("hosts.toml");
  std::ofstream(hosts)
      << "policy = \"rs-2-1-64k\"\n[hosts.one]\naddress = \"10.0.0.1\"\nroles = [\"metaserver\"]\n";
  does("cluster init", {hosts, "--out", path("keys")});
  does("cluster init", {hosts, "--out", path("keys"), "--revoke", "one"});
  EXPECT_EQ(does("mkdir", {"/d", "/e"}).at("ok"), true);
  EXPECT_EQ(does("put", {file, "/d/f"}).at("files"), 1);
  does("get", {"/d/f", path("back")});
  EXPECT_EQ(does("ls", {"/d"}).at("entries").size(), 1u);
  does("stat", {"/d/f"});
  does("mv", {"/d/f", "/d/g"});
  does("rmdir", {"/e"});
  does("du", {"/"});
  EXPECT_EQ(does("df", {}).at("health").at("degraded_stripes"), 0);
  EXPECT_EQ(does("plan", {"--servers", "6", "--disks", "2x1T", "--policy", "rs-4-2"}).at("disks_survived"),
            2);
  does("policy list", {});
  does("policy get", {"/"});
  EXPECT_EQ(does("policy set", {"/d", "rs-6-3-64k"}).at("servers_needed"), 9);
  does("quota set", {"/d", "--bytes", "1.5g"});
  EXPECT_EQ(does("quota show", {"/d"}).at("quotas").at(0).at("max_bytes"), 3ull << 29);
  does("quota list", {});
  does("quota remove", {"/d"});
  does("snapshot create", {"/d", "one"});
  does("snapshot list", {});
  does("snapshot delete", {"/d", "one"});
  does("trash set", {"/d", "--retention", "1w"});
  does("rm", {"/d/g"});
  const Json trash = does("trash list", {"/d"});
  EXPECT_EQ(trash.at("retention_ns"), 7ull * 86'400 * 1'000'000'000);
  EXPECT_EQ(
      does("trash restore", {"/d", trash.at("entries").at(0).at("entry").get<std::string>()}).at("path"),
      "/d/g");
  does("trash empty", {"/d"});
  does("server list", {});
  does("server drain", {"chunkserver-4"});
  does("server undrain", {"chunkserver-4"});
  does("stripe show", {stripe});
  ASSERT_TRUE(eventually([&] { return kintsugi({"fsck"}).exit_code == 0; }, std::chrono::seconds(60)));
  EXPECT_TRUE(does("fsck", {}).at("servers_not_reported").empty());
  EXPECT_EQ(does("server maintain", {"chunkserver-4", "--for", "10m"}).at("maintenance_seconds"), 600);
  EXPECT_EQ(does("fsck", {}).at("in_maintenance").size(), 1u);
  does("server maintain", {"chunkserver-4", "--end"});
  ASSERT_TRUE(eventually([&] { return kintsugi({"diagnose"}).exit_code == 0; }, std::chrono::seconds(20)));
  does("diagnose", {});
  does("diagnose", {"--metrics"});
  EXPECT_EQ(does("cluster finalize", {}).at("format"), does("metadata status", {}).at("newest_format"));
  does("quarantine list", {});
  does("quarantine empty", {});
  EXPECT_TRUE(does("token create", {"reader", "--role", "read"})
                  .at("token")
                  .get<std::string>()
                  .starts_with("kintsugi-token:"));
  EXPECT_EQ(does("token list", {}).at("tokens").at(0).at("state"), "usable");
  does("token revoke", {"reader"});
  EXPECT_EQ(does("key status", {}).at("daemons").at(0).at("other_is"), "none");
  EXPECT_EQ(does("key rotate", {}).at("other_is"), "former");
  EXPECT_EQ(does("repair limit", {"100MiB"}).at("limit_bytes_per_second"), 100 << 20);
  EXPECT_EQ(does("repair status", {}).at("limit_bytes_per_second"), 100 << 20);
  does("repair limit", {"off"});
  does("repair history", {});
  does("repair run", {"--chunk", stripe + ":0"});
  const Json what_if = does("repair what-if", {"--server", "chunkserver-2"});
  EXPECT_EQ(what_if.at("assumptions").at("described"), false);
  EXPECT_EQ(what_if.at("assumptions").at("placement"), "known");
  EXPECT_EQ(
      does("repair what-if", {"--servers-total", "20", "--stripes", "200", "--policy", "rs-4-2"}).at("exact"),
      true);
  does("bench put", {"--files", "2", "--size", "1000"});
  does("bench get", {"--files", "2", "--size", "1000"});
  does("bench metadata", {"--operations", "10"});
  does("bench degraded-read", {"--chunk", stripe + ":1", "--runs", "1"});
#ifdef KINTSUGI_FAULT_POINTS
  does("fault set", {"metaserver", "start-repair", "delay", "--delay", "0.1"});
  does("fault list", {"metaserver"});
  does("fault clear", {"metaserver"});
#else
  done.insert({"fault set", "fault list", "fault clear"});
#endif
  const std::string trace = path("trace");
  const Outcome tried = kintsugi({"trace", "attach", "chunkserver-2", "--for", "1ms"});
  if (tried.err.find("KINTSUGI_SLEDS") == std::string::npos) {
    EXPECT_EQ(does("trace attach", {"chunkserver-2", "--for", "100ms", "--out", trace}).at("phase"), "ended");
    EXPECT_EQ(does("trace status", {"chunkserver-2"}).at("phase"), "ended");
    EXPECT_NE(does("trace show", {trace}).at("program").get<std::string>().find("kintsugi-chunkserver"),
              std::string::npos);
    EXPECT_TRUE(does("trace explain", {trace}).at("answers").is_array());
  } else {
    done.insert({"trace attach", "trace status", "trace show", "trace explain"});
  }
  // What cannot be done with this cluster is refused with a document.
  for (const auto& [command, words] :
       std::map<std::string, Words>{{"metadata accept", {"metadata", "accept"}},
                                    {"quarantine keep", {"quarantine", "keep", "--stripe", "4711"}},
                                    {"server remove", {"server", "remove", "chunkserver-1"}},
                                    {"trace detach", {"trace", "detach", "chunkserver-1"}}}) {
    Words all = words;
    all.push_back("--json");
    const Outcome outcome = kintsugi(all);
    const Json parsed = Json::parse(outcome.exit_code == 0 ? outcome.out : outcome.err, nullptr, false);
    EXPECT_TRUE(parsed.is_object()) << command << outcome.out << outcome.err;
    done.insert(command);
  }
  does("cluster stop", {"--dir", cluster_directory()});
  EXPECT_EQ(done, all_commands()) << "a command is missing here, or is no more";
}

TEST_F(JsonOutput, ServersHaveOneIdWhoeverNamesThem) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"put", make_file("large", 1'000'000, 1), "/large"}).exit_code, 0);
  std::set<std::string> ids, of_stripe;
  const Json servers = document({"server", "list"}), file = document({"stat", "/large"});
  for (const Json& server : servers.at("servers"))
    ids.insert(server.at("server_id").get<std::string>());
  EXPECT_EQ(ids.size(), 3u);
  for (const Json& chunk : file.at("stripes").at(0).at("chunks"))
    of_stripe.insert(chunk.at("server_id").get<std::string>());
  EXPECT_EQ(of_stripe, ids);
  kill9("chunkserver-2");
  Json verdicts;
  const auto is_seen = [&] {
    verdicts = Json::parse(kintsugi({"diagnose", "--json"}).out).at("verdicts");
    return !verdicts.empty();
  };
  ASSERT_TRUE(eventually(is_seen, std::chrono::seconds(30)));
  const Json& verdict = verdicts.at(0);
  EXPECT_TRUE(ids.contains(verdict.at("server_id").get<std::string>())) << verdict;
}

TEST_F(JsonOutput, ErrorsNameTheirCodeAndOneOfSeveralPathsStopsNothing) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"mkdir", "/a"}).exit_code, 0);
  const Outcome outcome = kintsugi({"rmdir", "/none", "/a", "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "") << "it is not ok";
  const Json error = Json::parse(outcome.err, nullptr, false);
  ASSERT_TRUE(error.is_object()) << outcome.err;
  EXPECT_EQ(error.at("error").at("command"), "rmdir");
  EXPECT_EQ(error.at("error").at("code"), "not found");
  EXPECT_EQ(kintsugi({"ls", "/"}).out, "");
}

TEST_F(JsonOutput, SourcesThatAreNotThereAreCountedAsFailed) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string present = make_file("present", 1000, 1), into = path("into");
  std::filesystem::create_directory(into);
  const auto expect_one_of_two = [&](const Words& words) {
    SCOPED_TRACE(testing::PrintToString(words));
    const Outcome outcome = kintsugi(words);
    EXPECT_EQ(outcome.exit_code, 1);
    const Json told = Json::parse(outcome.out, nullptr, false),
               error = Json::parse(outcome.err, nullptr, false);
    ASSERT_TRUE(told.is_object()) << outcome.out;
    EXPECT_EQ(told.at("files"), 1);
    EXPECT_EQ(told.at("failed"), 1);
    ASSERT_TRUE(error.is_object()) << outcome.err;
    EXPECT_EQ(error.at("error").at("code"), "not found");
  };
  expect_one_of_two({"put", path("missing"), present, "/", "--json"});
  expect_one_of_two({"get", "/missing", "/present", into, "--json"});
}

TEST_F(JsonOutput, ErrorsOfEveryKindOfCommandAreDocumentsOnStandardError) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::vector<Words> failing{{"stat", "/none"},
                                   {"get", "/none", path("x")},
                                   {"put", path("none"), "/x"},
                                   {"ls", "/none"},
                                   {"du", "/none"},
                                   {"mv", "/none", "/other"},
                                   {"policy", "set", "/", "rs-99-1-1024k"},
                                   {"quota", "show", "/none"},
                                   {"snapshot", "create", "/none", "one"},
                                   {"trash", "list", "/none"},
                                   {"server", "drain", "nobody"},
                                   {"server", "remove", "chunkserver-1"},
                                   {"stripe", "show", "4711"},
                                   {"repair", "run", "--chunk", "4711:0"},
                                   {"fsck", "/none"},
                                   {"fault", "list", "nobody"},
                                   {"bench", "degraded-read", "--chunk", "4711:1"},
                                   {"cluster", "status", "--dir", path("nowhere")},
                                   {"cluster", "start", "--dir", path("c"), "--policy", "rs-0-3-64k"}};
  for (Words words : failing) {
    SCOPED_TRACE(testing::PrintToString(words));
    const std::string command = words.front();
    words.push_back("--json");
    const Outcome outcome = kintsugi(words);
    EXPECT_EQ(outcome.exit_code, 1);
    std::istringstream lines(outcome.err);
    int errors = 0;
    for (std::string line; std::getline(lines, line); ++errors) {
      const Json error = Json::parse(line, nullptr, false);
      ASSERT_TRUE(error.is_object()) << outcome.err;
      EXPECT_TRUE(error.at("error").at("command").get<std::string>().starts_with(command)) << line;
      EXPECT_FALSE(error.at("error").at("message").get<std::string>().empty());
    }
    EXPECT_GE(errors, 1);
    EXPECT_TRUE(outcome.out.empty() || Json::parse(outcome.out, nullptr, false).is_object()) << outcome.out;
  }
}

}  // namespace
}  // namespace kintsugi::processes
