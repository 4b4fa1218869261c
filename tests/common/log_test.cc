#include "common/log/log.h"

#include <cstdio>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace kintsugi::log {
namespace {

struct LogTest : ::testing::Test {
  std::vector<std::pair<Level, std::string>> lines;

  void SetUp() override {
    set_sink([this](Level level, std::string_view line) { lines.emplace_back(level, line); });
  }
  void TearDown() override {
    set_sink({});
    set_level(Level::kInfo);
  }
};

TEST_F(LogTest, GivesFormattedLinesToTheSink) {
  info("chunk {}:{} moved", 81, 3);
  error("{}", "bad");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], std::make_pair(Level::kInfo, std::string("chunk 81:3 moved")));
  EXPECT_EQ(lines[1].first, Level::kError);
}

TEST_F(LogTest, DropsWhatIsBelowTheLevel) {
  debug("not by default");
  EXPECT_TRUE(lines.empty());
  set_level(Level::kWarning);
  info("no");
  warning("yes");
  EXPECT_EQ(lines.size(), 1u);
  set_level(Level::kDebug);
  debug("now");
  EXPECT_EQ(lines.size(), 2u);
}

TEST(Log, AppendsToItsFileAndSurvivesOneThatCannotBeOpened) {
  std::string path = ::testing::TempDir() + "kintsugi_log_test_" + std::to_string(getpid()) + ".log";
  std::remove(path.c_str());
  set_file(path);
  info("first line");
  set_file("/proc/no-such-directory/kintsugi.log");
  warning("second line");
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("first line"), std::string::npos);
  EXPECT_NE(text.str().find("second line"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("warning"), std::string::npos);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace kintsugi::log
