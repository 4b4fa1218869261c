#include "common/http/http_post.h"

#include <condition_variable>
#include <mutex>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

namespace {

/// The look-up of this name does not return until it is told to.
constexpr std::string_view kSilent = "silent.invalid";

struct NameServer {
  std::mutex mutex;
  std::condition_variable changed;
  bool answers = false;
} name_server;

}  // namespace

/// Stands before the one of the C library.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** result) {
  if (node != nullptr && node == kSilent) {
    std::unique_lock lock(name_server.mutex);
    name_server.changed.wait(lock, [] { return name_server.answers; });
    return EAI_FAIL;
  }
  static const auto next = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return next(node, service, hints, result);
}

namespace kintsugi::http {
namespace {

TEST(HttpPost, ANameServerThatDoesNotAnswerHoldsItUpNoLongerThanItsLimit) {
  asio::io_context loop;
  std::optional<Result<int>> answer;
  asio::co_spawn(loop,
                 post(loop.get_executor(), {std::string(kSilent), "80", "/"}, "text/plain", "",
                      std::chrono::milliseconds(50)),
                 [&](const std::exception_ptr&, Result<int> result) { answer = std::move(result); });
  while (!answer)
    loop.run_one();
  EXPECT_EQ(answer->error().code(), Code::kUnavailable);
  EXPECT_NE(answer->error().message().find(kSilent), std::string::npos) << answer->error().message();
  {
    const std::lock_guard lock(name_server.mutex);
    name_server.answers = true;
  }
  name_server.changed.notify_all();
  loop.run();
}

/// Sends "spans" to a server that answers so. Returns what the server got, and what came of it.
std::pair<std::string, Result<int>> posted(const std::string& answer) {
  asio::io_context loop;
  asio::ip::tcp::acceptor acceptor(loop, {asio::ip::address_v4::loopback(), 0});
  std::string got;
  asio::co_spawn(
      loop,
      [&]() -> asio::awaitable<void> {
        auto socket = co_await acceptor.async_accept(asio::use_awaitable);
        co_await asio::async_read_until(socket, asio::dynamic_buffer(got), "spans", asio::use_awaitable);
        co_await asio::async_write(socket, asio::buffer(answer), asio::use_awaitable);
      },
      asio::detached);
  std::optional<Result<int>> result;
  const Url to{"127.0.0.1", std::to_string(acceptor.local_endpoint().port()), "/v1/traces"};
  asio::co_spawn(loop, post(loop.get_executor(), to, "text/plain", "spans", std::chrono::seconds(20)),
                 [&](const std::exception_ptr&, Result<int> told) { result = std::move(told); });
  loop.run();
  return {got, *result};
}

TEST(HttpPost, SendsTheBodyAndReturnsTheStatus) {
  const auto [got, status] = posted("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n");
  ASSERT_TRUE(status) << status.error().to_string();
  EXPECT_EQ(*status, 429);
  EXPECT_TRUE(got.starts_with("POST /v1/traces HTTP/1.1\r\n")) << got;
  EXPECT_NE(got.find("Content-Length: 5\r\n"), std::string::npos) << got;
  EXPECT_TRUE(got.ends_with("\r\n\r\nspans")) << got;
}

TEST(HttpPost, WhatIsNoHttpServerIsAnError) {
  for (const std::string answer : {"", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 no\r\n", "HTTP/1.1 2\r\n"})
    EXPECT_EQ(posted(answer).second.error().code(), Code::kUnavailable) << answer;
  EXPECT_FALSE(posted(std::string(5000, 'x')).second) << "a line without an end";
}

TEST(Url, IsTakenApartOrRefused) {
  const auto full = Url::parse("http://collector.example:4318/v1/traces");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->host + " " + full->port + " " + full->path, "collector.example 4318 /v1/traces");
  const auto bare = Url::parse("http://[::1]");
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->host + " " + bare->port + " " + bare->path, "::1 80 /");
  for (const char* bad : {"", "collector:4318", "https://a/", "http://", "http://:80/", "http://a:/",
                          "http://a:x/", "http://a:123456/", "http://a b/", "http://a/\r\nHost: b"})
    EXPECT_FALSE(Url::parse(bad)) << bad;
}

}  // namespace
}  // namespace kintsugi::http
