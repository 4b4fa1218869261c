// A mount that one process makes and another serves.
#include "client/mount/kernel/handed_mount.h"

#include <csignal>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/mount/mounted.h"

namespace kintsugi::mount {
namespace {

using namespace std::chrono_literals;

/// Reads what the kernel asks first, agrees to it, reads what comes next, and answers nothing more.
void answer_once(int device) {
  alignas(8) char request[FUSE_MIN_READ_BUFFER + 4096];
  if (::read(device, request, sizeof request) < 0) ::_exit(5);
  struct {
    fuse_out_header head;
    fuse_init_out body;
  } answer{};
  answer.head = {
      .len = sizeof answer, .error = 0, .unique = reinterpret_cast<fuse_in_header*>(request)->unique};
  answer.body.major = FUSE_KERNEL_VERSION;
  answer.body.minor = FUSE_KERNEL_MINOR_VERSION;
  answer.body.max_write = 4096;
  if (::write(device, &answer, sizeof answer) != sizeof answer) ::_exit(6);
  (void)!::read(device, request, sizeof request);
  ::pause();
}

/// This is what a server does once it has the device.
enum class Serves { kEndsWhenAsked, kNothing, kAnswersOnce };

/// A process that awaits a mount. It ends with 0 when it was asked something, and with 1 when nobody came.
class Server {
 public:
  explicit Server(std::chrono::milliseconds limit, uid_t user = 0, Serves serves = Serves::kEndsWhenAsked)
      : pid_(::fork()) {
    if (pid_ != 0) return;
    if (user != 0 && ::setuid(user) != 0) ::_exit(2);
    const auto device = await_mount(limit);
    if (!device) ::_exit(device.error().code() == Code::kDeadlineExceeded ? 1 : 3);
    if (serves == Serves::kNothing) ::pause();
    if (serves == Serves::kAnswersOnce) answer_once(*device);
    // The kernel asks whoever serves it to begin.
    pollfd asked{*device, POLLIN, 0};
    ::_exit(::poll(&asked, 1, 10'000) == 1 && (asked.revents & POLLIN) != 0 ? 0 : 4);
  }
  ~Server() {
    ::kill(pid_, SIGKILL);
    if (!ended_) ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  int end() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  const pid_t pid_;
  bool ended_ = false;
};

/// Tries until the server waits.
Status hand(const Server& server, const std::string& directory, std::chrono::milliseconds limit = 10s) {
  Status handed;
  for (int attempt = 0; attempt < 500; ++attempt) {
    handed = hand_mount(server.pid(), directory, {}, limit);
    if (handed.code() != Code::kNotFound) break;
    ::usleep(10'000);
  }
  return handed;
}

TEST(HandedMount, IsServedByAProcessWithoutRightsAndIsDetachedWhenThatEndsAtOnce) {
  KINTSUGI_NEEDS_FUSE();
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount for others";
  const ScratchDirectory scratch;
  Server server(10s, 65534);
  const Status handed = hand(server, scratch.path());
  EXPECT_EQ(server.end(), 0);
  EXPECT_EQ(handed.code(), Code::kUnavailable) << "it has ended without an answer: " << handed;
  EXPECT_FALSE(mounted_device(scratch.path())) << "nobody serves it";
}

TEST(HandedMount, IsDetachedWhenItsServerDoesNotAnswer) {
  KINTSUGI_NEEDS_FUSE();
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount for others";
  const ScratchDirectory scratch;
  const Server server(10s, 65534, Serves::kNothing);
  EXPECT_EQ(hand(server, scratch.path(), 200ms).code(), Code::kUnavailable);
  EXPECT_FALSE(mounted_device(scratch.path())) << "whoever looks at it would wait for ever";
}

TEST(HandedMount, LeavesNobodyWaitingWhenItsServerHasHeardAndDoesNotAnswer) {
  KINTSUGI_NEEDS_FUSE();
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount for others";
  const ScratchDirectory scratch;
  const Server server(10s, 65534, Serves::kAnswersOnce);
  // As a process of its own, which has to be able to end.
  const pid_t maker = ::fork();
  if (maker == 0) ::_exit(hand(server, scratch.path(), 200ms).code() == Code::kUnavailable ? 0 : 1);
  int status = -1;
  pid_t ended = 0;
  for (int look = 0; look < 1000 && ended == 0; ++look) {
    ended = ::waitpid(maker, &status, WNOHANG);
    if (ended == 0) ::usleep(10'000);
  }
  if (ended == 0) ::kill(maker, SIGKILL);
  EXPECT_EQ(status, 0) << "it waits for its thread, which waits for the server";
  EXPECT_FALSE(mounted_device(scratch.path()));
}

TEST(HandedMount, IsMadeForNobodyWhoDoesNotWait) {
  const ScratchDirectory scratch;
  const Status refused = hand_mount(::getpid(), scratch.path(), {}, 1s);
  EXPECT_EQ(refused.code(), Code::kNotFound);
  EXPECT_NE(refused.message().find("does not wait for a mount"), std::string::npos) << refused;
  EXPECT_FALSE(mounted_device(scratch.path()));
}

TEST(HandedMount, IsNotWaitedForForever) {
  Server server(200ms);
  EXPECT_EQ(server.end(), 1);
}

TEST(HandedMount, IsTakenFromNoOtherUser) {
  KINTSUGI_NEEDS_FUSE();
  if (::geteuid() != 0) GTEST_SKIP() << "it takes two users";
  Server server(2s, 65534);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    if (::setuid(1) != 0) ::_exit(2);
    const ScratchDirectory scratch;
    // It connects, and cannot mount.
    for (int attempt = 0; attempt < 100; ++attempt)
      if (const Status handed = hand_mount(server.pid(), scratch.path(), {}, 1s);
          handed.code() != Code::kNotFound)
        ::_exit(handed.ok() ? 1 : 0);
    ::_exit(0);
  }
  ::waitpid(stranger, nullptr, 0);
  EXPECT_EQ(server.end(), 1) << "nobody whom it believes came";
}

}  // namespace
}  // namespace kintsugi::mount
