// Measures streaming through Connection and File beside the plain blocking calls. CPU seconds count both
// ends of a stream and all threads of the process.
//   runtime_bench --benchmark_counters_tabular=true
#include <cstdlib>
#include <thread>

#include <benchmark/benchmark.h>
#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/runtime/buffer_pool.h"
#include "common/runtime/production/run.h"
#include "common/runtime/task_group.h"

namespace kintsugi::runtime {
namespace {

constexpr size_t kStreamBytes = size_t{2} << 30;
constexpr size_t kFileBytes = size_t{512} << 20;
constexpr double kGiB = 1 << 30;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Reports CPU seconds per GiB of what happened between construction and `done`.
class CpuMeter {
 public:
  explicit CpuMeter(benchmark::State& state) : state_(state), start_(cpu_seconds()) {}
  ~CpuMeter() {
    double gib = static_cast<double>(state_.bytes_processed()) / kGiB;
    state_.counters["cpu_s_per_GiB"] = (cpu_seconds() - start_) / gib;
  }

 private:
  benchmark::State& state_;
  double start_;
};

void blocking_send(int fd, const std::vector<std::byte>& buffer, size_t total) {
  for (size_t sent = 0; sent < total; sent += buffer.size()) {
    for (size_t done = 0; done < buffer.size();) {
      ssize_t count = ::send(fd, buffer.data() + done, buffer.size() - done, MSG_NOSIGNAL);
      if (count <= 0) std::abort();
      done += static_cast<size_t>(count);
    }
  }
}

void blocking_receive(int fd, std::vector<std::byte>& buffer, size_t total) {
  for (size_t received = 0; received < total;) {
    for (size_t done = 0; done < buffer.size();) {
      ssize_t count = ::recv(fd, buffer.data() + done, buffer.size() - done, 0);
      if (count <= 0) std::abort();
      done += static_cast<size_t>(count);
    }
    received += buffer.size();
  }
}

/// One handler after the other, whose turns are measured as in a daemon (1) or not (0).
void BM_LoopTurn(benchmark::State& state) {
  constexpr int kTurns = 100'000;
  ProductionRuntime production;
  if (state.range(0) != 0) production.measure_turns();
  const auto turns = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < kTurns; ++i)
      co_await asio::post(production.runtime().executor, asio::use_awaitable);
  };
  for (auto _ : state)
    run_on(production, turns());
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kTurns);
}

void BM_BlockingStream(benchmark::State& state) {
  auto bytes = static_cast<size_t>(state.range(0));
  int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, generic, length) != 0 || ::listen(listener, 1) != 0) std::abort();
  ::getsockname(listener, generic, &length);
  int sender = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(sender, generic, length) != 0) std::abort();
  int receiver = ::accept(listener, nullptr, nullptr);
  int on = 1;
  ::setsockopt(sender, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::vector<std::byte> from(bytes), to(bytes);
  {
    CpuMeter meter(state);
    for (auto _ : state) {
      std::thread thread([&] { blocking_send(sender, from, kStreamBytes); });
      blocking_receive(receiver, to, kStreamBytes);
      thread.join();
    }
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kStreamBytes));
  }
  for (int fd : {listener, sender, receiver})
    ::close(fd);
}

asio::awaitable<void> send_stream(Connection& to, const std::vector<std::byte>& buffer, size_t total) {
  std::vector<asio::const_buffer> buffers{asio::buffer(buffer)};
  for (size_t sent = 0; sent < total; sent += buffer.size()) {
    Status status = co_await to.write(buffers);
    KINTSUGI_ASSERT(status.ok());
  }
}

asio::awaitable<void> receive_stream(Connection& from, std::vector<std::byte>& buffer, size_t total) {
  for (size_t received = 0; received < total; received += buffer.size()) {
    Status status = co_await from.read_exact(buffer);
    KINTSUGI_ASSERT(status.ok());
  }
}

asio::awaitable<std::unique_ptr<Connection>> take(Listener& listener) {
  auto connection = co_await listener.accept();
  co_return std::move(*connection);
}

asio::awaitable<std::unique_ptr<Connection>> call(Network& network, Endpoint to) {
  auto connection = co_await network.dial(to, TimePoint::max());
  co_return std::move(*connection);
}

void BM_ConnectionStream(benchmark::State& state) {
  auto bytes = static_cast<size_t>(state.range(0));
  ProductionRuntime here, there;
  auto listener = *here.runtime().network.listen({"127.0.0.1", 0});
  auto sender = run_on(there, call(there.runtime().network, listener->local_endpoint()));
  auto receiver = run_on(here, take(*listener));
  std::vector<std::byte> from(bytes), to(bytes);
  {
    LoopThread thread(there);
    CpuMeter meter(state);
    for (auto _ : state) {
      std::thread waiter([&] { run_on(there, send_stream(*sender, from, kStreamBytes)); });
      run_on(here, receive_stream(*receiver, to, kStreamBytes));
      waiter.join();
    }
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kStreamBytes));
  }
}

asio::awaitable<void> echo(Connection& connection, size_t rounds) {
  std::array<std::byte, 64> bytes{};
  std::vector<asio::const_buffer> buffers{asio::buffer(bytes.data(), bytes.size() / 2)};
  for (size_t i = 0; i < rounds; ++i) {
    auto count = co_await connection.read_some(bytes);
    KINTSUGI_ASSERT(count);
    Status status = co_await connection.write(buffers);
    KINTSUGI_ASSERT(status.ok());
  }
}

asio::awaitable<void> ask(Connection& connection, size_t rounds) {
  std::array<std::byte, 64> bytes{};
  std::vector<asio::const_buffer> buffers{asio::buffer(bytes.data(), bytes.size() / 2)};
  for (size_t i = 0; i < rounds; ++i) {
    Status status = co_await connection.write(buffers);
    KINTSUGI_ASSERT(status.ok());
    auto count = co_await connection.read_some(bytes);
    KINTSUGI_ASSERT(count);
  }
}

void BM_ConnectionRoundTrip(benchmark::State& state) {
  constexpr size_t kRounds = 20'000;
  ProductionRuntime here, there;
  auto listener = *here.runtime().network.listen({"127.0.0.1", 0});
  auto client = run_on(there, call(there.runtime().network, listener->local_endpoint()));
  auto server = run_on(here, take(*listener));
  LoopThread thread(there);
  double start = cpu_seconds();
  for (auto _ : state) {
    std::thread waiter([&] { run_on(there, ask(*client, kRounds)); });
    run_on(here, echo(*server, kRounds));
    waiter.join();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRounds));
  state.counters["cpu_us_each"] =
      (cpu_seconds() - start) * 1e6 / static_cast<double>(state.iterations() * kRounds);
}

std::string bench_path() {
  const char* directory = std::getenv("BENCH_DIR");
  return std::string(directory ? directory : "/var/tmp") + "/kintsugi_runtime_bench_" +
         std::to_string(getpid());
}

/// One buffer after the other, as fio with numjobs=1, iodepth=1, ioengine=psync, direct=1.
void BM_BlockingFile(benchmark::State& state) {
  auto bytes = static_cast<size_t>(state.range(0));
  bool writes = state.range(1) != 0;
  std::string path = bench_path();
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_TRUNC, 0600);
  auto* buffer = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
  std::memset(buffer, 1, bytes);
  for (size_t offset = 0; offset < kFileBytes; offset += bytes) {
    if (::pwrite(fd, buffer, bytes, static_cast<off_t>(offset)) < 0) std::abort();
  }
  ::fsync(fd);
  {
    CpuMeter meter(state);
    for (auto _ : state) {
      for (size_t offset = 0; offset < kFileBytes; offset += bytes) {
        auto at = static_cast<off_t>(offset);
        ssize_t count = writes ? ::pwrite(fd, buffer, bytes, at) : ::pread(fd, buffer, bytes, at);
        if (count != static_cast<ssize_t>(bytes)) std::abort();
      }
      if (writes) ::fdatasync(fd);
    }
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kFileBytes));
  }
  ::close(fd);
  ::unlink(path.c_str());
  std::free(buffer);
}

asio::awaitable<void> transfer_part(File& file, Buffer& buffer, bool writes, size_t first, size_t step) {
  for (size_t offset = first; offset < kFileBytes; offset += step) {
    if (writes) {
      Status status = co_await file.write(offset, buffer.span());
      KINTSUGI_ASSERT(status.ok());
    } else {
      auto count = co_await file.read(offset, buffer.span());
      KINTSUGI_ASSERT(count && *count == buffer.size());
    }
  }
}

asio::awaitable<void> transfer(const Runtime& runtime, File& file, BufferPool& pool, bool writes,
                               size_t depth) {
  TaskGroup tasks(runtime);
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < depth; ++i)
    buffers.push_back(pool.try_acquire());
  size_t bytes = pool.buffer_bytes();
  for (size_t i = 0; i < depth; ++i) {
    tasks.spawn(transfer_part(file, buffers[i], writes, i * bytes, depth * bytes));
  }
  co_await tasks.join();
  if (writes) {
    Status status = co_await file.sync();
    KINTSUGI_ASSERT(status.ok());
  }
}

asio::awaitable<std::unique_ptr<File>> create(Disk& disk, std::string path) {
  auto file = co_await disk.open(path, OpenMode::kCreate);
  co_return std::move(*file);
}

void BM_DiskFile(benchmark::State& state) {
  auto bytes = static_cast<size_t>(state.range(0));
  bool writes = state.range(1) != 0;
  auto depth = static_cast<size_t>(state.range(2));
  std::string path = bench_path();
  ProductionRuntime production;
  BufferPool pool(production.runtime(), depth, bytes);
  auto file = run_on(production, create(production.runtime().disk, path));
  run_on(production, transfer(production.runtime(), *file, pool, true, depth));
  {
    CpuMeter meter(state);
    for (auto _ : state)
      run_on(production, transfer(production.runtime(), *file, pool, writes, depth));
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kFileBytes));
  }
  ::unlink(path.c_str());
}

BENCHMARK(BM_LoopTurn)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_BlockingStream)->Arg(256 << 10)->Arg(1 << 20)->UseRealTime();
BENCHMARK(BM_ConnectionStream)->Arg(256 << 10)->Arg(1 << 20)->UseRealTime();
BENCHMARK(BM_ConnectionRoundTrip)->UseRealTime();
BENCHMARK(BM_BlockingFile)->ArgNames({"bytes", "writes"})->ArgsProduct({{1 << 20}, {0, 1}})->UseRealTime();
BENCHMARK(BM_DiskFile)
    ->ArgNames({"bytes", "writes", "depth"})
    ->ArgsProduct({{1 << 20}, {0, 1}, {1, 4}})
    ->UseRealTime();

}  // namespace
}  // namespace kintsugi::runtime

BENCHMARK_MAIN();
