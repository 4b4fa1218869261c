// The command line as far as it goes without a cluster: usage, exit codes, one clear line on stderr.
#include "client/cli/cli.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "client/cli/json.h"
#include "client/cli/local_cluster.h"
#include "client/cli/local_daemon.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code;
  std::string out, error;
};

Outcome kintsugi(std::vector<std::string> words) {
  words.insert(words.begin(), "kintsugi");
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run(static_cast<int>(arguments.size()), arguments.data());
  std::string error = testing::internal::GetCapturedStderr();
  return {code, testing::internal::GetCapturedStdout(), std::move(error)};
}

void expect_one_line(const Outcome& outcome) {
  EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
  EXPECT_TRUE(outcome.error.starts_with("kintsugi: ")) << outcome.error;
  EXPECT_EQ(outcome.out, "");
}

class CommandLine : public testing::Test {
 protected:
  CommandLine() {
    ::unsetenv(kMetaVariable);
    ::unsetenv(kSecretVariable);
    std::string name = (fs::temp_directory_path() / "kintsugi-cli-XXXXXX").string();
    directory = ::mkdtemp(name.data());
  }
  ~CommandLine() override { fs::remove_all(directory); }
  std::string directory;
};

TEST_F(CommandLine, AnswersWrongUsageWithTwoAndOneLine) {
  const std::vector<std::vector<std::string>> wrong{
      {"nonsense"},
      {"put", "one"},
      {"get", "one"},
      {"ls", "/a", "/b"},
      {"ls", "--nonsense"},
      {"stripe", "show", "x"},
      {"policy"},
      {"policy", "set", "/a"},
      {"repair", "run"},
      {"repair", "run", "--chunk", "81"},
      {"repair", "run", "--chunk", "81:3", "--shape", "circle"},
      {"repair", "run", "--chunk", "81:3", "--chunk", "82:4"},
      {"repair", "run", "--chunk", "81:3", "--chunk", "81:3"},
      {"repair", "run", "--chunk", "81:3", "--slice", "4 parsecs"},
      {"repair", "history", "--limit", "-1"},
      {"repair", "what-if"},
      {"repair", "what-if", "--server", "a", "--rack", "b"},
      {"repair", "what-if", "--server", "a", "--budget", "much"},
      {"repair", "what-if", "--server", "a", "--budget", "101%"},
      {"repair", "what-if", "--server", "a", "--link", "fast"},
      {"repair", "what-if", "--server", "a", "--stripes", "5"},
      {"repair", "what-if", "--servers-total", "20"},
      {"repair", "what-if", "--servers-total", "5", "--stripes", "10", "--policy", "rs-6-3"},
      {"repair", "what-if", "--servers-total", "20", "--stripes", "10", "--policy", "rs-99-4"},
      {"repair", "what-if", "--servers-total", "20", "--racks", "21", "--stripes", "10", "--policy",
       "rs-6-3"},
      {"bench"},
      {"bench", "put", "--files", "0"},
      {"bench", "metadata", "--parallel", "2000"},
      {"bench", "degraded-read"},
      {"bench", "degraded-read", "--chunk", "x:1"},
      {"bench", "degraded-read", "--chunk", "81:3", "--shape", "x"},
      {"server", "drain"},
      {"server", "remove", "x", "y"},
      {"cluster", "start", "--chunkservers", "0"},
      {"cluster", "start", "--repair-delay", "-1"},
      {"cluster", "start", "--repair-managers", "0"},
      {"rmdir"},
      {"fsck", "--deep", "--list-missing"},
      {"fsck", "--rate", "1MiB"},
      {"fsck", "--deep", "--rate", "1KiB"},
      {"fsck", "--deep", "--rate", "fast"},
      {"cluster", "start", "--chunk-size", "3"},
      {"cluster", "start", "--chunk-size", "1GiB"},
      {"plan"},
      {"plan", "--servers", "0", "--disks", "8x18T"},
      {"plan", "--servers", "12", "--disks", "8"},
      {"plan", "--servers", "12", "--disks", "1.5x18T"},
      {"plan", "--servers", "12", "--disks", "8x18"},
      {"plan", "--servers", "12", "--disks", "8x-18T"},
      {"plan", "--servers", "12", "--disks", "8x18T", "--policy", "rs-99-4"},
      {"plan", "--servers", "8", "--disks", "8x18T", "--policy", "rs-6-3"},
      {"plan", "--servers", "12", "--disks", "8x18T", "--link", "fast"},
      {"plan", "--servers", "12", "--disks", "8x18T", "--racks", "13"},
      {"plan", "--servers", "12", "--disks", "8x18T", "--full", "0"},
      {"plan", "--servers", "12", "--disks", "8x18T", "--disk-rate", "nan"},
      {"plan", "--servers", "12", "--disks", "8x18T", "--disk-failures", "-1"}};
  for (const auto& words : wrong) {
    SCOPED_TRACE(testing::PrintToString(words));
    const Outcome outcome = kintsugi(words);
    EXPECT_EQ(outcome.code, 2);
    expect_one_line(outcome);
  }
}

TEST_F(CommandLine, PlansAClusterThatIsNotThere) {
  const Outcome outcome = kintsugi({"plan", "--servers", "14", "--disks", "8x18T", "--policy", "rs-8-4",
                                    "--link", "25g", "--racks", "7", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  const auto plan = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(plan["policy"], "rs-8-4-1024k");
  EXPECT_EQ(plan["usable_bytes"], 14 * 8 * uint64_t{18'000'000'000'000} * 8 / 12);
  EXPECT_EQ(plan["racks_survived"], 2);
  EXPECT_EQ(plan["assumptions"]["link_bytes_per_second"], 25e9 / 8);
  const Outcome text = kintsugi({"plan", "--servers", "12", "--disks", "8x18T", "--policy", "rs-8-4"});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("no server to spare"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("1.5 % of them fail in a year"), std::string::npos) << text.out;
}

TEST_F(CommandLine, ForecastsTheLossOfARackThatIsNotThere) {
  const std::vector<std::string> words{"repair",    "what-if", "--servers-total", "30",     "--racks", "10",
                                       "--stripes", "300",     "--policy",        "rs-6-3", "--rack",  "2"};
  const Outcome text = kintsugi(words);
  ASSERT_EQ(text.code, 0) << text.error;
  EXPECT_NE(text.out.find("If server-2, server-12, server-22 die now"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("no stripe is one failure from loss"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("every repair was simulated"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("% of the time"), std::string::npos) << text.out;
  std::vector<std::string> json = words;
  json.insert(json.end(), {"--json", "--repair-delay", "0"});
  const Outcome outcome = kintsugi(json);
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  const auto forecast = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(forecast["chunks"], 270);
  EXPECT_LT(forecast["begins_seconds"], 12) << "10 s until the servers are dead";
  EXPECT_LT(forecast["half_seconds"], forecast["all_seconds"]);
  EXPECT_EQ(forecast["endangered"][0]["spare"], 2);
  EXPECT_TRUE(forecast["one_failure_until_seconds"].is_null());
  EXPECT_EQ(kintsugi({"repair", "what-if", "--servers-total", "30", "--stripes", "9", "--policy", "rs-6-3",
                      "--server", "server-31"})
                .code,
            1);
}

TEST_F(CommandLine, ErrorsAreDocumentsWithJson) {
  const std::vector<std::pair<std::vector<std::string>, int>> wrong{{{"fsck", "--json", "--list-missing"}, 2},
                                                                    {{"nonsense", "--json"}, 2},
                                                                    {{"policy", "--json"}, 2},
                                                                    {{"cat", "/a", "--json"}, 2},
                                                                    {{"rm", "--json"}, 2},
                                                                    {{"rm", "/a", "--json"}, 1},
                                                                    {{"ls", "relative", "--json"}, 1}};
  for (const auto& [words, code] : wrong) {
    SCOPED_TRACE(testing::PrintToString(words));
    const Outcome outcome = kintsugi(words);
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
    const auto document = nlohmann::json::parse(outcome.error, nullptr, false);
    ASSERT_TRUE(document.is_object()) << outcome.error;
    EXPECT_FALSE(document.at("error").at("code").get<std::string>().empty());
    EXPECT_FALSE(document.at("error").at("message").get<std::string>().empty());
    EXPECT_TRUE(document.at("error").contains("command"));
  }
}

TEST_F(CommandLine, SizesAndTimesMayHaveFractionsAndUnits) {
  const auto is_taken = [](std::vector<std::string> words) { return kintsugi(std::move(words)).code == 1; };
  for (const char* size : {"0", "4096", "1.5g", "1.5GiB", "512KiB", "10 MB", "0.5k", "7b", "15e"})
    EXPECT_TRUE(is_taken({"quota", "set", "/a", "--bytes", size})) << size;
  for (const char* size : {"", "g", "1.2.3", "-1", "1x", "1kibi", "16e", "1e9999", "1 2", "."})
    EXPECT_FALSE(is_taken({"quota", "set", "/a", "--bytes", size})) << size;
  for (const char* time : {"0", "7", "2w", "7d", "12h", "30m", "45s"})
    EXPECT_TRUE(is_taken({"trash", "set", "/a", "--retention", time})) << time;
  for (const char* time : {"", "w", "1y", "-1d", "1.5d", "99999999999w"})
    EXPECT_FALSE(is_taken({"trash", "set", "/a", "--retention", time})) << time;
}

TEST_F(CommandLine, NamesACommandThatDoesNotExist) {
  EXPECT_NE(kintsugi({"nonsense"}).error.find("nonsense: no such command"), std::string::npos);
}

TEST_F(CommandLine, SaysWhichCommandIsWrongAndWhereItsHelpIs) {
  EXPECT_EQ(kintsugi({"put"}).error, "kintsugi: put: SRC... DST is required (see kintsugi put --help)\n");
  EXPECT_EQ(kintsugi({"put", "a"}).error,
            "kintsugi: put: SRC... DST: a value is missing (see kintsugi put --help)\n");
  EXPECT_EQ(kintsugi({"put", "a", "/b", "--policy"}).error,
            "kintsugi: put: --policy: a value is missing (see kintsugi put --help)\n");
  EXPECT_EQ(kintsugi({"ls", "/a", "/b"}).error,
            "kintsugi: ls: /b: one argument too many (see kintsugi ls --help)\n");
  EXPECT_EQ(kintsugi({"ls", "--nonsense"}).error,
            "kintsugi: ls: --nonsense: no such option (see kintsugi ls --help)\n");
  EXPECT_EQ(kintsugi({"policy", "nonsense"}).error,
            "kintsugi: policy: nonsense: no such command (see kintsugi policy --help)\n");
  EXPECT_EQ(kintsugi({"policy"}).error,
            "kintsugi: policy: a command is missing, one of: list, get, set (see kintsugi policy --help)\n");
}

TEST_F(CommandLine, WithoutACommandItListsAllOfThemByGroup) {
  const Outcome outcome = kintsugi({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(
      outcome.error.starts_with("kintsugi: a command is missing (see kintsugi --help)\n  put, get, cat,"))
      << outcome.error;
  EXPECT_NE(outcome.error.find("\n  policy    list, get, set\n"), std::string::npos) << outcome.error;
}

TEST_F(CommandLine, SaysWhichOptionAWordWasMeantForThatACommandHasNoPlaceFor) {
  EXPECT_EQ(
      kintsugi({"repair", "what-if", "chunkserver-3"}).error,
      "kintsugi: repair what-if: chunkserver-3: one argument too many; maybe --server chunkserver-3 is meant "
      "(see kintsugi repair what-if --help)\n");
  EXPECT_EQ(kintsugi({"cluster", "stop", "demo"}).error,
            "kintsugi: cluster stop: demo: one argument too many; maybe --dir demo is meant "
            "(see kintsugi cluster stop --help)\n");
  EXPECT_EQ(kintsugi({"repair", "status", "3"}).error,
            "kintsugi: repair status: 3: one argument too many (see kintsugi repair status --help)\n");
}

TEST_F(CommandLine, TakesOptionsOfEveryKindBeforeItConnects) {
  const std::vector<std::vector<std::string>> right{
      {"put", "a", "b", "/c", "--replace", "--policy", "rs-2-1-64k", "--json"},
      {"put", "--", "-a", "/b"},
      {"rm", "-r", "/a", "/b"},
      {"ls", "-lR"},
      {"stripe", "show", "18446744073709551615"},
      {"repair", "run", "--chunk", "81:3", "--chunk", "81:4", "--shape", "chain", "--slice", "512KiB"},
      {"repair", "run", "--chunk", "81:3", "81:4", "--dst", "7"},
      {"bench", "degraded-read", "--chunk", "81:3", "--shape", "local", "--offset", "1m", "--runs", "3"},
      {"fsck", "--list-missing"},
      {"fsck", "/a", "--deep", "--rate", "64KiB", "--json"}};
  for (const auto& words : right) {
    SCOPED_TRACE(testing::PrintToString(words));
    const Outcome outcome = kintsugi(words);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.error.find(kMetaVariable), std::string::npos) << outcome.error;
  }
}

TEST(JsonDocument, KeepsTheOrderOfKeysAndEscapesStrings) {
  Json document{{"z", 1}, {"a", -2.5}, {"list", Json::array()}, {"none", Json()}};
  document["list"].push_back("line\n\"\xff\"");
  document["list"].push_back({{"large", ~uint64_t{0}}, {"yes", true}});
  document["a"] = 0.0;
  document.append({{"last", std::string("end")}});
  EXPECT_EQ(document.compact(),
            "{\"z\":1,\"a\":0.0,\"list\":[\"line\\n\\\"\xEF\xBF\xBD\\\"\",{\"large\":18446744073709551615,"
            "\"yes\":true}],"
            "\"none\":null,\"last\":\"end\"}");
}

TEST_F(CommandLine, PrintsHelpWithZero) {
  const Outcome outcome = kintsugi({"--help"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* command : {"put", "get", "cat", "ls", "stat", "rm", "mv", "mkdir", "rmdir", "du", "df",
                              "policy", "server", "stripe", "repair", "fsck", "cluster"}) {
    EXPECT_NE(outcome.out.find(command), std::string::npos) << command;
  }
  for (const char* common : {"KINTSUGI_META", "KINTSUGI_SECRET_FILE", "KINTSUGI_MONITOR", "Exit codes"})
    EXPECT_NE(outcome.out.find(common), std::string::npos) << common;
}

TEST_F(CommandLine, ANewClusterGetsAPolicyThatItsServersSufficeFor) {
  const Outcome refused = kintsugi({"cluster", "start", "--dir", directory + "/one", "--chunkservers", "1"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.error.find("use at least 2"), std::string::npos) << refused.error;
}

TEST_F(CommandLine, NamesThatTheClusterGivesAMeaningAreNotMade) {
  ::setenv(kMetaVariable, "127.0.0.1:1", 1);
  const std::string secret = directory + "/secret";
  std::ofstream(secret) << std::string(64, 'a') << "\n";
  fs::permissions(secret, static_cast<fs::perms>(0600));
  ::setenv(kSecretVariable, secret.c_str(), 1);
  for (const char* path : {"/.snapshots", "/a/.trash/"}) {
    const Outcome outcome = kintsugi({"mkdir", path});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.error.find("is reserved for the"), std::string::npos) << outcome.error;
  }
}

TEST_F(CommandLine, SaysWhichVariableIsNotSet) {
  const Outcome outcome = kintsugi({"ls", "/"});
  EXPECT_EQ(outcome.code, 1);
  expect_one_line(outcome);
  EXPECT_NE(outcome.error.find(kMetaVariable), std::string::npos);
  ::setenv(kMetaVariable, "127.0.0.1:1", 1);
  EXPECT_NE(kintsugi({"ls", "/"}).error.find(kSecretVariable), std::string::npos);
}

TEST_F(CommandLine, SaysHowToStartALocalClusterThatIsStopped) {
  LocalClusterOptions options;
  options.chunkservers = 1;
  const auto cluster = LocalCluster::create(directory + "/c", options);
  ASSERT_TRUE(cluster) << cluster.error();
  ::setenv(kMetaVariable, cluster->metaserver_address().c_str(), 1);
  ::setenv(kSecretVariable, cluster->secret_file().c_str(), 1);
  const Outcome outcome = kintsugi({"ls", "/"});
  EXPECT_EQ(outcome.code, 1);
  expect_one_line(outcome);
  EXPECT_NE(outcome.error.find("it is not running: kintsugi cluster start --dir " + directory + "/c\n"),
            std::string::npos)
      << outcome.error;
}

TEST_F(CommandLine, RefusesASecretFileThatOthersMayRead) {
  const std::string secret = directory + "/secret";
  std::ofstream(secret) << std::string(64, 'a') << "\n";
  fs::permissions(secret, static_cast<fs::perms>(0644));
  ::setenv(kMetaVariable, "127.0.0.1:1", 1);
  ::setenv(kSecretVariable, secret.c_str(), 1);
  const Outcome outcome = kintsugi({"ls", "/"});
  EXPECT_EQ(outcome.code, 1);
  expect_one_line(outcome);
}

TEST_F(CommandLine, RefusesARelativeRemotePathBeforeItConnects) {
  const Outcome outcome = kintsugi({"stat", "relative"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.error, "kintsugi: stat: relative: a path in the cluster begins with /\n");
}

TEST_F(CommandLine, KnowsThatThereIsNoClusterInADirectory) {
  for (const char* command : {"stop", "status"}) {
    const Outcome outcome = kintsugi({"cluster", command, "--dir", directory});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.error.find("there is no cluster in " + directory), std::string::npos) << outcome.error;
  }
}

TEST_F(CommandLine, SaysWhatIsWrongWithABrokenClusterDescription) {
  LocalClusterOptions options;
  options.chunkservers = 3;
  ASSERT_TRUE(LocalCluster::create(directory + "/c", options));
  const std::string file = directory + "/c/cluster.json";
  const auto whole = nlohmann::json::parse(*read_file(file));
  auto unnamed = whole, numbered = whole, negative = whole, serverless = whole;
  unnamed.erase("metaserver");
  numbered["metaserver"] = 7;
  negative["racks"] = -1;
  serverless["chunkservers"][1].erase("listen");
  const std::string text = whole.dump(2);
  const std::vector<std::pair<std::string, std::string>> broken{
      {"", "is empty"},
      {text.substr(0, text.size() / 2), "is no JSON (line "},
      {"{\n  \"metaserver\": }\n", "is no JSON (line 2)"},
      {"[]", "holds no JSON object"},
      {unnamed.dump(), "has no \"metaserver\""},
      {numbered.dump(), "has a wrong value for \"metaserver\""},
      {negative.dump(), "has a wrong value for \"racks\""},
      {serverless.dump(), "has no \"listen\""}};
  for (const auto& [contents, says] : broken) {
    SCOPED_TRACE(says);
    std::ofstream(file) << contents;
    const Outcome outcome = kintsugi({"cluster", "status", "--dir", directory + "/c"});
    EXPECT_EQ(outcome.code, 1);
    expect_one_line(outcome);
    EXPECT_NE(outcome.error.find(file + " " + says), std::string::npos) << outcome.error;
    EXPECT_EQ(outcome.error.find("json.exception"), std::string::npos) << outcome.error;
  }
  auto older = whole;
  for (const char* field : {"repair_managers", "directory", "monitor", "monitor_http"})
    older.erase(field);
  std::ofstream(file) << older.dump();
  EXPECT_TRUE(LocalCluster::load(directory + "/c")) << "one of an earlier version";
}

TEST_F(CommandLine, SaysWhatPutDoesWithSymbolicLinks) {
  const Outcome help = kintsugi({"put", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("symbolic link"), std::string::npos) << help.out;
}

TEST_F(CommandLine, RefusesAClusterWithAPolicyThatDoesNotExist) {
  const Outcome outcome = kintsugi({"cluster", "start", "--dir", directory + "/c", "--policy", "rs-0-3-64k"});
  EXPECT_EQ(outcome.code, 1);
  expect_one_line(outcome);
  EXPECT_FALSE(fs::exists(directory + "/c"));
}

TEST_F(CommandLine, LocalClusterIsLoadedAsItWasMadeAndGrows) {
  LocalClusterOptions options;
  options.chunkservers = 3;
  options.racks = 2;
  options.policy = "rs-2-1-64k";
  options.repair_delay_seconds = 0.5;
  options.chunk_bytes = 1 << 20;
  ASSERT_TRUE(LocalCluster::create(directory + "/c", options));
  auto loaded = LocalCluster::load(directory + "/c");
  ASSERT_TRUE(loaded) << loaded.error();
  EXPECT_EQ(loaded->options().policy, "rs-2-1-64k");
  // The monitor's program may not have been built.
  EXPECT_EQ(loaded->daemons().size(), loaded->monitor_http().empty() ? 5u : 6u);
  EXPECT_EQ(loaded->daemons()[4].name, "repair-manager-1");
  const auto before = loaded->chunkserver_addresses();
  ASSERT_EQ(loaded->grow(5), Status{});
  loaded = LocalCluster::load(directory + "/c");
  const auto after = loaded->chunkserver_addresses();
  ASSERT_EQ(after.size(), 5u);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
  EXPECT_EQ(std::set<std::string>(after.begin(), after.end()).size(), 5u);
  const std::string config = *read_file(directory + "/c/etc/metaserver.toml");
  EXPECT_NE(config.find("repair.delay = \"500ms\""), std::string::npos) << config;
  EXPECT_NE(read_file(directory + "/c/env")->find("export KINTSUGI_META='127.0.0.1:"), std::string::npos);
}

TEST_F(CommandLine, LocalClusterSharesTheMachineAmongItsDaemonsAsItGrowsAndShrinks) {
  LocalClusterOptions options;
  options.chunkservers = 3;
  ASSERT_TRUE(LocalCluster::create(directory + "/c", options));
  const auto config = [&](const std::string& daemon) { return directory + "/c/etc/" + daemon + ".toml"; };
  const auto share_of = [&](const std::string& daemon) {
    const std::string text = *read_file(config(daemon)), key = "\ndaemons_on_machine = ";
    const size_t at = text.find(key);
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + key.size());
  };
  EXPECT_EQ(share_of("metaserver"), 4);
  EXPECT_EQ(share_of("chunkserver-3"), 4);
  // Its owner has other plans for one of them.
  std::string changed = *read_file(config("chunkserver-2"));
  changed.replace(changed.find("machine = 4"), 11, "machine = 1");
  ASSERT_EQ(write_file(config("chunkserver-2"), changed), Status{});

  auto cluster = LocalCluster::load(directory + "/c");
  ASSERT_TRUE(cluster) << cluster.error();
  const LocalClusterOptions before = cluster->options();
  ASSERT_EQ(cluster->grow(9), Status{});
  for (const char* daemon :
       {"metaserver", "chunkserver-1", "chunkserver-3", "chunkserver-4", "chunkserver-9"})
    EXPECT_EQ(share_of(daemon), 10) << daemon;
  EXPECT_EQ(share_of("chunkserver-2"), 1);
  ASSERT_EQ(cluster->shrink(before, std::chrono::milliseconds(100)), Status{});
  EXPECT_EQ(share_of("metaserver"), 4);
  EXPECT_EQ(share_of("chunkserver-3"), 4);
}

TEST_F(CommandLine, APidFileOfAnotherProcessDoesNotCountAsTheDaemon) {
  LocalDaemon daemon{.name = "x", .pid_file = directory + "/x.pid"};
  EXPECT_EQ(daemon.pid(), 0);
  // This very process, but started at another time.
  ASSERT_EQ(write_file(daemon.pid_file, fmt::format("{} 1\n", ::getpid())), Status{});
  EXPECT_EQ(daemon.pid(), 0);
  EXPECT_EQ(daemon.stop(std::chrono::milliseconds(100)), Status{});
  EXPECT_FALSE(fs::exists(daemon.pid_file));
}

TEST_F(CommandLine, OnlyOneStartOrStopOfAClusterRunsAtATime) {
  {
    auto lock = DirectoryLock::take(directory);
    ASSERT_TRUE(lock) << lock.error();
    const Outcome outcome = kintsugi({"cluster", "start", "--dir", directory});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.error.find("another start or stop"), std::string::npos) << outcome.error;
    EXPECT_FALSE(fs::exists(directory + "/cluster.json"));
  }
  EXPECT_TRUE(DirectoryLock::take(directory));
}

}  // namespace
}  // namespace kintsugi::cli
