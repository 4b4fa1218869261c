#include "common/log/log.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/last_words.h"
#include "common/log/silence.h"

namespace kintsugi::log {
namespace {

using namespace std::chrono_literals;

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

TEST_F(LogTest, AThreadThatSimulatesLogsErrorsOnlyAndOthersGoOn) {
  {
    const Silence silence;
    warning("no");
    error("yes");
    std::thread([] { info("another thread"); }).join();
  }
  info("again");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].second, "yes");
  EXPECT_EQ(lines[1].second, "another thread");
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

std::string contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Log, GoesOnInANewFileWhenTheOldOneWasMovedAway) {
  for (const Writing writing : {Writing::kAtOnce, Writing::kInBackground}) {
    const std::string path = ::testing::TempDir() + "kintsugi_log_moved_" + std::to_string(getpid()) + ".log";
    set_file(path, writing);
    info("before");
    flush(10s);
    ASSERT_EQ(std::rename(path.c_str(), (path + ".1").c_str()), 0);
    info("moved");
    reopen_file();
    info("after");
    flush(10s);
    EXPECT_NE(contents(path + ".1").find("before"), std::string::npos);
    EXPECT_NE(contents(path).find("after"), std::string::npos);
    EXPECT_EQ(contents(path).find("before"), std::string::npos);
    set_file("/dev/null");
    std::remove(path.c_str());
    std::remove((path + ".1").c_str());
  }
}

// A pipe that nobody reads takes 64 KiB and then holds up its writers, as a file on a disk that hangs does.
TEST(Log, DropsAndCountsLinesInsteadOfWaitingForADiskThatHangs) {
  const std::string path = ::testing::TempDir() + "kintsugi_log_hung_" + std::to_string(getpid()) + ".log";
  std::remove(path.c_str());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDWR | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  const uint64_t dropped_before = dropped_lines();
  set_file(path, Writing::kInBackground);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20'000; ++i)
    info("line {} of a daemon whose log hangs", i);
  flush(100ms);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s * KINTSUGI_TIME_FACTOR);
  EXPECT_GT(dropped_lines(), dropped_before);

  // The disk comes back: the newest lines are there, and the log says what is missing.
  std::string text;
  char buffer[65536];
  while (text.find("line 19999 ") == std::string::npos) {
    const ssize_t got = ::read(reader, buffer, sizeof buffer);
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    ASSERT_LT(std::chrono::steady_clock::now() - start, 60s * KINTSUGI_TIME_FACTOR) << text.size();
  }
  EXPECT_NE(text.find("lines of this log are missing here"), std::string::npos);
  flush(10s);
  set_file("/dev/null");
  ::close(reader);
  std::remove(path.c_str());
}

TEST(LogDeathTest, HasItsLastLinesBeforeTheLastWords) {
  const std::string path = ::testing::TempDir() + "kintsugi_log_death_" + std::to_string(getpid()) + ".log";
  const auto die = [&] {
    install_last_words("tester");
    set_file(path, Writing::kInBackground);
    for (int i = 0; i < 200; ++i)
      info("line {}.", i);
    std::abort();
  };
  EXPECT_EXIT(die(), ::testing::KilledBySignal(SIGABRT), "SIGABRT");
  const std::string text = contents(path);
  EXPECT_NE(text.find("line 199."), std::string::npos) << text;
  EXPECT_LT(text.find("line 199."), text.find("SIGABRT")) << text;
  std::remove(path.c_str());
}

}  // namespace
}  // namespace kintsugi::log
