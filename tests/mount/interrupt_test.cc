// Applications that are killed, signalled or numerous while the file system does not answer.
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/mount/mounted.h"

namespace kintsugi::mount {
namespace {

/// Reads and opens wait, and take no notice of interrupts, until let_go() is called.
class StuckFileSystem : public MemoryFileSystem {
 public:
  explicit StuckFileSystem(const runtime::Runtime& runtime) : MemoryFileSystem(runtime), moved_(runtime) {
    open_as.direct_io = true;
  }

  asio::awaitable<Result<ReadAnswer>> read(const Caller& caller, NodeId id,
                                           const ReadRequest& request) override {
    co_await wait();
    co_return co_await MemoryFileSystem::read(caller, id, request);
  }
  asio::awaitable<Result<OpenAnswer>> open(const Caller& caller, NodeId id, OpenFlags flags) override {
    if (opens_wait) co_await wait();
    co_return co_await MemoryFileSystem::open(caller, id, flags);
  }
  void let_go() {
    stuck_ = false;
    moved_.notify_all();
  }
  uint64_t opens(NodeId id) { return find(id)->opens; }

  bool opens_wait = false;
  size_t waiting = 0;

 private:
  asio::awaitable<void> wait() {
    ++waiting;
    while (stuck_)
      co_await moved_.wait();
    --waiting;
  }
  bool stuck_ = true;
  runtime::Event moved_;
};

class Interrupts : public ::testing::Test {
 protected:
  void SetUp() override { KINTSUGI_NEEDS_FUSE(); }
  void TearDown() override {
    if (mounted_) let_go();
    mounted_.reset();
  }
  void mount(ConnectionOptions options = {}) {
    mounted_ = std::make_unique<Mounted<StuckFileSystem>>(std::move(options));
    write_file(mounted_->path("a"), "hello");
  }
  void let_go() {
    mounted_->on_loop([&] {
      mounted_->file_system->let_go();
      return 0;
    });
  }
  size_t waiting() {
    return mounted_->on_loop([&] { return mounted_->file_system->waiting; });
  }
  /// A process that reads the file; exits with 0 if it got "hello".
  pid_t start_reader() {
    const std::string name = mounted_->path("a");
    const pid_t child = ::fork();
    if (child != 0) return child;
    const int file = ::open(name.c_str(), O_RDONLY);
    char got[5];
    ::_exit(file >= 0 && ::read(file, got, 5) == 5 ? 0 : 1);
  }
  int end_of(pid_t process) {
    int status = -1;
    ::waitpid(process, &status, 0);
    return status;
  }
  bool ended(pid_t process) { return ::waitpid(process, &last_status_, WNOHANG) == process; }

  int last_status_ = -1;
  std::unique_ptr<Mounted<StuckFileSystem>> mounted_;
};

TEST_F(Interrupts, AnApplicationThatWaitsForAReadThatNeverEndsCanBeKilled) {
  mount();
  const pid_t reader = start_reader();
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));
  ::kill(reader, SIGKILL);
  EXPECT_TRUE(eventually([&] { return ended(reader); }));
  EXPECT_TRUE(WIFSIGNALED(last_status_));
  // Its handler goes on, and what it says at last is nobody's.
  EXPECT_EQ(waiting(), 1u);
  let_go();
  EXPECT_TRUE(eventually([&] { return waiting() == 0; }));
  EXPECT_EQ(end_of(start_reader()), 0);
}

void ignore_signal(int) {}

TEST_F(Interrupts, AReadThatTakesLessThanASecondDoesNotFailThoughSignalsCome) {
  mount();
  const std::string name = mounted_->path("a");
  const pid_t reader = ::fork();
  if (reader == 0) {
    struct sigaction action{};
    action.sa_handler = ignore_signal;
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval often{{0, 5000}, {0, 5000}};
    const int file = ::open(name.c_str(), O_RDONLY);
    ::setitimer(ITIMER_REAL, &often, nullptr);
    char got[5];
    const ssize_t bytes = ::read(file, got, 5);
    ::_exit(bytes == 5 ? 0 : errno);
  }
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  let_go();
  EXPECT_EQ(end_of(reader), 0);
}

TEST_F(Interrupts, AReadThatTakesLongFailsByNoSignalThatIsHandledAndEndsByOneThatKills) {
  mount({.interrupt_patience = std::chrono::milliseconds(200)});
  const std::string name = mounted_->path("a");
  std::vector<pid_t> readers;
  for (int i = 0; i < 2; ++i) {
    readers.push_back(::fork());
    if (readers.back() != 0) continue;
    struct sigaction action{};
    action.sa_handler = ignore_signal;
    ::sigaction(SIGUSR1, &action, nullptr);
    const int file = ::open(name.c_str(), O_RDONLY);
    char got[5];
    const ssize_t bytes = ::read(file, got, 5);
    ::_exit(bytes == 5 ? 0 : errno);
  }
  ASSERT_TRUE(eventually([&] { return waiting() == 2; }));
  for (const pid_t reader : readers)
    ::kill(reader, SIGUSR1);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_FALSE(ended(readers[0]));
  EXPECT_FALSE(ended(readers[1]));
  // The kernel says nothing of a second signal.
  ::kill(readers[0], SIGTERM);
  EXPECT_TRUE(eventually([&] { return ended(readers[0]); }));
  EXPECT_TRUE(WIFSIGNALED(last_status_));
  let_go();
  EXPECT_EQ(end_of(readers[1]), 0);
}

TEST_F(Interrupts, ALockThatWaitsEndsAtOnceAndIsNotTakenLater) {
  mount();
  const std::string name = mounted_->path("a");
  const int held = ::open(name.c_str(), O_RDWR);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    struct sigaction action{};
    action.sa_handler = ignore_signal;
    ::sigaction(SIGALRM, &action, nullptr);
    const int file = ::open(name.c_str(), O_RDWR);
    const itimerval once{{0, 0}, {0, 100'000}};
    ::setitimer(ITIMER_REAL, &once, nullptr);
    timespec before{}, after{};
    ::clock_gettime(CLOCK_MONOTONIC, &before);
    const int locked = ::flock(file, LOCK_EX);
    const int error = errno;
    ::clock_gettime(CLOCK_MONOTONIC, &after);
    const double took = double(after.tv_sec - before.tv_sec) + 1e-9 * double(after.tv_nsec - before.tv_nsec);
    ::_exit(locked == -1 && error == EINTR ? (took < 0.8 * KINTSUGI_TIME_FACTOR ? 0 : 2) : 1);
  }
  EXPECT_EQ(end_of(other), 0);
  ASSERT_EQ(::flock(held, LOCK_UN), 0);
  ASSERT_EQ(::flock(held, LOCK_EX | LOCK_NB), 0);
  ::close(held);
}

TEST_F(Interrupts, AFileThatWasOpenedForAKilledApplicationIsClosedAgain) {
  mount();
  mounted_->on_loop([&] { return mounted_->file_system->opens_wait = true; });
  const pid_t reader = start_reader();
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));
  ::kill(reader, SIGKILL);
  ASSERT_TRUE(eventually([&] { return ended(reader); }));
  let_go();
  ASSERT_TRUE(eventually([&] { return waiting() == 0; }));
  struct stat found{};
  ASSERT_EQ(::stat(mounted_->path("a").c_str(), &found), 0);
  EXPECT_TRUE(eventually(
      [&] { return mounted_->on_loop([&] { return mounted_->file_system->opens(found.st_ino); }) == 0; }));
}

TEST_F(Interrupts, MoreRequestsThanAreServedAtOnceWaitInTheKernel) {
  mount({.max_in_flight = 4});
  std::vector<pid_t> readers;
  for (int i = 0; i < 12; ++i)
    readers.push_back(start_reader());
  ASSERT_TRUE(eventually([&] { return waiting() == 4; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(mounted_->on_loop([&] { return mounted_->connection->in_flight(); }), 4u);
  let_go();
  for (const pid_t reader : readers)
    EXPECT_EQ(end_of(reader), 0);
}

TEST_F(Interrupts, KilledApplicationsEndEvenIfNoRequestCanBeReadAnyMore) {
  mount({.max_in_flight = 4});
  std::vector<pid_t> readers;
  for (int i = 0; i < 8; ++i)
    readers.push_back(start_reader());
  ASSERT_TRUE(eventually([&] { return waiting() == 4; }));
  for (const pid_t reader : readers)
    ::kill(reader, SIGKILL);
  for (const pid_t reader : readers)
    EXPECT_TRUE(eventually([&] { return ended(reader); }));
}

TEST_F(Interrupts, AnAbortedConnectionEndsEverybody) {
  mount();
  const pid_t reader = start_reader();
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));
  ASSERT_EQ(
      ::system(fmt::format("umount -f {} 2>/dev/null || umount -l {}", mounted_->path(), mounted_->path())
                   .c_str()),
      0);
  EXPECT_TRUE(eventually([&] { return ended(reader); }));
  EXPECT_TRUE(WIFEXITED(last_status_));
}

}  // namespace
}  // namespace kintsugi::mount
