// Client and server of the RPC layer in one thread over loopback: unary calls a second, and streams in GiB/s
// with the CPU seconds that both ends together spend on a GiB. `rpc_bench [calls] [stream GiB]`.
#include <cstdio>
#include <cstdlib>

#include <sys/resource.h>

#include "common/proto/types.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "common/runtime/production/run.h"
#include "common/runtime/task_group.h"

namespace kintsugi::rpc {
namespace {

constexpr size_t kFrameBytes = 1 << 20;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Measured {
  double seconds = 0, cpu = 0;
};

template <class Task>
asio::awaitable<Measured> measure(runtime::Clock& clock, Task task) {
  TimePoint begin = clock.now();
  double cpu = cpu_seconds();
  co_await std::move(task);
  co_return Measured{std::chrono::duration<double>(clock.now() - begin).count(), cpu_seconds() - cpu};
}

void die(const Status& status) {
  std::fprintf(stderr, "rpc_bench: %s\n", status.to_string().c_str());
  std::exit(1);
}

asio::awaitable<void> caller(Client& client, runtime::Endpoint to, size_t calls) {
  proto::ErrorDetail request, response;
  request.set_message("/some/directory/some-file-name");
  for (size_t i = 0; i < calls; ++i) {
    const Status answered = co_await client.call(Context{}, to, Method::kPing, request, response);
    if (!answered.ok()) die(answered);
  }
}

asio::awaitable<void> all_callers(runtime::Runtime& runtime, Client& client, runtime::Endpoint to,
                                  size_t callers, size_t calls) {
  runtime::TaskGroup group(runtime);
  for (size_t i = 0; i < callers; ++i)
    group.spawn(caller(client, to, calls / callers));
  co_await group.join();
}

asio::awaitable<void> download(Client& client, runtime::Endpoint to, uint64_t bytes) {
  proto::Empty request, header;
  auto stream = co_await client.open_stream(Context{}, to, Method::kReadChunk, request);
  if (!stream) die(stream.error());
  std::vector<std::byte> frame(kFrameBytes);
  for (uint64_t got = 0; got < bytes; got += kFrameBytes) {
    auto received = co_await (*stream)->receive(header);
    if (!received) die(received.error());
    Status payload = co_await (*stream)->receive_payload(frame);
    if (!payload.ok()) die(payload);
  }
  auto end = co_await (*stream)->receive(header);
  if (!end) die(end.error());
  (void)co_await (*stream)->send_end(header);
  client.finish(to, std::move(*stream));
}

asio::awaitable<void> run(runtime::Runtime& runtime, size_t calls, uint64_t stream_bytes) {
  Server server(runtime, Secret{}, nullptr);
  server.handle(Method::kPing,
                [](Context, const proto::ErrorDetail& request,
                   proto::ErrorDetail& response) -> asio::awaitable<Status> {
                  response = request;
                  co_return Status{};
                });
  std::vector<std::byte> frame(kFrameBytes, std::byte{42});
  server.handle_stream(Method::kReadChunk,
                       [&](Context, const proto::Empty&, Stream& stream) -> asio::awaitable<Status> {
                         proto::Empty header;
                         asio::const_buffer payload(frame.data(), frame.size());
                         for (uint64_t sent = 0; sent < stream_bytes; sent += frame.size()) {
                           KINTSUGI_CO_TRY(co_await stream.send(header, std::span(&payload, 1)));
                         }
                         co_return co_await stream.send_end(header);
                       });
  Status started = server.start({"127.0.0.1", 0});
  if (!started.ok()) die(started);
  runtime::Endpoint at = server.local_endpoint();
  Client client(runtime, Secret{});

  for (size_t callers : {1, 16, 64, 256}) {
    size_t share = callers == 1 ? calls / 10 : calls;
    co_await all_callers(runtime, client, at, callers, share / 10 + callers);  // warm
    Measured m = co_await measure(runtime.clock, all_callers(runtime, client, at, callers, share));
    std::printf("unary  %4zu callers: %9.0f calls/s, %.2f us CPU a call\n", callers,
                static_cast<double>(share) / m.seconds, m.cpu / static_cast<double>(share) * 1e6);
  }
  for (int i = 0; i < 3; ++i) {
    Measured m = co_await measure(runtime.clock, download(client, at, stream_bytes));
    double gib = static_cast<double>(stream_bytes) / (1 << 30);
    std::printf("stream %4zu KiB frames: %.2f GiB/s, %.3f CPU s/GiB\n", kFrameBytes >> 10, gib / m.seconds,
                m.cpu / gib);
  }
  co_await client.stop();
  co_await server.stop();
}

}  // namespace
}  // namespace kintsugi::rpc

int main(int argc, char** argv) {
  size_t calls = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 500'000;
  uint64_t gib = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 4;
  kintsugi::runtime::ProductionRuntime production;
  kintsugi::runtime::run_on(production, kintsugi::rpc::run(production.runtime(), calls, gib << 30));
}
