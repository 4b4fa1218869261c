/// A server with a few methods and a client, on real loopback sockets or in the simulator.
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/log/log.h"
#include "common/proto/types.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "common/runtime/production/run.h"
#include "common/runtime/task_group.h"
#include "tests/expect_ok.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

/// ASSERT_* return from the function, which a coroutine must not.
#define CO_ASSERT_TRUE(condition)               \
  do {                                          \
    bool holds_ = static_cast<bool>(condition); \
    EXPECT_TRUE(holds_) << #condition;          \
    if (!holds_) co_return;                     \
  } while (false)
#define CO_ASSERT_OK(expression)               \
  do {                                         \
    ::kintsugi::Status status_ = (expression); \
    KINTSUGI_EXPECT_OK(status_);               \
    if (!status_.ok()) co_return;              \
  } while (false)

namespace kintsugi::rpc {

inline Secret test_secret(int n = 1) {
  std::array<std::byte, 32> key;
  key.fill(static_cast<std::byte>(n));
  return Secret(key);
}

inline proto::ErrorDetail text(std::string message) {
  proto::ErrorDetail out;
  out.set_message(std::move(message));
  return out;
}

inline std::vector<std::byte> pattern_bytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(count);
  for (std::byte& b : out)
    b = static_cast<std::byte>(random());
  return out;
}

/// Collects log lines while it lives.
class LogCapture {
 public:
  LogCapture() {
    log::set_sink([this](log::Level, std::string_view line) { lines_.emplace_back(line); });
  }
  ~LogCapture() { log::set_sink({}); }
  size_t count(std::string_view part) const {
    size_t found = 0;
    for (const std::string& line : lines_)
      found += line.find(part) != std::string::npos;
    return found;
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

/// kPing echoes; kStat fails with "no such file"; kList never answers until release(); kReadChunk streams
/// `frames` of `frame_bytes`; kWriteChunk takes frames until the end and answers with their number;
/// kPartialSum fails after one frame.
struct Rig {
  explicit Rig(runtime::Runtime server_runtime, runtime::Runtime client_runtime,
               ServerLimits server_limits = {}, ClientLimits client_limits = {},
               Secret server_secret = test_secret(), Secret client_secret = test_secret())
      : server_runtime(server_runtime),
        client_runtime(client_runtime),
        server(this->server_runtime, server_secret, nullptr, server_limits),
        client(this->client_runtime, client_secret, client_limits),
        released(server_runtime) {
    add_methods();
  }

  void add_methods();
  /// Port 0 picks one; the simulator's host is named by `host`.
  void start(const std::string& host = "127.0.0.1", uint16_t port = 0) {
    Status started = server.start({host, port});
    KINTSUGI_ASSERT(started.ok());
    at = server.local_endpoint();
  }
  void release() {
    is_released = true;
    released.notify_all();
  }
  asio::awaitable<void> stop() {
    release();
    co_await client.stop();
    co_await server.stop();
  }

  asio::awaitable<Result<proto::ErrorDetail>> ping(std::string message, Context context = {}) {
    const proto::ErrorDetail request = text(std::move(message));
    proto::ErrorDetail response;
    KINTSUGI_CO_TRY(co_await client.call(context, at, Method::kPing, request, response));
    co_return response;
  }

  asio::awaitable<Status> ping_is_echoed() {
    Result<proto::ErrorDetail> answer = co_await ping("hello");
    if (!answer) co_return answer.error();
    if (answer->message() != "hello") co_return Status{Code::kInternal, "another echo"};
    co_return Status{};
  }

  runtime::Runtime server_runtime, client_runtime;
  Server server;
  Client client;
  runtime::Endpoint at;
  runtime::Event released;
  bool is_released = false;
  Context last_context;
  size_t calls_waiting = 0, streams_served = 0;
  size_t frames = 4, frame_bytes = 1 << 20;
  std::vector<std::byte> uploaded;
};

inline void Rig::add_methods() {
  server.handle(Method::kPing,
                [this](Context context, const proto::ErrorDetail& request,
                       proto::ErrorDetail& response) -> asio::awaitable<Status> {
                  last_context = context;
                  response = request;
                  co_return Status{};
                });
  server.handle(Method::kStat, [](Context, const proto::Empty&, proto::Empty&) -> asio::awaitable<Status> {
    co_return Status{Code::kNotFound, "no such file"};
  });
  server.handle(Method::kList,
                [this](Context, const proto::Empty&, proto::Empty&) -> asio::awaitable<Status> {
                  ++calls_waiting;
                  while (!is_released)
                    co_await released.wait();
                  --calls_waiting;
                  co_return Status{};
                });
  server.handle(Method::kFsck,
                [](Context, const proto::Empty&, proto::ErrorDetail& response) -> asio::awaitable<Status> {
                  response = text(std::string(kMaxHeaderBytes, 'x'));
                  co_return Status{};
                });
  server.handle_stream(
      Method::kReadChunk, [this](Context, const proto::Empty&, Stream& stream) -> asio::awaitable<Status> {
        ++streams_served;
        for (size_t i = 0; i < frames; ++i) {
          std::vector<std::byte> bytes = pattern_bytes(frame_bytes, i);
          asio::const_buffer halves[] = {{bytes.data(), bytes.size() / 2},
                                         {bytes.data() + bytes.size() / 2, bytes.size() - bytes.size() / 2}};
          proto::ErrorDetail header = text(std::to_string(i));
          KINTSUGI_CO_TRY(co_await stream.send(header, halves));
        }
        proto::ErrorDetail done = text("done");
        co_return co_await stream.send_end(done);
      });
  server.handle_stream(Method::kWriteChunk,
                       [this](Context, const proto::Empty&, Stream& stream) -> asio::awaitable<Status> {
                         ++streams_served;
                         uploaded.clear();
                         proto::ErrorDetail header;
                         while (true) {
                           KINTSUGI_CO_ASSIGN(Stream::Received received, co_await stream.receive(header));
                           if (received.end) break;
                           size_t at = uploaded.size();
                           uploaded.resize(at + received.payload_bytes);
                           std::span<std::byte> into = std::span(uploaded).subspan(at);
                           size_t first = into.size() / 3;  // in parts
                           KINTSUGI_CO_TRY(co_await stream.receive_payload(into.first(first)));
                           KINTSUGI_CO_TRY(co_await stream.receive_payload(into.subspan(first)));
                         }
                         proto::ErrorDetail done = text(std::to_string(uploaded.size()));
                         co_return co_await stream.send_end(done);
                       });
  server.handle_stream(Method::kPartialSum,
                       [this](Context, const proto::Empty&, Stream& stream) -> asio::awaitable<Status> {
                         ++streams_served;
                         proto::ErrorDetail header;
                         KINTSUGI_CO_ASSIGN(Stream::Received received, co_await stream.receive(header));
                         (void)received;
                         co_return Status{Code::kNoSpace, "disk full"};
                       });
}

/// A Rig on real sockets; `body` gets it started.
template <class Body>
void run_on_loopback(Body body, ServerLimits server_limits = {}, ClientLimits client_limits = {}) {
  runtime::ProductionRuntime production;
  auto task = [&]() -> asio::awaitable<void> {
    Rig rig(production.runtime(), production.runtime(), server_limits, client_limits);
    rig.start();
    co_await body(rig);
    co_await rig.stop();
  };
  runtime::run_on(production, task());
}

/// A Rig on two simulated machines.
template <class Body>
void run_simulated(Body body, ServerLimits server_limits = {}, ClientLimits client_limits = {}) {
  simulation::Simulation simulation(simulation::Simulation::seed_from_environment(1));
  simulation::SimNode server_node(simulation, "10.0.0.1"), client_node(simulation, "10.0.0.2");
  auto task = [&]() -> asio::awaitable<void> {
    Rig rig(server_node.runtime(), client_node.runtime(), server_limits, client_limits);
    rig.start("10.0.0.1", 7000);
    co_await body(rig, simulation);
    co_await rig.stop();
  };
  simulation.run(task());
}

}  // namespace kintsugi::rpc
