#include "common/runtime/activity_log.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/runtime/production/activity_file.h"

namespace kintsugi::runtime {
namespace {

namespace fs = std::filesystem;

constexpr Site kRead{"chunkserver.read_chunk"}, kWrite{"chunkserver.write_chunk"},
    kOther{"chunkserver.append"};
constexpr std::array<std::string_view, 2> kNames{kRead.name, kWrite.name};

class HandClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(wall.time_since_epoch()); }
  WallTime wall_now() const override { return wall; }
  TimerId call_at(TimePoint, std::function<void()>) override { return TimerId::kNone; }
  bool cancel(TimerId) override { return false; }

  WallTime wall{Duration(1'795'336'597'123'456'789)};
};

size_t lines_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count(text, '\n'));
}

class ActivityLogTest : public ::testing::Test {
 protected:
  HandClock clock;
  ActivityLog log{clock, "pid=412 program=tester", kNames};
};

TEST_F(ActivityLogTest, TellsWhatBeginsAndEnds) {
  EXPECT_EQ(log.take(), "2026-11-22T08:36:37.123456+0000 activity begin pid=412 program=tester\n");
  log.start(kRead, 0x7f3a12);
  clock.wall += 1'000'001us;
  log.stop(kRead, 0x7f3a12, Code::kOk);
  log.start(kWrite, 1);
  log.stop(kWrite, 1, Code::kNoSpace);
  EXPECT_EQ(log.take(),
            "2026-11-22T08:36:37.123456+0000 activity start chunkserver.read_chunk 7f3a12\n"
            "2026-11-22T08:36:38.123457+0000 activity stop chunkserver.read_chunk 7f3a12 ok\n"
            "2026-11-22T08:36:38.123457+0000 activity start chunkserver.write_chunk 1\n"
            "2026-11-22T08:36:38.123457+0000 activity stop chunkserver.write_chunk 1 no space\n");
  EXPECT_EQ(log.take(), "");
}

TEST_F(ActivityLogTest, WantsTheSitesThatItWasGiven) {
  EXPECT_TRUE(log.wants(kRead));
  EXPECT_TRUE(log.wants(kWrite));
  EXPECT_FALSE(log.wants(kOther));
  std::vector<std::string> names;
  for (size_t i = 0; i < ActivityLog::kMostSites; ++i)
    names.push_back("site." + std::to_string(i));
  const std::vector<std::string_view> views(names.begin(), names.end());
  ActivityLog full(clock, "", views);
  for (const std::string& name : names)
    EXPECT_TRUE(full.wants(Site{name}));
  EXPECT_FALSE(full.wants(kRead));
}

TEST_F(ActivityLogTest, AboveTheLinesOfASecondWholeExecutionsAreDroppedAndCounted) {
  log.take();
  for (uint64_t span = 1; span <= 1500; ++span)
    log.start(kRead, span);
  for (uint64_t span = 1; span <= 1500; ++span)
    log.stop(kRead, span, Code::kOk);
  EXPECT_EQ(lines_of(log.take()), ActivityLog::kMostLinesPerSecond)
      << "a start and a stop of 1000 executions";
  clock.wall += 1s;
  log.start(kRead, 2000);
  const std::string next = log.take();
  EXPECT_EQ(lines_of(next), 2u);
  EXPECT_TRUE(next.starts_with("2026-11-22T08:36:38.123456+0000 activity dropped 500\n")) << next;
}

TEST_F(ActivityLogTest, ASecondThatBeginsWithAnEndHasRoomForAllItsLines) {
  for (uint64_t span = 1; span <= 1001; ++span)
    log.start(kRead, span);
  log.take();
  clock.wall += 1s;
  log.stop(kRead, 1, Code::kOk);
  log.start(kRead, 2000);
  EXPECT_EQ(log.take(),
            "2026-11-22T08:36:38.123456+0000 activity dropped 1\n"
            "2026-11-22T08:36:38.123456+0000 activity stop chunkserver.read_chunk 1 ok\n"
            "2026-11-22T08:36:38.123456+0000 activity start chunkserver.read_chunk 7d0\n");
}

TEST_F(ActivityLogTest, WhatWasDroppedIsToldAlsoWhenNothingFollows) {
  for (uint64_t span = 1; span <= 1001; ++span)
    log.start(kRead, span);
  log.take();
  clock.wall += 1s;
  EXPECT_EQ(log.take(), "2026-11-22T08:36:38.123456+0000 activity dropped 1\n");
}

TEST_F(ActivityLogTest, NobodyWhoTakesTheLinesLetsThemGrowOnlyToTheLimit) {
  for (uint64_t span = 1; span <= 100'000; ++span) {
    if (span % 900 == 0) clock.wall += 1s;
    log.start(kRead, span);
  }
  for (uint64_t span = 1; span <= 100'000; ++span)
    log.stop(kRead, span, Code::kOk);
  // Stops of executions that are open have room of their own.
  EXPECT_LE(log.take().size(), 3 * ActivityLog::kMostBytes);
}

TEST_F(ActivityLogTest, AfterALossTheReaderBeginsAnew) {
  log.start(kRead, 1);
  log.take();
  log.lost();
  log.stop(kRead, 1, Code::kOk);
  EXPECT_EQ(log.take(), "2026-11-22T08:36:37.123456+0000 activity begin pid=412 program=tester\n");
}

class ActivityFileTest : public ActivityLogTest {
 protected:
  ActivityFileTest() {
    std::string name = (fs::temp_directory_path() / "activity_test.XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~ActivityFileTest() override { fs::remove_all(folder_); }

  static std::string read(const fs::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  fs::path folder_;
};

TEST_F(ActivityFileTest, HasWhatWasLoggedBeforeItsEnd) {
  const std::string path = activity_path((folder_ / "chunkserver-1.log").string());
  EXPECT_EQ(path, (folder_ / "chunkserver-1.activity.log").string());
  for (int time = 0; time < 2; ++time) {
    ActivityFile file(path, log);
    log.start(kRead, 1);
    log.stop(kRead, 1, Code::kOk);
  }
  EXPECT_EQ(lines_of(read(path)), 5u) << "it is appended to";
}

TEST_F(ActivityFileTest, IsRotated) {
  const std::string path = (folder_ / "d.activity.log").string();
  std::ofstream(path) << "old";
  std::ofstream(folder_ / "d.activity.1.log") << "older";
  fs::resize_file(path, ActivityFile::kMostBytes - 10);
  {
    ActivityFile file(path, log);
  }
  EXPECT_EQ(lines_of(read(path)), 1u);
  EXPECT_EQ(fs::file_size(folder_ / "d.activity.1.log"), ActivityFile::kMostBytes - 10);
  EXPECT_EQ(read(folder_ / "d.activity.2.log"), "older");
}

TEST_F(ActivityFileTest, ALineThatWasTornDoesNotSwallowTheNextOne) {
  const std::string path = (folder_ / "d.activity.log").string();
  std::ofstream(path) << "2026-11-22T08:36:37.123456+0000 activity start chunkserver.re";
  {
    ActivityFile file(path, log);
  }
  EXPECT_EQ(read(path),
            "2026-11-22T08:36:37.123456+0000 activity start chunkserver.re\n"
            "2026-11-22T08:36:37.123456+0000 activity begin pid=412 program=tester\n");
}

TEST_F(ActivityFileTest, ADiskThatHangsDoesNotHoldUpTheEnd) {
  // Whoever opens a pipe waits for the other end.
  const std::string path = (folder_ / "d.activity.log").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_EQ(::fcntl(reader, F_SETPIPE_SZ, 4096), 4096);
  for (uint64_t span = 1; span <= 900; ++span)
    log.start(kRead, span);
  const auto began = std::chrono::steady_clock::now();
  {
    ActivityFile file(path, log);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
  ::close(reader);
}

TEST_F(ActivityFileTest, AFolderThatIsNotThereIsNoMatterOfTheDaemons) {
  const std::string path = (folder_ / "away" / "d.activity.log").string();
  {
    ActivityFile file(path, log);
  }
  EXPECT_FALSE(fs::exists(path));
  fs::create_directory(folder_ / "away");
  {
    ActivityFile file(path, log);
  }
  EXPECT_EQ(lines_of(read(path)), 1u) << "the log begins anew after what was lost";
}

}  // namespace
}  // namespace kintsugi::runtime
