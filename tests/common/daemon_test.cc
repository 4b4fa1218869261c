#include "common/daemon/daemon.h"

#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/daemon/disk_paths.h"
#include "common/daemon/private_directory.h"
#include "common/log/log.h"
#include "common/rpc/server.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/recorder.h"
#include "tests/expect_ok.h"

namespace kintsugi::daemon {
namespace {

class Recorded final : public Daemon {
 public:
  Recorded(Shell& shell, Status outcome, std::function<void()> on_start)
      : outcome_(outcome), on_start_(std::move(on_start)), server_(shell.runtime, shell.secret, nullptr) {}
  asio::awaitable<Status> start() override {
    on_start_();
    co_return outcome_;
  }
  asio::awaitable<void> stop() override {
    log::info("the daemon stops");
    co_await server_.stop();
  }
  rpc::Server& rpc_server() override { return server_; }

 private:
  Status outcome_;
  std::function<void()> on_start_;
  rpc::Server server_;
};

/// Each test runs a daemon in a process of its own, since a daemon's shell takes signals and the log.
class DaemonDeathTest : public ::testing::Test {
 protected:
  DaemonDeathTest() {
    std::filesystem::create_directories(directory_);
    std::filesystem::remove(directory_ + "/secret");
    EXPECT_TRUE(rpc::Secret::create(directory_ + "/secret"));
  }
  ~DaemonDeathTest() override { std::filesystem::remove_all(directory_); }

  /// `start` runs inside the daemon's start(), which then returns `outcome`.
  [[noreturn]] void run_and_exit(Status outcome, std::function<void(Shell&)> start,
                                 const char* option = "--activity-log") {
    const std::string secret = directory_ + "/secret", log = this->log();
    const char* argv[] = {"tester", "--secret-file", secret.c_str(), "--log-file", log.c_str(), option};
    Settings settings("tester", "Tests daemons.");
    settings.log_activities({"tester.work"});
    std::exit(run(6, argv, settings, [&](Shell& shell) -> Result<std::unique_ptr<Daemon>> {
      return std::make_unique<Recorded>(shell, outcome, [&shell, start] { start(shell); });
    }));
  }

  std::string log() const { return directory_ + "/log"; }
  std::string logged() const {
    std::stringstream text;
    text << std::ifstream(log()).rdbuf();
    return text.str();
  }

  const std::string directory_ = ::testing::TempDir() + "kintsugi-daemon-" + std::to_string(::getpid());
};

TEST_F(DaemonDeathTest, ServesUntilASignalAndEndsWell) {
  const auto signal = [](Shell& shell) {
    // The signal comes after start() has returned: until then it would end the process at once.
    asio::post(shell.runtime.executor, [] { ::raise(SIGTERM); });
  };
  EXPECT_EXIT(run_and_exit({}, signal), ::testing::ExitedWithCode(0), "");
  const std::string text = logged();
  EXPECT_NE(text.find("tester starts with"), std::string::npos) << text;
  EXPECT_NE(text.find("stopping: signal 15"), std::string::npos) << text;
  EXPECT_LT(text.find("the daemon stops"), text.find("stopped")) << text;
}

TEST_F(DaemonDeathTest, TellsBesideItsLogWhatBeginsAndEndsUnlessItIsToldNotTo) {
  const auto work = [](Shell& shell) {
    static constexpr runtime::Site kWork{"tester.work"};
    sight::Recorder recorder(shell.runtime.clock, 1);
    {
      const sight::Task task{recorder.root_context(), kWork};
    }
    asio::post(shell.runtime.executor, [] { ::raise(SIGTERM); });
  };
  const std::string activity = directory_ + "/log.activity";
  EXPECT_EXIT(run_and_exit({}, work, "--no-activity-log"), ::testing::ExitedWithCode(0), "");
  EXPECT_FALSE(std::filesystem::exists(activity));
  EXPECT_EXIT(run_and_exit({}, work), ::testing::ExitedWithCode(0), "");
  std::stringstream text;
  text << std::ifstream(activity).rdbuf();
  EXPECT_NE(text.str().find(" activity begin pid="), std::string::npos) << text.str();
  EXPECT_NE(text.str().find(" activity start tester.work "), std::string::npos) << text.str();
  EXPECT_NE(text.str().find(" activity stop tester.work "), std::string::npos) << text.str();
}

TEST_F(DaemonDeathTest, TellsOfATurnOfItsLoopThatHoldsEverybodyUp) {
  const auto hold_up = [](Shell& shell) {
    const std::clock_t begin = std::clock();
    while (std::clock() - begin < CLOCKS_PER_SEC / 4) {
    }
    const auto check = [&shell] {
      const std::string text = shell.metrics.text();
      for (const char* line :
           {"kintsugi_loop_turn_seconds_bucket{le=\"0.02\"}", "kintsugi_loop_turn_seconds_sum",
            "kintsugi_loop_long_turns_total{ran=\"unnamed\"} 1",
            "kintsugi_loop_longest_turn_seconds{ran=\"unnamed\"} 0.2"})
        if (text.find(line) == std::string::npos) log::info("missing: {} in {}", line, text);
      ::raise(SIGTERM);
    };
    // The turn has ended, and the signal is waited for, once a handler that comes after it runs.
    asio::post(shell.runtime.executor, [&shell, check] { asio::post(shell.runtime.executor, check); });
  };
  EXPECT_EXIT(run_and_exit({}, hold_up), ::testing::ExitedWithCode(0), "");
  const std::string text = logged();
  EXPECT_EQ(text.find("missing"), std::string::npos) << text;
  EXPECT_NE(text.find("the event loop ran unnamed for 2"), std::string::npos) << text;
}

TEST_F(DaemonDeathTest, EndsWithTheStatusThatAPartOfItAsksFor) {
  const auto end_twice = [](Shell& shell) {
    shell.ending.end({Code::kNotFound, "server 7 was removed"}, 3);
    shell.ending.end({Code::kInternal, "late"}, 4);
  };
  EXPECT_EXIT(run_and_exit({}, end_twice), ::testing::ExitedWithCode(3),
              "tester: not found: server 7 was removed");
  const std::string text = logged();
  EXPECT_NE(text.find("the daemon stops"), std::string::npos) << text;
  EXPECT_EQ(text.find("was removed"), text.rfind("was removed")) << text;
}

TEST_F(DaemonDeathTest, StopsADaemonThatDidNotStart) {
  EXPECT_EXIT(run_and_exit({Code::kIoError, "no disk"}, [](Shell&) {}),
              ::testing::ExitedWithCode(kExitFailed), "tester: .*no disk");
  EXPECT_NE(logged().find("the daemon stops"), std::string::npos);
}

TEST_F(DaemonDeathTest, DoesNotStartWithoutItsSecret) {
  std::filesystem::remove(directory_ + "/secret");
  EXPECT_EXIT(run_and_exit({}, [](Shell&) { std::abort(); }), ::testing::ExitedWithCode(kExitFailed),
              "secret");
}

TEST_F(DaemonDeathTest, WritesWhatOnlyItsUserReads) {
  const auto write = [this](Shell& shell) {
    std::ofstream(directory_ + "/made") << "private";
    std::filesystem::create_directory(directory_ + "/made-directory");
    asio::post(shell.runtime.executor, [] { ::raise(SIGTERM); });
  };
  EXPECT_EXIT(run_and_exit({}, write), ::testing::ExitedWithCode(0), "");
  using std::filesystem::perms;
  const auto mode = [this](const char* name) {
    return std::filesystem::status(directory_ + name).permissions();
  };
  EXPECT_EQ(mode("/made"), perms::owner_read | perms::owner_write);
  EXPECT_EQ(mode("/made-directory"), perms::owner_all);
  EXPECT_EQ(mode("/log"), perms::owner_read | perms::owner_write);
}

TEST_F(DaemonDeathTest, OpensItsLogAgainAfterAHangup) {
  const auto hang_up = [this](Shell& shell) {
    log::info("before the move");
    log::flush(1s);
    std::filesystem::rename(log(), directory_ + "/moved");
    ::raise(SIGHUP);
    asio::post(shell.runtime.executor, [] { ::raise(SIGTERM); });
  };
  EXPECT_EXIT(run_and_exit({}, hang_up), ::testing::ExitedWithCode(0), "");
  const std::string text = logged();
  EXPECT_NE(text.find("is opened again"), std::string::npos) << text;
  EXPECT_EQ(text.find("before the move"), std::string::npos) << text;
}

TEST_F(DaemonDeathTest, ReadsItsSettingsAgainAfterAHangupAndSaysWhatNeedsARestart) {
  const std::string file = directory_ + "/settings.toml", option = "--config=" + file;
  std::ofstream(file) << "";
  const auto hang_up = [&](Shell& shell) {
    std::ofstream(file) << "tls.require = false\n";
    ::raise(SIGHUP);
    asio::post(shell.runtime.executor, [] { ::raise(SIGTERM); });
  };
  EXPECT_EXIT(run_and_exit({}, hang_up, option.c_str()), ::testing::ExitedWithCode(0), "");
  EXPECT_NE(logged().find("changed by a restart only: tls.require = false"), std::string::npos) << logged();
}

TEST(PrivateDirectory, IsClosedAndMissingOnesAreNotMade) {
  const std::string directory = ::testing::TempDir() + "kintsugi-private-" + std::to_string(::getpid());
  keep_private(directory);
  EXPECT_FALSE(std::filesystem::exists(directory));
  std::filesystem::create_directory(directory);
  std::filesystem::permissions(directory, std::filesystem::perms(0755));
  keep_private(directory);
  EXPECT_EQ(std::filesystem::status(directory).permissions(), std::filesystem::perms(0700));
  std::filesystem::remove(directory);
}

std::vector<std::string> missing_of(const std::vector<DiskPath>& disks) {
  const auto missing = find_missing_disks(disks);
  std::vector<std::string> paths;
  if (!missing) return {"refused: " + missing.error().message()};
  for (const MissingDisk& disk : *missing)
    paths.push_back(disk.path);
  return paths;
}

TEST(DiskPaths, ThatAreMissingAreFailedDisksOfAServerThatHasOthers) {
  const DiskPath used{.path = "/d1", .exists = true, .mounted = true, .used = true};
  const DiskPath unmounted{.path = "/d3", .exists = true, .empty = true};
  const DiskPath missing{.path = "/nope"};
  const DiskPath fresh{.path = "/d2", .exists = true, .empty = true, .mounted = true};
  using Paths = std::vector<std::string>;
  EXPECT_EQ(missing_of({used, missing}), Paths{"/nope"});
  EXPECT_EQ(missing_of({used, unmounted, fresh}), Paths{"/d3"});
  EXPECT_EQ(missing_of({used, fresh}), Paths{}) << "an empty disk that is mounted is a new one";
  EXPECT_NE(find_missing_disks({used, missing})->at(0).why.find("restart"), std::string::npos);
}

TEST(DiskPaths, ThatAreMissingOrNotMountedAreRefused) {
  const DiskPath full{.path = "/d1", .exists = true, .mounted = true};
  const DiskPath fresh{.path = "/d2", .exists = true, .empty = true, .mounted = true};
  const DiskPath unmounted{.path = "/d3", .exists = true, .empty = true};
  const DiskPath plain{.path = "/d4", .exists = true};
  const DiskPath missing{.path = "/nope"};
  EXPECT_TRUE(find_missing_disks({full, fresh}));
  // Nobody knows of a disk that should be there: directories of one file system, or the only one.
  EXPECT_TRUE(find_missing_disks({unmounted}));
  EXPECT_TRUE(find_missing_disks({plain, unmounted}));
  EXPECT_TRUE(find_missing_disks({unmounted, unmounted}));
  EXPECT_TRUE(find_missing_disks({full, plain}));
  for (const std::vector<DiskPath>& wrong : {std::vector{full, missing}, {missing}, {full, unmounted, fresh}})
    EXPECT_EQ(find_missing_disks(wrong).error().code(), Code::kNotFound);
  EXPECT_NE(find_missing_disks({full, missing}).error().message().find("/nope"), std::string::npos);
  EXPECT_NE(find_missing_disks({full, unmounted}).error().message().find("/d3"), std::string::npos);
}

TEST(DiskPaths, OneThatHangsHoldsUpNoOtherOneAndIsNoReasonToRefuse) {
  static std::promise<void> answered;
  const auto look = [](const std::string& path, const std::string&) {
    if (path == "/hangs") answered.get_future().wait();
    return DiskPath{.path = path, .exists = true, .mounted = true};
  };
  const std::vector<DiskPath> found =
      look_at({"/d1", "/hangs", "/d2"}, "file", std::chrono::milliseconds(200), look);
  answered.set_value();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_TRUE(found[0].answers && found[0].mounted);
  EXPECT_FALSE(found[1].answers);
  EXPECT_EQ(found[1].path, "/hangs");
  EXPECT_TRUE(found[2].answers && found[2].mounted);
  const auto missing = find_missing_disks(found);
  ASSERT_TRUE(missing) << missing.error();
  EXPECT_TRUE(missing->empty());
  const DiskPath unmounted{.path = "/d3", .exists = true, .empty = true};
  EXPECT_FALSE(find_missing_disks({found[0], found[1], unmounted}));
}

TEST(DiskPaths, AreLookedAtAsTheyAre) {
  const std::string directory = ::testing::TempDir() + "kintsugi-paths-" + std::to_string(::getpid());
  EXPECT_FALSE(look_at(directory, "file").exists);
  std::filesystem::create_directory(directory);
  EXPECT_TRUE(look_at(directory, "file").exists && look_at(directory, "file").empty &&
              !look_at(directory, "file").mounted);
  std::ofstream(directory + "/file") << "x";
  EXPECT_FALSE(look_at(directory, "file").empty);
  EXPECT_TRUE(look_at(directory, "file").used);
  EXPECT_FALSE(look_at(directory, "server_id").used);
  EXPECT_FALSE(look_at(directory + "/file", "file").exists);
  EXPECT_TRUE(look_at("/proc", "file").mounted);
  std::filesystem::remove_all(directory);
}

TEST(Daemon, MustBeToldByWhichAddressOthersReachItWhenItListensAtAll) {
  KINTSUGI_EXPECT_OK(check_advertised({"10.0.0.1", 80}, ""));
  KINTSUGI_EXPECT_OK(check_advertised({"0.0.0.0", 80}, "here"));
  EXPECT_EQ(check_advertised({"0.0.0.0", 80}, "").code(), Code::kInvalidArgument);
  EXPECT_EQ(check_advertised({"::", 80}, "").code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kintsugi::daemon
