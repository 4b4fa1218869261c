#include "common/http/http_post.h"

#include <condition_variable>
#include <mutex>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
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
