// A repair over a tree of real chunkserver processes on loopback: MB/s of rebuilt chunk, and the nanoseconds
// of CPU that a node spends on each byte that it receives, reads, adds up and forwards, beside the floor of
// its unavoidable parts.
//   repair_tree_bench [chain|star|ppr] [helpers=12] [chunk MiB=64] [slice KiB=512] [directory=/dev/shm]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chunkserver/service/chunkserver.h"
#include "common/log/log.h"
#include "common/proto/chunk.pb.h"
#include "common/runtime/production/run.h"
#include "erasure/multiply.h"

namespace kintsugi {
namespace {

constexpr uint16_t kPort = 29'700;
constexpr int kRuns = 5;
constexpr size_t kFrameBytes = 1 << 20;

struct Setup {
  std::string shape = "chain";
  size_t helpers = 12;
  uint64_t chunk_bytes = 64ull << 20;
  uint64_t slice_bytes = 512 << 10;
  std::filesystem::path directory = "/dev/shm";
};

void die(const std::string& why) {
  std::fprintf(stderr, "repair_tree_bench: %s\n", why.c_str());
  std::exit(1);
}

runtime::Endpoint endpoint(size_t i) {
  return {"127.0.0.1", static_cast<uint16_t>(kPort + i)};
}

asio::awaitable<void> serve(const runtime::Runtime& runtime, chunkserver::Options options) {
  auto server = std::make_unique<chunkserver::ChunkServer>(runtime, options, rpc::Secret{});
  Status started = co_await server->start();
  if (!started.ok()) die(started.to_string());
  runtime::TaskGroup forever(runtime);
  co_await forever.sleep_for(std::chrono::hours(1));
}

pid_t start_server(size_t i, const Setup& setup) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  log::set_sink([](log::Level, std::string_view) {});
  chunkserver::Options options;
  options.listen = endpoint(i);
  options.metaserver = {"127.0.0.1", 1};
  options.disks = {(setup.directory / std::to_string(i)).string()};
  options.cache_memory_bytes = 0;
  std::filesystem::create_directories(options.disks[0]);
  runtime::ProductionRuntime production;
  runtime::run_on(production, serve(production.runtime(), options));
  std::_Exit(0);
}

/// User and system time of a process.
double cpu_seconds(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i)
    fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::string capability(uint64_t stripe, uint32_t index, const runtime::Clock& clock) {
  return rpc::make_capability(rpc::Secret{}, {StripeId(stripe), index},
                              rpc::kOpRead | rpc::kOpWrite | rpc::kOpRepair, clock.wall_now() + 1h);
}

std::vector<std::byte> random_bytes(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> data(bytes);
  for (size_t at = 0; at + 8 <= bytes; at += 8) {
    const uint64_t word = random();
    std::memcpy(data.data() + at, &word, 8);
  }
  return data;
}

asio::awaitable<Status> put(rpc::Client& client, const runtime::Clock& clock, size_t server,
                            std::span<const std::byte> bytes) {
  proto::WriteChunkRequest request;
  request.set_stripe_id(1);
  request.set_index(static_cast<uint32_t>(server));
  request.set_policy("rs-12-4-1024k");
  request.set_capability(capability(1, static_cast<uint32_t>(server), clock));
  request.set_max_bytes(bytes.size());
  KINTSUGI_CO_ASSIGN(auto stream, co_await client.open_stream(Context{}, endpoint(server),
                                                              rpc::Method::kWriteChunk, request));
  for (size_t at = 0; at < bytes.size(); at += kFrameBytes) {
    const auto part = bytes.subspan(at, std::min(kFrameBytes, bytes.size() - at));
    proto::WriteChunkData data;
    data.set_offset(at);
    for (uint32_t crc : crc32c_blocks(part))
      data.add_block_crcs(crc);
    const asio::const_buffer payload(part.data(), part.size());
    KINTSUGI_CO_TRY(co_await stream->send(data, std::span(&payload, 1)));
  }
  proto::WriteChunkSeal seal;
  seal.set_length(bytes.size());
  seal.set_crc(crc32c(bytes));
  KINTSUGI_CO_TRY(co_await stream->send_end(seal));
  proto::WriteChunkDone done;
  auto answer = co_await stream->receive(done);
  if (!answer) co_return answer.error();
  co_return Status{};
}

/// Helpers 0.. in the shape, below the root.
proto::RepairChunkRequest request_of(const Setup& setup, uint32_t crc, const runtime::Clock& clock) {
  proto::RepairChunkRequest request;
  const auto root = static_cast<uint32_t>(setup.helpers);
  request.set_stripe_id(1);
  request.set_index(root);
  request.set_policy("rs-12-4-1024k");
  request.set_length(setup.chunk_bytes);
  request.set_crc(crc);
  request.set_slice_bytes(setup.slice_bytes);
  request.set_capability(capability(1, root, clock));
  std::vector<proto::RepairNode> nodes(setup.helpers + 1);
  for (size_t i = setup.helpers; i >= 1; --i) {
    proto::RepairNode& node = nodes[i];
    node.set_server_id(i);
    node.set_address(endpoint(i - 1).to_string());
    node.set_index(static_cast<uint32_t>(i - 1));
    node.set_chunk_length(setup.chunk_bytes);
    node.set_coefficients(std::string(1, static_cast<char>(i + 1)));
    node.set_capability(capability(1, node.index(), clock));
    const size_t parent = setup.shape == "star" ? 0 : setup.shape == "chain" ? i - 1 : i & (i - 1);
    if (parent == 0) {
      *request.add_children() = node;
    } else {
      *nodes[parent].add_children() = node;
    }
  }
  std::reverse(request.mutable_children()->begin(), request.mutable_children()->end());
  return request;
}

double nanoseconds_per_byte(const std::function<void()>& work, size_t bytes) {
  constexpr int kTimes = 200;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i)
    work();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
  return took.count() / kTimes / static_cast<double>(bytes);
}

/// Work that a node of a chain cannot avoid, measured alone on this machine.
void print_floor() {
  std::vector<std::byte> from = random_bytes(128 << 10, 1), to = random_bytes(128 << 10, 2);
  const std::array<uint8_t, 1> factor{7};
  const erasure::MultiplyTable table(factor);
  const std::span<std::byte> sum(to);
  const double copy =
      nanoseconds_per_byte([&] { std::memcpy(to.data(), from.data(), from.size()); }, from.size());
  const double crc = nanoseconds_per_byte([&] { from[0] ^= std::byte(crc32c(from) & 1); }, from.size());
  const double add = nanoseconds_per_byte([&] { table.multiply_add(from, std::span(&sum, 1)); }, from.size());
  std::printf(
      "floor of a node, ns/byte in cache: copy %.3f (receive, send, disk: 3), crc32c %.3f (in, disk, out: "
      "3), "
      "multiply-add %.3f: %.3f\n",
      copy, crc, add, 3 * copy + 3 * crc + add);
}

asio::awaitable<void> run(const runtime::Runtime& runtime, const Setup& setup,
                          const std::vector<pid_t>& servers) {
  rpc::Client client(runtime, rpc::Secret{});
  runtime::TaskGroup group(runtime);
  co_await group.sleep_for(2s);
  std::vector<std::byte> sum(setup.chunk_bytes);
  for (size_t i = 0; i < setup.helpers; ++i) {
    const std::vector<std::byte> chunk = random_bytes(setup.chunk_bytes, i);
    const std::array<uint8_t, 1> factor{static_cast<uint8_t>(i + 2)};
    const std::span<std::byte> into(sum);
    erasure::multiply_add(factor, chunk, std::span(&into, 1));
    Status stored = co_await put(client, runtime.clock, i, chunk);
    if (!stored.ok()) die(stored.to_string());
  }
  const proto::RepairChunkRequest request = request_of(setup, crc32c(sum), runtime.clock);
  print_floor();
  for (int i = 0; i < kRuns; ++i) {
    double cpu = 0;
    for (pid_t pid : servers)
      cpu -= cpu_seconds(pid);
    const TimePoint began = runtime.clock.now();
    Context context;
    context.deadline = began + 5min;
    proto::RepairChunkResponse response;
    const Status repaired =
        co_await client.call(context, endpoint(setup.helpers), rpc::Method::kRepairChunk, request, response);
    if (!repaired.ok()) die(repaired.to_string());
    const double took = std::chrono::duration<double>(runtime.clock.now() - began).count();
    for (pid_t pid : servers)
      cpu += cpu_seconds(pid);
    const auto bytes = static_cast<double>(setup.chunk_bytes);
    std::printf(
        "%s of %zu, %lu MiB, slices of %lu KiB: %6.1f MB/s, %.2f CPU s, %.3f ns/byte and node, peak %lu "
        "KiB\n",
        setup.shape.c_str(), setup.helpers, setup.chunk_bytes >> 20, setup.slice_bytes >> 10,
        bytes / took / 1e6, cpu, cpu * 1e9 / bytes / static_cast<double>(servers.size()),
        response.timing().peak_bytes() >> 10);
  }
  co_await client.stop();
}

}  // namespace
}  // namespace kintsugi

int main(int argc, char** argv) {
  using namespace kintsugi;
  Setup setup;
  if (argc > 1) setup.shape = argv[1];
  if (argc > 2) setup.helpers = std::strtoul(argv[2], nullptr, 10);
  if (argc > 3) setup.chunk_bytes = std::strtoul(argv[3], nullptr, 10) << 20;
  if (argc > 4) setup.slice_bytes = std::strtoul(argv[4], nullptr, 10) << 10;
  if (argc > 5) setup.directory = argv[5];
  setup.directory /= "kintsugi-repair-tree-bench-" + std::to_string(getpid());
  std::vector<pid_t> servers;
  for (size_t i = 0; i <= setup.helpers; ++i)
    servers.push_back(start_server(i, setup));
  {
    runtime::ProductionRuntime production;
    runtime::run_on(production, run(production.runtime(), setup, servers));
  }
  for (pid_t pid : servers) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  std::filesystem::remove_all(setup.directory);
}
