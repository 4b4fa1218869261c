#include "common/config/config.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/expect_ok.h"

namespace kintsugi::config {
namespace {

struct Options {
  std::string name = "default";
  bool verify = true;
  uint64_t slots = 4;
  uint16_t port = 7000;
  double share = 0.5;
  Duration heartbeat_interval = 1s;
  Duration repair_delay = 15min;
  uint64_t cache_bytes = 64 << 20;
  std::vector<std::string> data_dirs = {"/data"};
  runtime::Endpoint listen{"127.0.0.1", 7000};
  std::optional<runtime::Endpoint> http_listen;
};

class SettingsTest : public ::testing::Test {
 protected:
  SettingsTest() {
    settings_.add("name", &options_.name, "what it is called");
    settings_.add("verify", &options_.verify, "check every read");
    settings_.add("slots", &options_.slots, "repairs at a time", uint64_t{1}, uint64_t{64});
    settings_.add("port", &options_.port, "where to listen");
    settings_.add("share", &options_.share, "of the link", 0.0, 1.0);
    settings_.add("heartbeat_interval", &options_.heartbeat_interval, "between heartbeats", 10ms, 1min);
    settings_.add("repair.delay", &options_.repair_delay, "before a repair");
    settings_.add_bytes("repair.cache", &options_.cache_bytes, "memory for slices", 1 << 20, 1 << 30);
    settings_.add("data_dirs", &options_.data_dirs, "where chunks are");
    settings_.add("listen", &options_.listen, "for RPCs");
    settings_.add("http_listen", &options_.http_listen, "for pages");
  }

  std::string error_of(std::string_view toml) { return settings_.load_text(toml, "k.toml").message(); }

  Status parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "kintsugi-test");
    return settings_.parse(static_cast<int>(arguments.size()), arguments.data());
  }

  Options options_;
  Settings settings_{"kintsugi-test", "Tests settings."};
};

TEST_F(SettingsTest, KeepsItsDefaultsWhenNothingIsGiven) {
  KINTSUGI_EXPECT_OK(parse({}));
  EXPECT_EQ(options_.name, "default");
  EXPECT_EQ(options_.heartbeat_interval, 1s);
  EXPECT_EQ(options_.data_dirs, std::vector<std::string>{"/data"});
}

TEST_F(SettingsTest, ReadsEveryTypeFromAFile) {
  ASSERT_EQ(
      error_of("name = 'x'\nverify = false\nslots = 64\nport = 1\nshare = 1\nheartbeat_interval = '500ms'\n"
               "data_dirs = ['/a', '/b c']\n[repair]\ndelay = '2h'\ncache = '2 MiB'\n"),
      "");
  EXPECT_EQ(options_.name, "x");
  EXPECT_FALSE(options_.verify);
  EXPECT_EQ(options_.slots, 64u);
  EXPECT_EQ(options_.port, 1u);
  EXPECT_EQ(options_.share, 1.0);
  EXPECT_EQ(options_.heartbeat_interval, 500ms);
  EXPECT_EQ(options_.repair_delay, 2h);
  EXPECT_EQ(options_.cache_bytes, 2u << 20);
  EXPECT_EQ(options_.data_dirs, (std::vector<std::string>{"/a", "/b c"}));
  EXPECT_EQ(error_of("repair.cache = 2097152"), "");
}

TEST_F(SettingsTest, ReadsEveryTypeFromFlags) {
  KINTSUGI_ASSERT_OK(parse({"--name", "x y", "--no-verify", "--slots=7", "--port", "65535", "--share", "0.25",
                            "--heartbeat-interval", "1.5s", "--repair-delay", "0", "--repair-cache", "1GiB",
                            "--data-dirs", "/a", "--data-dirs", "/b"}));
  EXPECT_EQ(options_.name, "x y");
  EXPECT_FALSE(options_.verify);
  EXPECT_EQ(options_.slots, 7u);
  EXPECT_EQ(options_.port, 65535u);
  EXPECT_EQ(options_.share, 0.25);
  EXPECT_EQ(options_.heartbeat_interval, 1500ms);
  EXPECT_EQ(options_.repair_delay, 0s);
  EXPECT_EQ(options_.cache_bytes, 1u << 30);
  EXPECT_EQ(options_.data_dirs, (std::vector<std::string>{"/a", "/b"}));
  KINTSUGI_EXPECT_OK(parse({"--data-dirs", "/a,/b c", "--data-dirs=/d"}));
  EXPECT_EQ(options_.data_dirs, (std::vector<std::string>{"/a", "/b c", "/d"}));
  KINTSUGI_EXPECT_OK(settings_.load_text("data_dirs = ['/a,b']", "k.toml"));
  EXPECT_EQ(options_.data_dirs, (std::vector<std::string>{"/a,b"})) << "in a file a comma is part of a path";
  KINTSUGI_EXPECT_OK(parse({"--verify"}));
  EXPECT_TRUE(options_.verify);
  KINTSUGI_EXPECT_OK(parse({"--verify=false"}));
  EXPECT_FALSE(options_.verify);
}

TEST_F(SettingsTest, ReadsEndpointsOfWhichSomeMayBeEmpty) {
  EXPECT_EQ(error_of("listen = '[::1]:80'\nhttp_listen = 'here:0'\n"), "");
  EXPECT_EQ(options_.listen, (runtime::Endpoint{"::1", 80}));
  EXPECT_EQ(options_.http_listen, (runtime::Endpoint{"here", 0}));
  KINTSUGI_EXPECT_OK(parse({"--http-listen", ""}));
  EXPECT_FALSE(options_.http_listen);
  EXPECT_EQ(error_of("listen = ''"), "k.toml:1: listen: endpoint \"\": missing port");
  EXPECT_EQ(error_of("\nhttp_listen = 'here'"), "k.toml:2: http_listen: endpoint \"here\": missing port");
  EXPECT_NE(settings_.effective().find("listen = \"[::1]:80\"\nhttp_listen = \"\"\n"), std::string::npos);
}

TEST_F(SettingsTest, NamesFileAndLineOfAnUnknownKeyAndTheOneThatWasMeant) {
  EXPECT_EQ(error_of("name = 'x'\n\nslosts = 4\n"),
            "k.toml:3: unknown key \"slosts\" (did you mean \"slots\"?)");
  EXPECT_EQ(error_of("[repair]\ndealy = '1s'\n"),
            "k.toml:2: unknown key \"repair.dealy\" (did you mean \"repair.delay\"?)");
  EXPECT_EQ(error_of("\n[elsewhere]\nx = 1\n"), "k.toml:2: unknown key \"elsewhere\"");
  EXPECT_EQ(error_of("repair = 3"), "k.toml:1: unknown key \"repair\"");
}

TEST_F(SettingsTest, NamesFileAndLineOfAWrongType) {
  EXPECT_EQ(error_of("\nname = 5"), "k.toml:2: name: expected a string, got a whole number");
  EXPECT_EQ(error_of("verify = 1"), "k.toml:1: verify: expected true or false, got a whole number");
  EXPECT_EQ(error_of("slots = '5'"), "k.toml:1: slots: expected a whole number, got a string");
  EXPECT_EQ(error_of("slots = 5.0"), "k.toml:1: slots: expected a whole number, got a fraction");
  EXPECT_EQ(error_of("share = true"), "k.toml:1: share: expected a number, got a boolean");
  EXPECT_EQ(
      error_of("heartbeat_interval = 5"),
      "k.toml:1: heartbeat_interval: expected a duration such as \"10s\" or \"500ms\", got a whole number");
  EXPECT_EQ(error_of("data_dirs = '/a'"), "k.toml:1: data_dirs: expected an array of strings, got a string");
  EXPECT_EQ(error_of("name = { a = 1 }"), "k.toml:1: name: expected a string, got a table");
  EXPECT_EQ(error_of("slots = 2024-01-01"), "k.toml:1: slots: expected a whole number, got a date or time");
  EXPECT_NE(error_of("data_dirs = ['/a', 1]"), "");
}

TEST_F(SettingsTest, RefusesWhatIsOutOfRange) {
  EXPECT_EQ(error_of("slots = 65"), "k.toml:1: slots: 65 is out of range: 1 to 64");
  EXPECT_EQ(error_of("slots = 0"), "k.toml:1: slots: 0 is out of range: 1 to 64");
  EXPECT_NE(error_of("slots = -1"), "");
  EXPECT_EQ(error_of("port = 65536"), "k.toml:1: port: 65536 is out of range: 0 to 65535");
  EXPECT_EQ(error_of("share = 1.5"), "k.toml:1: share: 1.5 is out of range: 0 to 1");
  EXPECT_NE(error_of("share = nan"), "");
  EXPECT_EQ(error_of("heartbeat_interval = '9ms'"),
            "k.toml:1: heartbeat_interval: 9ms is out of range: 10ms to 1min");
  EXPECT_EQ(error_of("repair.cache = '2GiB'"), "k.toml:1: repair.cache: 2GiB is out of range: 1MiB to 1GiB");
  EXPECT_EQ(options_.slots, 4u);
}

TEST_F(SettingsTest, RefusesATruncatedFileAtEveryCut) {
  std::string whole = "name = 'x'\nslots = 12\n[repair]\ndelay = '2h'";
  ASSERT_EQ(error_of(whole), "");
  for (const char* cut : {"name", "name =", "name = 'x", "name = 'x'\nslo", "name = 'x'\nslots = ", "[rep",
                          "[repair]\ndelay = '2", "data_dirs = ['/a',"}) {
    std::string error = error_of(cut);
    EXPECT_TRUE(error.starts_with("k.toml:")) << cut << " -> " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST_F(SettingsTest, RefusesAKeyThatIsThereTwice) {
  EXPECT_TRUE(error_of("slots = 1\nslots = 2").starts_with("k.toml:2: "));
}

TEST_F(SettingsTest, NamesTheFlagOfABadValue) {
  EXPECT_EQ(parse({"--slots", "65"}).message(), "--slots: 65 is out of range: 1 to 64");
  EXPECT_EQ(parse({"--slots", "5x"}).message(), "--slots: expected a whole number, got \"5x\"");
  EXPECT_EQ(parse({"--repair-delay", "soon"}).message(),
            "--repair-delay: expected a duration such as \"10s\" or \"500ms\", got \"soon\"");
  EXPECT_EQ(parse({"--repair-cache", "5 apples"}).code(), Code::kInvalidArgument);
  EXPECT_FALSE(parse({"--verify=maybe"}).ok());
  for (std::vector<const char*> bad :
       std::vector<std::vector<const char*>>{{"--nonsense"}, {"--slots"}, {"extra"}}) {
    Status status = parse(bad);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find(bad[0]), std::string::npos) << status;
  }
}

TEST_F(SettingsTest, AsksForWhatIsRequired) {
  settings_.require("name");
  EXPECT_EQ(parse({}).message(), "name is not set: give it in the config file (--config FILE) or as --name");
  KINTSUGI_EXPECT_OK(parse({"--name", "x"}));
}

TEST_F(SettingsTest, SizesThatTheProgramFindsAreAutoUnlessTheyAreGiven) {
  std::optional<uint64_t> memory = 7;
  settings_.add_bytes("memory", &memory, "for all", 1 << 20, 1 << 30);
  KINTSUGI_EXPECT_OK(parse({"--memory", "auto"}));
  EXPECT_EQ(memory, std::nullopt);
  EXPECT_NE(settings_.effective().find("memory = \"auto\"\n"), std::string::npos);
  EXPECT_EQ(error_of("memory = \"64MiB\""), "");
  EXPECT_EQ(memory, 64u << 20);
  EXPECT_EQ(parse({"--memory", "2GiB"}).message(), "--memory: 2GiB is out of range: 1MiB to 1GiB");
}

TEST_F(SettingsTest, FlagsOverrideTheFile) {
  char directory[] = "/tmp/kintsugi_config_XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  std::string path = std::string(directory) + "/k.toml";
  std::ofstream(path) << "slots = 5\nport = 99\ndata_dirs = ['/file']\n";
  KINTSUGI_EXPECT_OK(parse({"--port", "100", "--data-dirs", "/flag", "--config", path.c_str()}));
  EXPECT_EQ(options_.slots, 5u);
  EXPECT_EQ(options_.port, 100u);
  EXPECT_EQ(options_.data_dirs, std::vector<std::string>{"/flag"});
  std::string missing = path + "x";
  EXPECT_EQ(parse({"--config", missing.c_str()}).message(), missing + ": No such file or directory");
  EXPECT_FALSE(parse({"--config", directory}).ok());
  std::filesystem::remove_all(directory);
}

TEST_F(SettingsTest, HelpNamesEveryFlagWithItsDefault) {
  KINTSUGI_ASSERT_OK(parse({"--help"}));
  EXPECT_TRUE(settings_.help_wanted());
  std::string help = settings_.help();
  for (const char* part : {"--config", "--heartbeat-interval", "1s", "--repair-cache", "64MiB",
                           "between heartbeats", "Tests settings."}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << " in\n" << help;
  }
}

TEST_F(SettingsTest, DescribesEverySettingWithItsFormRangeAndDefault) {
  settings_.counts_when_made("name");
  settings_.follow("listen", [] {});
  KINTSUGI_ASSERT_OK(parse({"--describe"}));
  EXPECT_TRUE(settings_.description_wanted());
  const std::string described = settings_.describe();
  for (const char* part :
       {"program = \"kintsugi-test\"\ndescription = \"Tests settings.\"\n",
        "key = \"repair.cache\"\nflag = \"--repair-cache\"\nform = \"SIZE\"\nrange = \"1MiB to 1GiB\"\n"
        "default = \"64MiB\"\nrequired = false\nwhen_made = false\nfollowed = false\n"
        "help = \"memory for slices\"\n",
        "form = \"DURATION\"\nrange = \"10ms to 1min\"\ndefault = \"1s\"",
        "form = \"N\"\nrange = \"1 to 64\"\n", "form = \"X\"\nrange = \"at most 1\"\n",
        "key = \"listen\"\nflag = \"--listen\"\nform = \"HOST:PORT\"\nrange = \"\"\n",
        "when_made = false\nfollowed = true\n",
        "when_made = true\nfollowed = false\nhelp = \"what it is called\"\n"})
    EXPECT_NE(described.find(part), std::string::npos) << part << " in\n" << described;
  EXPECT_EQ(settings_.help().find("--describe"), std::string::npos) << "only a script asks for it";
}

TEST_F(SettingsTest, ExitsZeroForHelpAndTwoForErrors) {
  const char* help[] = {"kintsugi-test", "--help"};
  EXPECT_EXIT(settings_.parse_or_exit(2, help), ::testing::ExitedWithCode(0), "");
  const char* wrong[] = {"kintsugi-test", "--slots=x"};
  EXPECT_EXIT(settings_.parse_or_exit(2, wrong), ::testing::ExitedWithCode(2),
              "kintsugi-test: --slots: expected");
}

TEST_F(SettingsTest, WhatIsInEffectReadsBackAsTheSame) {
  KINTSUGI_ASSERT_OK(parse({"--name", "a \"b\" \\c", "--repair-delay", "90s", "--slots", "9"}));
  std::string text = settings_.effective();
  options_ = {};
  ASSERT_EQ(error_of(text), "");
  EXPECT_EQ(options_.name, "a \"b\" \\c");
  EXPECT_EQ(options_.repair_delay, 90s);
  EXPECT_EQ(options_.slots, 9u);
}

TEST_F(SettingsTest, TextsThatTomlMustEscapeReadBackAsTheSame) {
  const std::string text = "two\nlines\x7f\ttab";
  KINTSUGI_ASSERT_OK(parse({"--name", text.c_str(), "--share", "-0.0"}));
  const std::string effective = settings_.effective();
  options_ = {};
  ASSERT_EQ(error_of(effective), "");
  EXPECT_EQ(options_.name, text);
  EXPECT_EQ(settings_.effective(), effective);
}

TEST_F(SettingsTest, AKeyOfThousandsOfPartsIsUnknownAndALargerFileIsNotParsed) {
  std::string deep;
  while (deep.size() < 16'000)
    deep += "a.";
  EXPECT_THAT(error_of(deep + "a = 1"), ::testing::StartsWith("k.toml:1: unknown key \"a\""));
  EXPECT_THAT(error_of("[" + deep + "a]"), ::testing::StartsWith("k.toml:1: unknown key \"a\""));
  EXPECT_EQ(error_of(std::string(16'385, '\n')), "k.toml: larger than 16384 bytes");
}

TEST_F(SettingsTest, ATableWithoutANameIsAnError) {
  EXPECT_EQ(error_of("[.a]"), "k.toml: is not TOML: a table or a key has no name");
  EXPECT_EQ(error_of("slots = 5\n[[.]]"), "k.toml: is not TOML: a table or a key has no name");
}

TEST_F(SettingsTest, AnErrorIsOneLineWhateverItQuotes) {
  EXPECT_EQ(error_of("\"na\\nme\" = 1"), "k.toml:1: unknown key \"na me\" (did you mean \"name\"?)");
}

TEST(Units, ParsesDurations) {
  EXPECT_EQ(*parse_duration("10s"), 10s);
  EXPECT_EQ(*parse_duration("1.5ms"), 1500us);
  EXPECT_EQ(*parse_duration("3 min"), 3min);
  EXPECT_EQ(*parse_duration("2d"), 48h);
  EXPECT_EQ(*parse_duration("0"), 0s);
  for (const char* bad :
       {"", "s", "5", "-1s", "1.2.3s", "1e3s", "10 parsecs", "999999999999999999999s", "1e99s", "300000d"}) {
    EXPECT_FALSE(parse_duration(bad)) << bad;
  }
}

TEST(Units, ParsesSizes) {
  EXPECT_EQ(*parse_bytes("4096"), 4096u);
  EXPECT_EQ(*parse_bytes("64MiB"), 64u << 20);
  EXPECT_EQ(*parse_bytes("64mib"), 64u << 20);
  EXPECT_EQ(*parse_bytes("1.5KiB"), 1536u);
  EXPECT_EQ(*parse_bytes("2GB"), 2'000'000'000u);
  EXPECT_EQ(*parse_bytes("0B"), 0u);
  for (const char* bad :
       {"", "MiB", "-1", "1XiB", "99999999999999999999", "17000000TiB", "1.7e7TiB", ".", "1 2"}) {
    EXPECT_FALSE(parse_bytes(bad)) << bad;
  }
}

TEST(Units, FormatsSoThatItParsesBack) {
  for (Duration d :
       {0ns, 1ns, 999ns, Duration(1500us), Duration(90s), Duration(15min), Duration(48h), Duration::max()}) {
    EXPECT_EQ(*parse_duration(format_duration(d)), d) << format_duration(d);
  }
  EXPECT_EQ(format_duration(Duration::min()), "-9223372036854775808ns");
  for (uint64_t b :
       {uint64_t{0}, uint64_t{1}, uint64_t{1000}, uint64_t{1024}, uint64_t{64} << 20, UINT64_MAX}) {
    EXPECT_EQ(*parse_bytes(format_bytes(b)), b) << format_bytes(b);
  }
}

}  // namespace
}  // namespace kintsugi::config
