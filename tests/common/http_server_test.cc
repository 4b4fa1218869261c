#include "common/http/http_server.h"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>
#include <poll.h>

#include "common/http/open_connections.h"
#include "common/log/log.h"
#include "common/runtime/production/run.h"
#include "tests/expect_ok.h"

namespace kintsugi::http {
namespace {

using asio::ip::tcp;

void ask(tcp::socket& socket, const std::string& path) {
  asio::write(socket, asio::buffer("GET " + path + " HTTP/1.1\r\nHost: here\r\n\r\n"));
}

/// Sends one request over `socket` and returns its answer's status line; empty when the server hung up.
std::string get(tcp::socket& socket, const std::string& path) {
  ask(socket, path);
  boost::system::error_code error;
  std::string answer;
  asio::read_until(socket, asio::dynamic_buffer(answer), "last words\n", error);
  return answer.substr(0, answer.find("\r\n"));
}

/// A server that runs on a thread of its own. The log is silent meanwhile.
struct Serving {
  runtime::ProductionRuntime production;
  asio::io_context here;
  HttpServer server{production.runtime()};
  std::optional<runtime::LoopThread> thread;

  Serving() {
    log::set_sink([](log::Level, std::string_view) {});
  }
  ~Serving() {
    stop();
    log::set_sink({});
  }
  /// REQUIRES: all pages are known.
  void start() {
    KINTSUGI_ASSERT_OK(server.start({"127.0.0.1", 0}));
    thread.emplace(production);
  }
  /// Returns once nothing is left to run.
  void stop() {
    if (thread) runtime::run_on(production, stop_server());
    thread.reset();
  }
  asio::awaitable<void> stop_server() {
    server.stop();
    // The coroutines of the server end in the next turns.
    for (int turns = 0; turns < 10; ++turns)
      co_await asio::post(production.io(), asio::use_awaitable);
  }
  tcp::socket connect() {
    tcp::socket socket(here);
    socket.connect({asio::ip::address_v4::loopback(), server.local_endpoint().port});
    return socket;
  }
};

TEST(HttpServer, AnswersThatAHandlerFailedAndServesOn) {
  Serving serving;
  serving.server.handle("/bad", [](std::string_view) -> Response { throw std::runtime_error("last words"); });
  serving.server.handle("/good", [](std::string_view) { return Response{.body = "last words\n"}; });
  serving.start();
  tcp::socket socket = serving.connect();
  EXPECT_EQ(get(socket, "/bad"), "HTTP/1.1 500 Internal Server Error");
  EXPECT_EQ(get(socket, "/good"), "HTTP/1.1 200 OK");
}

TEST(HttpServer, ALateBodyIsMadeWhileTheLoopServesOthers) {
  Serving serving;
  std::promise<void> served;
  serving.server.handle("/late", [&](std::string_view) {
    return Response{.late_body = [&] {
      const bool others = served.get_future().wait_for(std::chrono::minutes(1)) == std::future_status::ready;
      return others ? "last words\n" : "nobody was served meanwhile: last words\n";
    }};
  });
  serving.server.handle("/now", [&](std::string_view) {
    served.set_value();
    return Response{.body = "last words\n"};
  });
  serving.server.handle("/bad", [](std::string_view) {
    return Response{.late_body = []() -> std::string { throw std::runtime_error("last words"); }};
  });
  serving.start();
  tcp::socket first = serving.connect(), second = serving.connect();
  ask(first, "/late");
  EXPECT_EQ(get(second, "/now"), "HTTP/1.1 200 OK");
  std::string answer;
  asio::read_until(first, asio::dynamic_buffer(answer), "last words\n");
  EXPECT_EQ(answer.substr(answer.find("\r\n\r\n") + 4), "last words\n");
  EXPECT_EQ(get(second, "/bad"), "HTTP/1.1 500 Internal Server Error");
}

TEST(HttpServer, StopsOnceTheBodyThatIsBeingMadeIsReadyAndSendsItToNobody) {
  Serving serving;
  std::promise<void> begun, stopping;
  std::atomic<bool> made = false;
  serving.server.handle("/late", [&](std::string_view) {
    return Response{.late_body = [&] {
      begun.set_value();
      stopping.get_future().wait();
      made = true;
      return std::string("last words\n");
    }};
  });
  serving.start();
  tcp::socket socket = serving.connect();
  ask(socket, "/late");
  begun.get_future().wait();
  bool was_made = false;
  asio::post(serving.production.io(), [&] {
    stopping.set_value();
    serving.server.stop();
    was_made = made;
  });
  serving.stop();
  EXPECT_TRUE(was_made) << "what the body touches may go once stop() has returned";
  std::string answer;
  boost::system::error_code error;
  asio::read_until(socket, asio::dynamic_buffer(answer), "last words\n", error);
  EXPECT_TRUE(error);
  EXPECT_EQ(answer, "");
}

TEST(HttpServer, ABodyThatTakesLongSeesThatTheServerStops) {
  Serving serving;
  std::promise<void> begun;
  serving.server.handle("/late", [&, stop = serving.server.stopping()](std::string_view) {
    return Response{.late_body = [&, stop] {
      begun.set_value();
      while (!stop.stop_requested())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return std::string("last words\n");
    }};
  });
  serving.start();
  EXPECT_FALSE(serving.server.stopping().stop_requested());
  tcp::socket socket = serving.connect();
  ask(socket, "/late");
  begun.get_future().wait();
  serving.stop();
  EXPECT_TRUE(serving.server.stopping().stop_requested());
}

class CountingChanger final : public Changer {
 public:
  asio::awaitable<Response> change(Change change) override {
    changes.push_back(change.path + " " + change.query + " " + change.authorization);
    co_return Response{.body = "last words\n"};
  }
  std::vector<std::string> changes;
};

TEST(HttpServer, ChangesNothingForPagesOfOthersNorByGet) {
  Serving serving;
  CountingChanger changer;
  serving.server.change_by("/change", changer);
  serving.server.handle("/page", [](std::string_view) { return Response{.body = "last words\n"}; });
  serving.start();
  const auto ask = [&](const std::string& method, const std::string& path, const std::string& headers) {
    tcp::socket socket = serving.connect();
    asio::write(socket, asio::buffer(method + " " + path + " HTTP/1.1\r\nHost: console:9\r\n" + headers +
                                     "Connection: close\r\n\r\n"));
    std::string answer;
    boost::system::error_code error;
    asio::read(socket, asio::dynamic_buffer(answer), error);
    return answer.substr(0, answer.find("\r\n"));
  };
  const std::string forbidden = "HTTP/1.1 403 Forbidden";
  for (const char* origin : {"http://evil", "https://console:90", "http://console", "null", "console:9",
                             "http://evil/http://console:9", "http://"})
    EXPECT_EQ(ask("POST", "/change", "Origin: " + std::string(origin) + "\r\n"), forbidden) << origin;
  EXPECT_EQ(ask("GET", "/change", ""), "HTTP/1.1 405 Method Not Allowed");
  EXPECT_EQ(ask("POST", "/page", ""), "HTTP/1.1 405 Method Not Allowed");
  EXPECT_EQ(ask("OPTIONS", "/change", "Origin: http://evil\r\n"), "HTTP/1.1 405 Method Not Allowed");
  EXPECT_EQ(ask("POST", "/change", "Content-Length: 1\r\n"), "HTTP/1.1 413 Payload Too Large");
  EXPECT_EQ(changer.changes.size(), 0u);
  EXPECT_EQ(ask("POST", "/change?a=b", "Origin: HTTPS://Console:9\r\nAuthorization: Bearer x\r\n"),
            "HTTP/1.1 200 OK");
  EXPECT_EQ(ask("POST", "/change", ""), "HTTP/1.1 200 OK") << "a program says nothing of pages";
  serving.stop();
  EXPECT_EQ(changer.changes, (std::vector<std::string>{"/change a=b Bearer x", "/change  "}));
}

TEST(HttpServer, ARequestWithABodyIsAnsweredWithALineAndChangesNothing) {
  Serving serving;
  CountingChanger changer;
  serving.server.change_by("/change", changer);
  serving.server.handle("/page", [](std::string_view) { return Response{.body = "last words\n"}; });
  serving.start();
  // The whole answer: the server closes the connection behind it, for it does not know where the next request begins.
  const auto ask = [&](const std::string& request, const std::string& body) {
    tcp::socket socket = serving.connect();
    asio::write(socket, asio::buffer(request + " HTTP/1.1\r\nHost: here\r\n" + body));
    std::string answer;
    boost::system::error_code error;
    asio::read(socket, asio::dynamic_buffer(answer), error);
    EXPECT_EQ(error, asio::error::eof) << request;
    return answer.substr(0, answer.find("\r\n")) +
           answer.substr(std::min(answer.size(), answer.find("\r\n\r\n")));
  };
  const std::string taken = "\r\n\r\nno body is taken here: what is asked for stands in the query\n";
  const std::string small = "Content-Length: 3\r\n\r\nabc",
                    large = "Content-Length: 300000\r\n\r\n" + std::string(300'000, 'x'),
                    pieces = "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                    huge = "Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n";
  for (const std::string& body : {small, large, pieces}) {
    EXPECT_EQ(ask("POST /change?a=b", body), "HTTP/1.1 413 Payload Too Large" + taken);
    EXPECT_EQ(ask("POST /page", body), "HTTP/1.1 405 Method Not Allowed\r\n\r\nonly GET is served here\n");
    EXPECT_EQ(ask("GET /page", body), "HTTP/1.1 413 Payload Too Large" + taken);
  }
  // Whoever waits for leave to send the body reads the answer first.
  tcp::socket socket = serving.connect();
  asio::write(socket, asio::buffer("POST /change HTTP/1.1\r\nHost: here\r\n" + huge));
  std::string answer;
  asio::read_until(socket, asio::dynamic_buffer(answer), "query\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer;
  serving.stop();
  EXPECT_TRUE(changer.changes.empty());
}

TEST(HttpServer, LetsNoScriptOfOthersRunInItsPages) {
  Serving serving;
  serving.server.handle("/page", [](std::string_view) { return Response{.body = "last words\n"}; });
  serving.start();
  tcp::socket socket = serving.connect();
  ask(socket, "/page");
  std::string answer;
  asio::read_until(socket, asio::dynamic_buffer(answer), "last words\n");
  EXPECT_NE(
      answer.find(
          "\r\nContent-Security-Policy: default-src 'self'; base-uri 'none'; frame-ancestors 'none'\r\n"),
      std::string::npos)
      << answer;
}

/// Whether the server has hung up on `socket`, waiting for that for as long as `limit` says.
bool hung_up(tcp::socket& socket, std::chrono::milliseconds limit) {
  pollfd ready{.fd = socket.native_handle(), .events = POLLIN, .revents = 0};
  char byte;
  return ::poll(&ready, 1, static_cast<int>(limit.count())) == 1 &&
         ::recv(socket.native_handle(), &byte, 1, MSG_PEEK) <= 0;
}

TEST(HttpServer, SocketsThatAskNothingKeepNobodyOut) {
  Serving serving;
  serving.server.handle("/good", [](std::string_view) { return Response{.body = "last words\n"}; });
  serving.start();
  std::vector<tcp::socket> silent;
  for (size_t i = 0; i < 2 * OpenConnections::kMost; ++i) {
    silent.push_back(serving.connect());
    asio::write(silent.back(), asio::buffer("GET / HT", 8));
    if (i % 16 != 0) continue;
    tcp::socket honest = serving.connect();
    ASSERT_EQ(get(honest, "/good"), "HTTP/1.1 200 OK") << i << " others are silent";
  }
  // The first made room for those that came later, which are not hung up on.
  EXPECT_TRUE(hung_up(silent.front(), std::chrono::seconds(10)));
  EXPECT_FALSE(hung_up(silent.back(), std::chrono::milliseconds(0)));
}

TEST(HttpServer, WhoIsBeingAnsweredDoesNotMakeRoomForWhoAsksNothing) {
  Serving serving;
  std::promise<void> begun, others;
  serving.server.handle("/late", [&](std::string_view) {
    return Response{.late_body = [&] {
      begun.set_value();
      others.get_future().wait();
      return std::string("last words\n");
    }};
  });
  serving.server.handle("/good", [](std::string_view) { return Response{.body = "last words\n"}; });
  serving.start();
  tcp::socket asking = serving.connect();
  ask(asking, "/late");
  begun.get_future().wait();
  std::vector<tcp::socket> silent;
  for (size_t i = 0; i < 2 * OpenConnections::kMostOfAnAddress; ++i)
    silent.push_back(serving.connect());
  tcp::socket honest = serving.connect();
  EXPECT_EQ(get(honest, "/good"), "HTTP/1.1 200 OK");
  others.set_value();
  boost::system::error_code error;
  std::string answer;
  asio::read_until(asking, asio::dynamic_buffer(answer), "last words\n", error);
  EXPECT_EQ(answer.substr(0, answer.find("\r\n")), "HTTP/1.1 200 OK") << error.message();
}

}  // namespace
}  // namespace kintsugi::http
