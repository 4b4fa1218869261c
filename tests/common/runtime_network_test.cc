#include <algorithm>

#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/runtime/production/run.h"
#include "common/runtime/task_group.h"
#include "tests/expect_ok.h"

namespace kintsugi::runtime {
namespace {

const Endpoint kAnyPort{"127.0.0.1", 0};

struct NetworkTest : ::testing::Test {
  ProductionRuntime production;
  Runtime& runtime = production.runtime();
  TaskGroup tasks{runtime};

  TimePoint soon() const { return runtime.clock.now() + 10s; }

  struct Pair {
    std::unique_ptr<Connection> client, server;
  };
  asio::awaitable<Pair> connect() {
    auto listener = *runtime.network.listen(kAnyPort);
    auto client = co_await runtime.network.dial(listener->local_endpoint(), soon());
    auto server = co_await listener->accept();
    EXPECT_TRUE(client && server);
    Pair pair{std::move(*client), std::move(*server)};
    co_return pair;
  }
};

std::vector<std::byte> pattern(size_t bytes, uint32_t seed) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((i * 2654435761u + seed) >> 13);
  return data;
}

/// Sends `data` cut into gathered buffers of odd sizes.
asio::awaitable<void> send_in_pieces(Connection& to, const std::vector<std::byte>& data) {
  size_t offset = 0, piece = 1;
  while (offset < data.size()) {
    std::vector<asio::const_buffer> buffers;
    while (buffers.size() < Connection::kMaxGather && offset < data.size()) {
      size_t bytes = std::min(piece, data.size() - offset);
      buffers.emplace_back(data.data() + offset, bytes);
      offset += bytes;
      piece = piece * 3 % 400'009 + 1;
    }
    Status status = co_await to.write(buffers);
    KINTSUGI_EXPECT_OK(status);
    if (!status.ok()) co_return;
  }
}

asio::awaitable<void> receive_exactly(Connection& from, const std::vector<std::byte>& expected, size_t step) {
  std::vector<std::byte> buffer(step);
  for (size_t offset = 0; offset < expected.size(); offset += step) {
    std::span<std::byte> part = std::span(buffer).first(std::min(step, expected.size() - offset));
    Status status = co_await from.read_exact(part);
    KINTSUGI_EXPECT_OK(status);
    if (!status.ok()) co_return;
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + static_cast<ptrdiff_t>(offset)));
  }
}

/// Counts the sockets of this process that have a peer, and those that find out when it is gone, whether they are idle or
/// have sent something.
std::pair<int, int> connected_and_probing() {
  std::pair<int, int> count;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.ss_family != AF_INET)
      continue;
    int probes = 0;
    socklen_t probes_size = sizeof probes;
    ::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &probes, &probes_size);
    ++count.first;
    unsigned given_up_after = 0;
    socklen_t given_up_size = sizeof given_up_after;
    ::getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &given_up_after, &given_up_size);
    count.second += probes != 0 && given_up_after != 0;
  }
  return count;
}

/// The most bytes that lie unread at one socket of this process.
int most_unread() {
  int most = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    int unread = 0;
    if (::ioctl(fd, FIONREAD, &unread) == 0) most = std::max(most, unread);
  }
  return most;
}

TEST_F(NetworkTest, CountsTheSegmentsToEachEndAlsoOfConnectionsThatAreClosed) {
  const auto links = [&](std::string_view end) {
    const auto all = production.losses().read(16);
    const auto found = std::ranges::find(all, end, &LinkLosses::end);
    return found == all.end() ? LinkLosses{} : *found;
  };
  run_on(production, [&]() -> asio::awaitable<void> {
    auto listener = *runtime.network.listen(kAnyPort);
    const std::string address = listener->local_endpoint().to_string();
    for (int i = 1; i <= 2; ++i) {
      auto client = *co_await runtime.network.dial(listener->local_endpoint(), soon());
      auto server = *co_await listener->accept();
      co_await send_in_pieces(*client, pattern(100'000, 1));
      std::vector<std::byte> received(100'000);
      KINTSUGI_EXPECT_OK(co_await server->read_exact(received));
      co_await send_in_pieces(*server, pattern(10, 1));
      EXPECT_GE(links(address).segments, static_cast<uint64_t>(i));
      EXPECT_EQ(links("127.0.0.1").segments, static_cast<uint64_t>(i)) << "one message to whoever called";
      EXPECT_EQ(links(address).lost, 0u);
      const uint64_t before = links(address).segments;
      client->close();
      EXPECT_EQ(links(address).segments, before);
    }
  }());
}

TEST_F(NetworkTest, AStreamOverASlowLinkHasLittleUnderWay) {
  const auto data = pattern(64 << 20, 3);
  int unread = 0;
  auto body = [&]() -> asio::awaitable<void> {
    auto pair = co_await connect();
    pair.client->expect_rate(25e6);
    tasks.spawn(send_in_pieces(*pair.server, data));
    std::vector<std::byte> half(data.size() / 2);
    KINTSUGI_EXPECT_OK(co_await pair.client->read_exact(half));
    int before = 0;
    for (int look = 0; look < 500 && (unread == 0 || unread != before); ++look) {  // until no more comes
      before = unread;
      co_await tasks.sleep_for(20ms);
      unread = most_unread();
    }
    KINTSUGI_EXPECT_OK(co_await pair.client->read_exact(half));
    co_await tasks.join();
  };
  run_on(production, body());
  EXPECT_GT(unread, 0);
  EXPECT_LE(unread, 1 << 20) << "without the hint it is several megabytes";
}

TEST_F(NetworkTest, BothEndsOfAConnectionNoticeAPeerThatVanished) {
  const auto before = connected_and_probing();
  std::pair<int, int> meanwhile;
  auto body = [&]() -> asio::awaitable<void> {
    auto pair = co_await connect();
    meanwhile = connected_and_probing();
  };
  run_on(production, body());
  EXPECT_EQ(meanwhile.first - before.first, 2);
  EXPECT_EQ(meanwhile.second - before.second, 2);
}

TEST_F(NetworkTest, CarriesMuchDataBothWaysAtOnce) {
  auto data = pattern(40 << 20, 1), other = pattern(30 << 20, 2);
  auto body = [&]() -> asio::awaitable<void> {
    auto pair = co_await connect();
    tasks.spawn(send_in_pieces(*pair.client, data));
    tasks.spawn(send_in_pieces(*pair.server, other));
    tasks.spawn(receive_exactly(*pair.server, data, 1 << 20));
    tasks.spawn(receive_exactly(*pair.client, other, 99'991));
    co_await tasks.join();
  };
  run_on(production, body());
}

TEST_F(NetworkTest, ASmallReadAfterABulkReadDoesNotWaitForMore) {
  auto bulk = pattern(1 << 20, 3);
  auto small = pattern(5, 4);
  auto body = [&]() -> asio::awaitable<void> {
    auto pair = co_await connect();
    tasks.spawn(receive_exactly(*pair.server, bulk, 1 << 20));
    co_await tasks.sleep_for(5ms);  // the reader waits with a high low-water mark
    co_await send_in_pieces(*pair.client, bulk);
    co_await tasks.join();
    tasks.spawn(receive_exactly(*pair.server, small, 5));
    co_await tasks.sleep_for(1ms);
    co_await send_in_pieces(*pair.client, small);
    co_await tasks.join();
    co_await send_in_pieces(*pair.client, small);
    std::vector<std::byte> into(1 << 20);
    auto some = co_await pair.server->read_some(into);
    EXPECT_EQ(*some, 5u);
  };
  run_on(production, body());
}

TEST_F(NetworkTest, TheEndOfTheStreamIsZeroBytesOrUnavailable) {
  auto body = [&]() -> asio::awaitable<void> {
    auto pair = co_await connect();
    auto data = pattern(10, 5);
    co_await send_in_pieces(*pair.client, data);
    pair.client.reset();
    std::vector<std::byte> into(11);
    Status status = co_await pair.server->read_exact(into);
    EXPECT_EQ(status.code(), Code::kUnavailable) << status;
    auto end = co_await pair.server->read_some(into);
    EXPECT_EQ(*end, 0u);
  };
  run_on(production, body());
}

TEST_F(NetworkTest, CloseWakesAPendingReadAndAPendingWrite) {
  auto body = [&]() -> asio::awaitable<void> {
    auto pair = co_await connect();
    Status read_status, write_status;
    auto reader = [&]() -> asio::awaitable<void> {
      std::vector<std::byte> into(1);
      auto result = co_await pair.client->read_some(into);
      if (!result) read_status = result.error();
    };
    auto writer = [&]() -> asio::awaitable<void> {
      std::vector<std::byte> data(64 << 20);
      std::vector<asio::const_buffer> buffers{asio::buffer(data)};
      write_status = co_await pair.client->write(buffers);
    };
    tasks.spawn(reader());
    tasks.spawn(writer());
    co_await tasks.sleep_for(20ms);
    EXPECT_EQ(tasks.running(), 2u);
    EXPECT_TRUE(pair.client->is_open());
    pair.client->close();
    pair.client->close();
    EXPECT_FALSE(pair.client->is_open());
    co_await tasks.join();
    EXPECT_EQ(read_status.code(), Code::kCancelled) << read_status;
    EXPECT_EQ(write_status.code(), Code::kCancelled) << write_status;
    std::vector<std::byte> into(1);
    auto later = co_await pair.client->read_some(into);
    EXPECT_EQ(later.error().code(), Code::kCancelled);
  };
  run_on(production, body());
}

TEST_F(NetworkTest, DialingAClosedPortIsUnavailable) {
  auto body = [&]() -> asio::awaitable<void> {
    auto listener = *runtime.network.listen(kAnyPort);
    Endpoint at = listener->local_endpoint();
    listener->close();
    auto connection = co_await runtime.network.dial(at, soon());
    EXPECT_EQ(connection.error().code(), Code::kUnavailable) << connection.error();
  };
  run_on(production, body());
}

TEST_F(NetworkTest, DialsNamesAndReportsUnknownOnes) {
  addrinfo* known = nullptr;
  if (::getaddrinfo("localhost", nullptr, nullptr, &known) != 0) {
    GTEST_SKIP() << "this machine has no /etc/hosts that names localhost";
  }
  ::freeaddrinfo(known);
  auto body = [&]() -> asio::awaitable<void> {
    auto listener = *runtime.network.listen(kAnyPort);
    Endpoint named{"localhost", listener->local_endpoint().port};
    auto connection = co_await runtime.network.dial(named, soon());
    EXPECT_TRUE(connection);
    Endpoint unknown{"no-such-host.invalid", 80};
    auto failed = co_await runtime.network.dial(unknown, soon());
    EXPECT_FALSE(failed);
  };
  run_on(production, body());
}

/// A socket that listens and whose accept queue is full: it drops further connection requests, so nobody answers.
class SilentListener {
 public:
  SilentListener() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(socket_, 0), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    at = {"127.0.0.1", ntohs(address.sin_port)};
  }
  ~SilentListener() { ::close(socket_); }
  SilentListener(const SilentListener&) = delete;

  /// Dials until its queue is full; how the first dial ended that found it so.
  asio::awaitable<Status> fill(Network& network, Clock& clock) {
    for (int i = 0; i < 8; ++i) {
      const TimePoint deadline = clock.now() + 50ms;
      auto connection = co_await network.dial(at, deadline);
      if (!connection) {
        EXPECT_GE(clock.now(), deadline);
        co_return connection.error();
      }
      queued_.push_back(std::move(*connection));
    }
    co_return Status{};
  }

  Endpoint at;

 private:
  const int socket_;
  std::vector<std::unique_ptr<Connection>> queued_;
};

TEST_F(NetworkTest, ADialThatNobodyAnswersEndsAtItsDeadline) {
  SilentListener listener;
  auto body = [&]() -> asio::awaitable<void> {
    const Status status = co_await listener.fill(runtime.network, runtime.clock);
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status;
  };
  run_on(production, body());
}

TEST_F(NetworkTest, ADialThatNobodyAnswersEndsWithItsTasks) {
  SilentListener listener;
  auto body = [&]() -> asio::awaitable<void> {
    (void)co_await listener.fill(runtime.network, runtime.clock);
    Status status;
    auto dial = [&]() -> asio::awaitable<void> {
      auto connection = co_await runtime.network.dial(listener.at, TimePoint::max(), &tasks);
      if (!connection) status = connection.error();
    };
    tasks.spawn(dial());
    co_await tasks.sleep_for(20ms);
    tasks.request_stop();
    co_await tasks.join();
    EXPECT_EQ(status.code(), Code::kCancelled) << status;
  };
  run_on(production, body());
}

TEST_F(NetworkTest, ClosingAListenerEndsItsAccept) {
  auto body = [&]() -> asio::awaitable<void> {
    auto listener = *runtime.network.listen(kAnyPort);
    Status status;
    auto acceptor = [&]() -> asio::awaitable<void> {
      auto connection = co_await listener->accept();
      if (!connection) status = connection.error();
    };
    tasks.spawn(acceptor());
    co_await tasks.sleep_for(1ms);
    listener->close();
    co_await tasks.join();
    EXPECT_EQ(status.code(), Code::kCancelled);
  };
  run_on(production, body());
}

TEST_F(NetworkTest, AcceptWaitsOutAShortageOfDescriptors) {
  auto body = [&]() -> asio::awaitable<void> {
    auto listener = *runtime.network.listen(kAnyPort);
    auto client = co_await runtime.network.dial(listener->local_endpoint(), soon());
    rlimit before{};
    getrlimit(RLIMIT_NOFILE, &before);
    rlimit none{3, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    bool accepted = false;
    auto acceptor = [&]() -> asio::awaitable<void> {
      auto connection = co_await listener->accept();
      accepted = static_cast<bool>(connection);
    };
    tasks.spawn(acceptor());
    co_await tasks.sleep_for(5ms);
    EXPECT_FALSE(accepted);
    setrlimit(RLIMIT_NOFILE, &before);
    co_await tasks.join();
    EXPECT_TRUE(accepted);
  };
  run_on(production, body());
}

TEST_F(NetworkTest, ListeningTwiceOnOnePortFails) {
  auto listener = *runtime.network.listen(kAnyPort);
  auto second = runtime.network.listen(listener->local_endpoint());
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message().find("in use"), std::string::npos) << second.error();
}

TEST_F(NetworkTest, ABusyStreamLetsOtherCoroutinesRun) {
  auto data = pattern(64 << 20, 6);
  int turns = 0;
  auto body = [&]() -> asio::awaitable<void> {
    auto pair = co_await connect();
    bool done = false;
    auto ticker = [&]() -> asio::awaitable<void> {
      while (!done) {
        ++turns;
        co_await asio::post(runtime.executor, asio::use_awaitable);
      }
    };
    auto sender = [&]() -> asio::awaitable<void> {
      co_await send_in_pieces(*pair.client, data);
      done = true;
    };
    tasks.spawn(ticker());
    tasks.spawn(sender());
    tasks.spawn(receive_exactly(*pair.server, data, 1 << 20));
    co_await tasks.join();
  };
  run_on(production, body());
  EXPECT_GT(turns, 10);
}

}  // namespace
}  // namespace kintsugi::runtime
