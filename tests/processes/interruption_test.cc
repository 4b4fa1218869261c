// Ctrl-C, and the other ways to tell a command to end.
#include <chrono>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

constexpr int kBySignal = 128;  ///< a shell's exit status of a command that a signal ended, less the signal
constexpr int kPollMilliseconds = 100;
constexpr size_t kPutBytes = size_t{40} << 20;
constexpr std::chrono::milliseconds kAtOnce(1500);  ///< on a machine that does much else
constexpr seconds kPatience(2);                     ///< of the command line with an upload that it gives up
constexpr seconds kFreed(20);  ///< sooner than an upload that nobody gave up is found to be idle

#if __has_feature(thread_sanitizer)
constexpr bool kSignalsAreLate = true;
#else
constexpr bool kSignalsAreLate = false;
#endif

class Interruption : public ProcessCluster {
 protected:
  void SetUp() override {
    ProcessCluster::SetUp();
    // It keeps a signal back until the thread that got it calls something that it knows, and a command's first thread waits in
    // the C++ library.
    if (kSignalsAreLate) GTEST_SKIP() << "the thread sanitizer hands no signal to a command that waits";
  }
  /// A cluster, and a pipe that somebody writes to very slowly.
  void start_with_pipe() {
    start({"--chunkservers", "3", "--policy", "rs-2-1-64k", "--chunk-size", "4MiB"});
    ASSERT_EQ(mkfifo(pipe().c_str(), 0600), 0);
    pipe_ = open(pipe().c_str(), O_RDWR | O_NONBLOCK);
    ASSERT_GE(pipe_, 0);
  }
  void TearDown() override {
    if (pipe_ >= 0) close(pipe_);
    for (const std::string& daemon : stopped_)
      send(daemon, SIGCONT);
    ProcessCluster::TearDown();
  }

  /// Begins to put what comes out of the pipe, after the shell has done what is `before` it. Returns when kPutBytes of it
  /// are on the disks.
  std::unique_ptr<BackgroundCommand> begin_put(const std::string& before = "") {
    const std::string line = before + "exec " + command({}).front() + " put - /file < " + pipe();
    auto put =
        std::make_unique<BackgroundCommand>(std::vector<std::string>{"/bin/sh", "-c", line}, environment());
    // Somewhat more than what is waited for: the last bytes stay in the client until their rows are full.
    const std::string bytes(kPutBytes + (size_t{16} << 20), 'x');
    size_t given = 0;
    const auto give = [&] {
      while (given < bytes.size() && put->running()) {
        pollfd room{.fd = pipe_, .events = POLLOUT, .revents = 0};
        if (poll(&room, 1, kPollMilliseconds) <= 0) return false;
        const ssize_t written = write(pipe_, bytes.data() + given, bytes.size() - given);
        if (written > 0) given += size_t(written);
      }
      return true;
    };
    EXPECT_TRUE(eventually(give, seconds(30)));
    EXPECT_TRUE(eventually([&] { return bytes_on_disks() > kPutBytes; }, seconds(30)));
    EXPECT_TRUE(put->running());
    return put;
  }
  std::unique_ptr<BackgroundCommand> begin_get(const std::string& source, const std::string& target) {
    auto get = std::make_unique<BackgroundCommand>(command({"get", source, target}), environment());
    EXPECT_TRUE(eventually([&] { return has_open_files(get->pid()); }, seconds(30)));
    EXPECT_TRUE(get->running());
    return get;
  }
  bool has_open_files(pid_t pid) const {
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error))
      if (std::filesystem::read_symlink(entry.path(), error).string().starts_with(path("local"))) return true;
    return false;
  }
  void freeze(const std::string& daemon) {
    ASSERT_NO_FATAL_FAILURE(send(daemon, SIGSTOP));
    stopped_.push_back(daemon);
  }

  /// The names in the local directory, also hidden ones.
  size_t local_entries() const {
    std::error_code error;
    size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path("local"), error))
      count += entry.is_regular_file(error);
    return count;
  }

 private:
  std::string pipe() const { return path("pipe"); }

  int pipe_ = -1;
  std::vector<std::string> stopped_;
};

TEST_F(Interruption, OfAPutFreesWhatItWroteAndEndsItBySignal) {
  start_with_pipe();
  const uint64_t before = bytes_on_disks();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto put = begin_put();
    const auto sent = SteadyClock::now();
    ASSERT_TRUE(put->send(signal));
    EXPECT_EQ(put->exit_code(), kBySignal + signal);
    EXPECT_LT(SteadyClock::now() - sent, KINTSUGI_TIME_FACTOR * kAtOnce)
        << "an upload is given up in one call";
    EXPECT_TRUE(eventually([&] { return bytes_on_disks() < before + (1 << 20); }, kFreed))
        << "signal " << signal << ": " << bytes_on_disks() << " bytes stay";
  }
  EXPECT_EQ(kintsugi({"ls", "/"}).out, "");
  EXPECT_TRUE(healthy());
}

TEST_F(Interruption, ByAReaderThatHasSeenEnoughIsSilent) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(run_command({"/bin/sh", "-c", "head -c 4M /dev/zero > " + path("zeros")}).exit_code, 0);
  ASSERT_EQ(kintsugi({"put", path("zeros"), "/zeros"}).exit_code, 0);
  for (const std::string& arguments : {" cat /zeros", " ls /"}) {
    // The reader leaves before the first byte comes.
    const Outcome outcome =
        run_command({"/bin/bash", "-c",
                     "(sleep 1; exec " + command({}).front() + arguments + ") | true; echo ${PIPESTATUS[0]}"},
                    environment());
    EXPECT_EQ(outcome.out, std::to_string(kBySignal + SIGPIPE) + "\n") << arguments;
    EXPECT_EQ(outcome.err, "") << arguments;
  }
}

TEST_F(Interruption, OfAPutWaitsForAMetaserverThatIsSilentButNotForLong) {
  start_with_pipe();
  const auto put = begin_put();
  freeze("metaserver");
  const auto sent = SteadyClock::now();
  ASSERT_TRUE(put->send(SIGTERM));
  EXPECT_EQ(put->exit_code(), kBySignal + SIGTERM);
  EXPECT_LT(SteadyClock::now() - sent, KINTSUGI_TIME_FACTOR * (kPatience + kAtOnce));
}

TEST_F(Interruption, ASecondOneEndsThePutAtOnce) {
  start_with_pipe();
  const auto put = begin_put();
  freeze("metaserver");
  const auto sent = SteadyClock::now();
  ASSERT_TRUE(put->send(SIGINT));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // two signals at one time would count as one
  EXPECT_TRUE(put->running()) << "it waits for the metaserver";
  ASSERT_TRUE(put->send(SIGINT));
  EXPECT_EQ(put->exit_code(), kBySignal + SIGINT);
  EXPECT_LT(SteadyClock::now() - sent, KINTSUGI_TIME_FACTOR * kAtOnce);
}

TEST_F(Interruption, OfAGetLeavesNoFile) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  std::filesystem::create_directory(path("local"));
  for (int i = 0; i < 5; ++i)
    make_file("tree/file-" + std::to_string(i), 300000, unsigned(i));
  ASSERT_EQ(kintsugi({"put", path("tree"), "/tree"}).exit_code, 0);
  for (const char* daemon : {"chunkserver-1", "chunkserver-2", "chunkserver-3"})
    freeze(daemon);
  for (const char* source : {"/tree/file-1", "/tree"}) {
    const auto get = begin_get(source, path("local"));
    ASSERT_TRUE(get->send(SIGINT));
    EXPECT_EQ(get->exit_code(), kBySignal + SIGINT) << source;
    EXPECT_EQ(local_entries(), 0u) << source;
  }
}

TEST_F(Interruption, IsNoneForACommandThatIgnoresTheSignal) {
  start_with_pipe();
  const auto put = begin_put("trap '' HUP; ");  // as nohup does it
  ASSERT_TRUE(put->send(SIGHUP));
  std::this_thread::sleep_for(kAtOnce);
  EXPECT_TRUE(put->running());
  ASSERT_TRUE(put->send(SIGINT));
  EXPECT_EQ(put->exit_code(), kBySignal + SIGINT);
}

}  // namespace
}  // namespace kintsugi::processes
