// A mount that one process makes and another serves.
#include "client/mount/kernel/handed_mount.h"

#include <csignal>
#include <cstddef>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/mount/kernel/passed_descriptor.h"
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
  explicit Server(
      std::chrono::milliseconds limit, uid_t user = 0, Serves serves = Serves::kEndsWhenAsked,
      const std::function<void()>& before = [] {})
      : pid_(::fork()) {
    if (pid_ != 0) return;
    before();
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

/// Runs in a process of its own as another user, until that ends or the object is gone.
class Stranger {
 public:
  explicit Stranger(const std::function<void()>& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    if (::setuid(1) != 0) ::_exit(2);
    work();
    ::_exit(0);
  }
  ~Stranger() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  const pid_t pid_;
};

/// A pipe on which a process waits until another one has done something.
class Gate {
 public:
  Gate() { (void)!::pipe2(ends_, O_CLOEXEC); }
  ~Gate() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  void open() const { (void)!::write(ends_[1], "x", 1); }
  bool wait() const {
    pollfd opened{ends_[0], POLLIN, 0};
    return ::poll(&opened, 1, 10'000) == 1;
  }

 private:
  int ends_[2] = {-1, -1};
};

/// Names without a file, at which somebody listens, as all users of the machine see them.
std::vector<std::string> listening_names() {
  std::vector<std::string> names;
  std::ifstream sockets("/proc/net/unix");
  std::string line;
  std::getline(sockets, line);  // the head of the table
  while (std::getline(sockets, line)) {
    std::istringstream fields(line);
    std::string number, references, protocol, flags, type, state, inode, name;
    fields >> number >> references >> protocol >> flags >> type >> state >> inode >> name;
    if (flags == "00010000" && name.starts_with("@kintsugi")) names.push_back(name.substr(1));
  }
  return names;
}

/// A socket with one more call to make: to bind it, or to connect.
template <class Call>
int with_name(const std::string& text, Call call) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  text.copy(name.sun_path + 1, sizeof name.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (call(socket, reinterpret_cast<const sockaddr*>(&name), bytes) == 0) return socket;
  ::close(socket);
  return -1;
}

/// Connects to the server, as whoever reads the list of names can.
int connect_to(pid_t server) {
  for (int attempt = 0; attempt < 500; ++attempt) {
    for (const std::string& name : listening_names()) {
      const int socket = with_name(name, ::connect);
      ucred peer{};
      socklen_t bytes = sizeof peer;
      if (socket >= 0 && ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
          peer.pid == server)
        return socket;
      ::close(socket);
    }
    ::usleep(10'000);
  }
  return -1;
}

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

TEST(HandedMount, IsMadeForNobodyWhoShowsANameThatFitsNoSocket) {
  const ScratchDirectory scratch;
  // Root does not believe what a process without rights shows. 249 bytes are the most that the kernel takes.
  const std::string begin = "kintsugi-await-mount-";
  for (const size_t bytes : {begin.size(), begin.size() + 31, begin.size() + 33, size_t{107}, size_t{249}}) {
    std::string name = begin;
    name.resize(bytes, 'a');
    const int shown = ::memfd_create(name.c_str(), MFD_CLOEXEC);
    ASSERT_GE(shown, 0) << bytes;
    EXPECT_EQ(hand_mount(::getpid(), scratch.path(), {}, 1s).code(), Code::kNotFound) << bytes;
    ::close(shown);
  }
  EXPECT_FALSE(mounted_device(scratch.path()));
}

TEST(HandedMount, IsNotWaitedForForever) {
  Server server(200ms);
  EXPECT_EQ(server.end(), 1);
}

TEST(HandedMount, IsTakenFromNoOtherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "it takes two users";
  Server server(2s, 65534);
  const Gate sent;
  const Stranger stranger([&] {
    const int socket = connect_to(server.pid());
    if (socket >= 0 && send_descriptor(socket, STDERR_FILENO).ok()) sent.open();
    ::pause();
  });
  EXPECT_TRUE(sent.wait());
  EXPECT_EQ(server.end(), 1) << "nobody whom it believes came";
}

TEST(HandedMount, IsNotHinderedByAUserWhoTakesTheNamesThatOthersHadOrThatANumberGives) {
  KINTSUGI_NEEDS_FUSE();
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount for others";
  // One that waits shows what names look like.
  const Server earlier(30s, 65534);
  const int shown = connect_to(earlier.pid());
  ASSERT_GE(shown, 0);
  ::close(shown);
  std::vector<std::string> names = listening_names();
  const Gate taken;
  Server server(10s, 65534, Serves::kEndsWhenAsked, [&] { taken.wait(); });
  const Stranger stranger([&] {
    names.push_back("kintsugi-mount");
    for (const std::string& seen : std::vector(names)) {
      std::string name = seen;
      const std::string before = std::to_string(earlier.pid());
      if (const size_t at = name.find(before); at != std::string::npos)
        names.push_back(name.replace(at, before.size(), std::to_string(server.pid())));
    }
    for (const std::string& name : names)
      if (const int socket = with_name(name, ::bind); socket >= 0) ::listen(socket, 1000);
    taken.open();
    ::pause();
  });
  const ScratchDirectory scratch;
  (void)hand(server, scratch.path());
  EXPECT_EQ(server.end(), 0) << "it was given its mount, and asked to begin";
}

TEST(HandedMount, IsRefusedToAUserWhoMayNotLookAtTheProcess) {
  if (::geteuid() != 0) GTEST_SKIP() << "it takes two users";
  Server server(2s, 65534);
  const int waits = connect_to(server.pid());
  ASSERT_GE(waits, 0);
  ::close(waits);
  const Gate refused;
  const Stranger stranger([&] {
    const ScratchDirectory scratch;
    if (hand_mount(server.pid(), scratch.path(), {}, 1s).code() == Code::kPermissionDenied) refused.open();
    ::pause();
  });
  EXPECT_TRUE(refused.wait());
  EXPECT_EQ(server.end(), 1);
}

}  // namespace
}  // namespace kintsugi::mount
