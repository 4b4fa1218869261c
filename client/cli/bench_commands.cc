// bench put, get, metadata: what this cluster does for one client. (bench degraded-read: degraded_read_bench.cc)
#include <cstdio>

#include "client/cli/bench_io.h"
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/progress.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kBenchRoot = "/kintsugi-bench";
constexpr uint64_t kMostParallel = 1024;

struct BenchArguments {
  uint64_t bytes = uint64_t{1} << 30;
  uint64_t files = 1;
  uint64_t operations = 20000;
  uint64_t parallel = 16;
  std::string policy;
};

std::string file_name(uint64_t number) {
  return fmt::format("{}/data-{}", kBenchRoot, number);
}

void report(Session& session, const char* what, uint64_t bytes, double seconds) {
  if (session.json) {
    print_json({{"bench", what},
                {"bytes", bytes},
                {"seconds", seconds},
                {"bytes_per_second", seconds > 0 ? static_cast<double>(bytes) / seconds : 0.0}});
  } else {
    fmt::print("{}: {} in {}\n", what, human_bytes(bytes), rate_text(bytes, seconds));
  }
}

Status bench_put(Session& session, BlockingClient& client, const BenchArguments& arguments) {
  KINTSUGI_TRY(client.make_directory(kBenchRoot, true));
  Progress progress("bench put", arguments.bytes * arguments.files);
  for (uint64_t i = 0; i < arguments.files; ++i) {
    PatternSource source(arguments.bytes);
    client::WriteOptions options;
    options.replace = true;
    options.policy = arguments.policy;
    options.progress = [&progress](uint64_t bytes) { progress.add(bytes); };
    auto written = client.write(file_name(i), source, std::move(options));
    if (!written) return written.error();
  }
  report(session, "put", arguments.bytes * arguments.files, progress.seconds());
  return {};
}

Status bench_get(Session& session, BlockingClient& client, const BenchArguments& arguments) {
  Progress progress("bench get", arguments.bytes * arguments.files);
  for (uint64_t i = 0; i < arguments.files; ++i) {
    NullSink sink;
    client::ReadOptions options;
    options.progress = [&progress](uint64_t bytes) { progress.add(bytes); };
    auto read = client.read(file_name(i), sink, std::move(options));
    if (!read) return read.error().with_context("run `bench put` first");
  }
  report(session, "get", progress.bytes(), progress.seconds());
  return {};
}

// ---- metadata

/// One operation, done to the files 0, 1, ... of a directory by several workers that share this. All run on the
/// client's one thread, so that plain counters do.
struct Phase {
  uint64_t next = 0;
  uint64_t operations = 0;
  Status failure = {};  ///< the first failure, which ends the phase
};

using PhaseWorker = asio::awaitable<void> (*)(client::Client&, Phase&, std::string directory);

asio::awaitable<void> create_files(client::Client& client, Phase& phase, std::string directory) {
  while (phase.next < phase.operations && phase.failure.ok()) {
    const uint64_t number = phase.next++;
    client::MemorySource empty{{}};
    client::WriteOptions options;
    options.replace = true;  // makes repeating the creation of an empty file harmless
    auto made = co_await client.write(fmt::format("{}/{}", directory, number), empty, std::move(options));
    if (!made) phase.failure = made.error();
  }
}

asio::awaitable<void> stat_files(client::Client& client, Phase& phase, std::string directory) {
  while (phase.next < phase.operations && phase.failure.ok()) {
    const uint64_t number = phase.next++;
    auto found = co_await client.stat(fmt::format("{}/{}", directory, number));
    if (!found) phase.failure = found.error();
  }
}

asio::awaitable<Status> run_workers(BlockingClient& client, const BenchArguments& arguments,
                                    PhaseWorker worker, std::string directory) {
  Phase phase{.operations = arguments.operations};
  runtime::TaskGroup workers(client.runtime().runtime());
  for (uint64_t i = 0; i < arguments.parallel; ++i)
    workers.spawn(worker(client.async(), phase, directory));
  co_await workers.join();
  co_return phase.failure;
}

/// Operations per second.
Result<double> run_phase(BlockingClient& client, const BenchArguments& arguments, PhaseWorker worker,
                         const std::string& directory) {
  const auto began = SteadyClock::now();
  KINTSUGI_TRY(client.run(run_workers(client, arguments, worker, directory)));
  return static_cast<double>(arguments.operations) / to_seconds(SteadyClock::now() - began);
}

Status bench_metadata(Session& session, BlockingClient& client, const BenchArguments& arguments) {
  const std::string directory = std::string(kBenchRoot) + "/metadata";
  KINTSUGI_TRY(client.make_directory(directory, true));
  KINTSUGI_ASSIGN(const double creates, run_phase(client, arguments, create_files, directory));
  KINTSUGI_ASSIGN(const double stats, run_phase(client, arguments, stat_files, directory));
  KINTSUGI_TRY(client.remove(directory, true));
  if (session.json) {
    print_json({{"bench", "metadata"},
                {"operations", arguments.operations},
                {"parallel", arguments.parallel},
                {"creates_per_second", creates},
                {"stats_per_second", stats}});
  } else {
    fmt::print("metadata: {:.0f} creates/s, {:.0f} stats/s, {} at once\n", creates, stats,
               arguments.parallel);
  }
  return {};
}

}  // namespace

std::vector<Command> bench_commands() {
  const auto a = std::make_shared<BenchArguments>();
  const Option size{"--size", Bytes{&a->bytes}, "Bytes of a file; default: 1GiB"};
  const Option files{
      .names = "--files", .target = &a->files, .help = "How many files; default: 1", .least = 1};
  const Option policy{"--policy", &a->policy, "Policy to use instead of the directory's"};
  return {{.name = "bench",
           .help = "Measure this cluster; files go below /kintsugi-bench",
           .commands = {{.name = "put",
                         .help = "Write files that stay for `bench get`",
                         .options = {size, files, policy},
                         .prints_json = true,
                         .run = connected(a, bench_put)},
                        {.name = "get",
                         .help = "Read the files of `bench put`",
                         .options = {size, files},
                         .prints_json = true,
                         .run = connected(a, bench_get)},
                        {.name = "metadata",
                         .help = "Create and stat empty files",
                         .options = {{.names = "--operations",
                                      .target = &a->operations,
                                      .help = "How many of each kind; default: 20000",
                                      .least = 1},
                                     {.names = "--parallel",
                                      .target = &a->parallel,
                                      .help = "How many at once; default: 16",
                                      .least = 1,
                                      .most = kMostParallel}},
                         .prints_json = true,
                         .run = connected(a, bench_metadata)},
                        degraded_read_bench()}}};
}

}  // namespace kintsugi::cli
