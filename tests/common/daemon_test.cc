#include "common/daemon/daemon.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/log/log.h"
#include "tests/expect_ok.h"

namespace kintsugi::daemon {
namespace {

class Recorded final : public Daemon {
 public:
  Recorded(Status outcome, std::function<void()> on_start)
      : outcome_(outcome), on_start_(std::move(on_start)) {}
  asio::awaitable<Status> start() override {
    on_start_();
    co_return outcome_;
  }
  asio::awaitable<void> stop() override {
    log::info("the daemon stops");
    co_return;
  }

 private:
  Status outcome_;
  std::function<void()> on_start_;
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
  [[noreturn]] void run_and_exit(Status outcome, std::function<void(Shell&)> start) {
    const std::string secret = directory_ + "/secret", log = this->log();
    const char* argv[] = {"tester", "--secret-file", secret.c_str(), "--log-file", log.c_str()};
    Settings settings("tester", "Tests daemons.");
    std::exit(run(5, argv, settings, [&](Shell& shell) -> Result<std::unique_ptr<Daemon>> {
      return std::make_unique<Recorded>(outcome, [&shell, start] { start(shell); });
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

TEST(Daemon, MustBeToldByWhichAddressOthersReachItWhenItListensAtAll) {
  KINTSUGI_EXPECT_OK(check_advertised({"10.0.0.1", 80}, ""));
  KINTSUGI_EXPECT_OK(check_advertised({"0.0.0.0", 80}, "here"));
  EXPECT_EQ(check_advertised({"0.0.0.0", 80}, "").code(), Code::kInvalidArgument);
  EXPECT_EQ(check_advertised({"::", 80}, "").code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kintsugi::daemon
