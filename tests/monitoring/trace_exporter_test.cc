// Spans on their way to a collector: a real socket, and whatever it answers.
#include "monitoring/sight/trace_exporter.h"

#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/log/log.h"
#include "monitoring/sight/module.h"
#include "tests/monitoring/hand_clock.h"

namespace kintsugi::sight {
namespace {

using asio::ip::tcp;

constexpr Site kPut{"test.put", {"bytes"}};

/// Takes one request on a thread of its own, and answers it.
class Collector {
 public:
  explicit Collector(std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
      : acceptor_(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
        thread_([this, answer = std::move(answer)] { serve(answer); }) {}
  ~Collector() {
    if (!thread_.joinable()) return;
    // A request that never came.
    asio::io_context here;
    tcp::socket(here).connect(acceptor_.local_endpoint());
    thread_.join();
  }
  std::string url() const {
    return fmt::format("http://127.0.0.1:{}/v1/traces", acceptor_.local_endpoint().port());
  }
  /// Head and body of what came; empty when nothing did.
  std::pair<std::string, std::string> taken() {
    thread_.join();
    return {head_, body_};
  }

 private:
  void serve(const std::string& answer) {
    tcp::socket socket(io_);
    acceptor_.accept(socket);
    boost::system::error_code error;
    std::string read;
    const size_t head = asio::read_until(socket, asio::dynamic_buffer(read), "\r\n\r\n", error);
    if (error) return;
    head_ = read.substr(0, head);
    body_ = read.substr(head);
    const size_t length = std::stoul(head_.substr(head_.find("Content-Length: ") + 16));
    std::string rest(length - body_.size(), 0);
    asio::read(socket, asio::buffer(rest), error);
    body_ += rest;
    asio::write(socket, asio::buffer(answer), error);
  }

  asio::io_context io_;
  tcp::acceptor acceptor_;
  std::string head_, body_;
  std::thread thread_;
};

struct Rig {
  HandClock clock;
  Recorder recorder{clock, 1};
  TraceExporter exporter{recorder};

  void send(const std::string& collector, double share = 1) {
    asio::io_context io;
    asio::co_spawn(io,
                   exporter.send(io.get_executor(), {.collector = collector, .share = share},
                                 {.kind = "chunkserver", .name = "server 4"}, clock.wall_now()),
                   asio::detached);
    io.run();
  }
  uint64_t put(double bytes, Code code = Code::kOk) {
    Module module{recorder.root_context(), kPut, {bytes}};
    clock.advance(2ms);
    if (code != Code::kOk) (void)module.finish({code, "no"});
    return module.context().trace.trace_id;
  }
};

TEST(TraceExporter, WhatEndedIsSentOnceAsOtlp) {
  Rig rig;
  Collector collector, again;
  rig.put(1);
  rig.send(collector.url());  // what was before anybody asked
  const uint64_t trace = rig.put(42);
  rig.put(43, Code::kCorrupt);
  rig.send(collector.url());
  const auto [head, body] = collector.taken();
  EXPECT_TRUE(head.starts_with("POST /v1/traces HTTP/1.1\r\n")) << head;
  EXPECT_NE(head.find("Content-Type: application/json\r\n"), std::string::npos) << head;
  const auto resource = nlohmann::json::parse(body).at("resourceSpans").at(0);
  EXPECT_EQ(resource["resource"]["attributes"][0]["value"]["stringValue"], "kintsugi-chunkserver");
  EXPECT_EQ(resource["resource"]["attributes"][1]["value"]["stringValue"], "server 4");
  const auto spans = resource.at("scopeSpans").at(0).at("spans");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[1]["name"], "test.put");
  EXPECT_EQ(spans[1]["traceId"].get<std::string>().size(), 32u);
  EXPECT_TRUE(spans[1]["traceId"].get<std::string>().ends_with(fmt::format("{:016x}", trace)));
  EXPECT_EQ(spans[0]["status"]["code"], 2) << "the newest first: it failed";
  const auto from = std::stoll(spans[1]["startTimeUnixNano"].get<std::string>());
  EXPECT_EQ(std::stoll(spans[1]["endTimeUnixNano"].get<std::string>()) - from, Duration(2ms).count());

  rig.send(again.url());
  rig.put(44);
  rig.send(again.url());
  EXPECT_EQ(nlohmann::json::parse(again.taken().second)["resourceSpans"][0]["scopeSpans"][0]["spans"].size(),
            1u);
}

TEST(TraceExporter, AllProcessesChooseTheSameTraces) {
  int chosen = 0;
  for (uint64_t trace = 1; trace <= 10'000; ++trace) {
    chosen += is_chosen(trace, 0.1);
    EXPECT_FALSE(is_chosen(trace, 0));
    EXPECT_TRUE(is_chosen(trace, 1));
    if (is_chosen(trace, 0.1)) EXPECT_TRUE(is_chosen(trace, 0.2));
  }
  EXPECT_NEAR(chosen, 1000, 100);
}

TEST(TraceExporter, ACollectorThatFailsIsLeftAloneForAWhile) {
  log::set_level(log::Level::kWarning);
  std::vector<std::string> lines;
  log::set_sink([&](log::Level, std::string_view line) { lines.emplace_back(line); });
  Rig rig;
  rig.send("http://127.0.0.1:1/");
  {
    Collector refuses("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    rig.put(1);
    rig.send(refuses.url());
    EXPECT_NE(refuses.taken().second, "");
  }
  ASSERT_EQ(lines.size(), 1u) << "said once";
  EXPECT_NE(lines[0].find("answered 503"), std::string::npos);
  Collector well;
  rig.put(2);
  rig.send(well.url());  // not yet
  rig.clock.advance(TraceExporter::kPauseAfterFailure);
  rig.put(3);
  rig.send(well.url());
  EXPECT_EQ(nlohmann::json::parse(well.taken().second)["resourceSpans"][0]["scopeSpans"][0]["spans"].size(),
            1u)
      << "what came meanwhile is lost";
  rig.put(4);
  rig.send("http://127.0.0.1:1/");  // nobody listens there
  EXPECT_EQ(lines.size(), 2u);
  log::set_sink({});
  log::set_level(log::Level::kInfo);
}

}  // namespace
}  // namespace kintsugi::sight
