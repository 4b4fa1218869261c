#include "common/http/http_server.h"

#include <chrono>
#include <future>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>

#include "common/log/log.h"
#include "tests/expect_ok.h"

namespace kintsugi::http {
namespace {

using asio::ip::tcp;

/// Sends one request over `socket` and returns its answer's status line; empty when the server hung up.
std::string get(tcp::socket& socket, const std::string& path) {
  boost::system::error_code error;
  asio::write(socket, asio::buffer("GET " + path + " HTTP/1.1\r\nHost: here\r\n\r\n"), error);
  std::string answer;
  asio::read_until(socket, asio::dynamic_buffer(answer), "last words\n", error);
  return answer.substr(0, answer.find("\r\n"));
}

TEST(HttpServer, AnswersThatAHandlerFailedAndServesOn) {
  log::set_sink([](log::Level, std::string_view) {});
  asio::io_context loop;
  HttpServer server(loop.get_executor());
  server.handle("/bad", [](std::string_view) -> Response { throw std::runtime_error("last words"); });
  server.handle("/good", [](std::string_view) { return Response{.body = "last words\n"}; });
  KINTSUGI_ASSERT_OK(server.start({"127.0.0.1", 0}));
  const tcp::endpoint endpoint(asio::ip::address_v4::loopback(), server.local_endpoint().port);
  std::thread thread([&] { loop.run(); });
  {
    asio::io_context here;
    tcp::socket socket(here);
    socket.connect(endpoint);
    EXPECT_EQ(get(socket, "/bad"), "HTTP/1.1 500 Internal Server Error");
    EXPECT_EQ(get(socket, "/good"), "HTTP/1.1 200 OK");
  }
  asio::post(loop, [&] { server.stop(); });
  thread.join();  // nothing is left to run after stop
  log::set_sink({});
}

TEST(HttpServer, ALateBodyIsMadeWhileTheLoopServesOthers) {
  log::set_sink([](log::Level, std::string_view) {});
  asio::io_context loop;
  HttpServer server(loop.get_executor());
  std::promise<void> served;
  server.handle("/late", [&](std::string_view) {
    return Response{.late_body = [&] {
      const bool others = served.get_future().wait_for(std::chrono::minutes(1)) == std::future_status::ready;
      return others ? "last words\n" : "nobody was served meanwhile: last words\n";
    }};
  });
  server.handle("/now", [&](std::string_view) {
    served.set_value();
    return Response{.body = "last words\n"};
  });
  server.handle("/bad", [](std::string_view) {
    return Response{.late_body = []() -> std::string { throw std::runtime_error("last words"); }};
  });
  KINTSUGI_ASSERT_OK(server.start({"127.0.0.1", 0}));
  const tcp::endpoint endpoint(asio::ip::address_v4::loopback(), server.local_endpoint().port);
  std::thread thread([&] { loop.run(); });
  {
    asio::io_context here;
    tcp::socket first(here), second(here);
    first.connect(endpoint);
    second.connect(endpoint);
    asio::write(first, asio::buffer(std::string("GET /late HTTP/1.1\r\nHost: here\r\n\r\n")));
    EXPECT_EQ(get(second, "/now"), "HTTP/1.1 200 OK");
    std::string answer;
    asio::read_until(first, asio::dynamic_buffer(answer), "last words\n");
    EXPECT_EQ(answer.substr(answer.find("\r\n\r\n") + 4), "last words\n");
    EXPECT_EQ(get(second, "/bad"), "HTTP/1.1 500 Internal Server Error");
  }
  asio::post(loop, [&] { server.stop(); });
  thread.join();
  log::set_sink({});
}

TEST(HttpServer, StopsWhileABodyIsBeingMade) {
  asio::io_context loop;
  HttpServer server(loop.get_executor());
  std::promise<void> begun, may_end;
  server.handle("/late", [&](std::string_view) {
    return Response{.late_body = [&] {
      begun.set_value();
      may_end.get_future().wait();
      return std::string("last words\n");
    }};
  });
  KINTSUGI_ASSERT_OK(server.start({"127.0.0.1", 0}));
  const tcp::endpoint endpoint(asio::ip::address_v4::loopback(), server.local_endpoint().port);
  std::thread thread([&] { loop.run(); });
  asio::io_context here;
  tcp::socket socket(here);
  socket.connect(endpoint);
  asio::write(socket, asio::buffer(std::string("GET /late HTTP/1.1\r\nHost: here\r\n\r\n")));
  begun.get_future().wait();
  asio::post(loop, [&] { server.stop(); });
  may_end.set_value();
  thread.join();  // nothing is left to run, and nothing hangs
  boost::system::error_code error;
  std::string answer;
  asio::read_until(socket, asio::dynamic_buffer(answer), "last words\n", error);
  EXPECT_TRUE(error || answer.ends_with("last words\n"));
}

}  // namespace
}  // namespace kintsugi::http
