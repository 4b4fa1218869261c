// bench put, get, metadata: what this cluster does for one client. (bench degraded-read:
// degraded_read_bench.cc)
#include <cstdio>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/progress.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

constexpr size_t kPatternBytes = size_t{1} << 20;
constexpr const char* kBenchRoot = "/kintsugi-bench";

struct Arguments {
  uint64_t bytes = uint64_t{1} << 30;
  uint64_t files = 1;
  uint64_t operations = 20000;
  uint64_t parallel = 16;
  std::string policy;
};

/// Endless bytes that no code or disk can take for zeros.
class PatternSource : public client::Source {
 public:
  explicit PatternSource(uint64_t bytes) : bytes_(bytes), pattern_(kPatternBytes) {
    uint64_t state = 0x9E3779B97F4A7C15ull;
    for (std::byte& byte : pattern_) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      byte = static_cast<std::byte>(state);
    }
  }
  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<const std::span<std::byte>> into) override {
    size_t done = 0;
    for (std::span<std::byte> range : into) {
      for (size_t at = 0; at < range.size() && offset + done < bytes_;) {
        const size_t phase = (offset + done) % kPatternBytes;
        const size_t part =
            std::min<uint64_t>({range.size() - at, kPatternBytes - phase, bytes_ - offset - done});
        std::memcpy(range.data() + at, pattern_.data() + phase, part);
        at += part;
        done += part;
      }
    }
    co_return done;
  }
  std::optional<uint64_t> size() const override { return bytes_; }

 private:
  const uint64_t bytes_;
  std::vector<std::byte> pattern_;
};

class NullSink : public client::Sink {
 public:
  asio::awaitable<Status> write(uint64_t, std::span<const std::span<const std::byte>>) override {
    co_return Status{};
  }
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

Status bench_put(Session& session, BlockingClient& client, const Arguments& arguments) {
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

Status bench_get(Session& session, BlockingClient& client, const Arguments& arguments) {
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

/// Shared by the workers of one phase.
struct Phase {
  uint64_t next = 0;
  uint64_t operations = 0;
  Status failure;
};

asio::awaitable<void> create_files(client::Client& client, Phase& phase, std::string directory) {
  while (phase.next < phase.operations && phase.failure.ok()) {
    const uint64_t number = phase.next++;
    client::MemorySource empty{{}};
    client::WriteOptions options;
    options.replace = true;  // an empty file's creation then may repeat
    auto made = co_await client.write(fmt::format("{}/{}", directory, number), empty, std::move(options));
    if (!made) phase.failure = made.error();
  }
}

asio::awaitable<void> stat_files(client::Client& client, Phase& phase, std::string directory,
                                 uint64_t files) {
  while (phase.next < phase.operations && phase.failure.ok()) {
    const uint64_t number = phase.next++ % files;
    auto found = co_await client.stat(fmt::format("{}/{}", directory, number));
    if (!found) phase.failure = found.error();
  }
}

asio::awaitable<Status> run_phase(BlockingClient& client, Phase& phase, uint64_t parallel, bool create,
                                  std::string directory, uint64_t files) {
  runtime::TaskGroup workers(client.runtime().runtime());
  for (uint64_t i = 0; i < parallel; ++i) {
    workers.spawn(create ? create_files(client.async(), phase, directory)
                         : stat_files(client.async(), phase, directory, files));
  }
  co_await workers.join();
  co_return phase.failure;
}

Status bench_metadata(Session& session, BlockingClient& client, const Arguments& arguments) {
  const std::string directory = std::string(kBenchRoot) + "/metadata";
  KINTSUGI_TRY(client.make_directory(directory, true));
  Phase creates{.operations = arguments.operations}, stats{.operations = arguments.operations};
  const Progress create_time("", 0, false);
  KINTSUGI_TRY(
      client.run(run_phase(client, creates, arguments.parallel, true, directory, arguments.operations)));
  const double create_seconds = create_time.seconds();
  const Progress stat_time("", 0, false);
  KINTSUGI_TRY(
      client.run(run_phase(client, stats, arguments.parallel, false, directory, arguments.operations)));
  const double stat_seconds = stat_time.seconds();
  KINTSUGI_TRY(client.remove(directory, true));
  const auto count = static_cast<double>(arguments.operations);
  if (session.json) {
    print_json({{"bench", "metadata"},
                {"operations", arguments.operations},
                {"parallel", arguments.parallel},
                {"creates_per_second", count / create_seconds},
                {"stats_per_second", count / stat_seconds}});
  } else {
    fmt::print("metadata: {:.0f} creates/s, {:.0f} stats/s, {} at once\n", count / create_seconds,
               count / stat_seconds, arguments.parallel);
  }
  return {};
}

}  // namespace

void add_bench_commands(CLI::App& app, Session& session) {
  CLI::App* bench = app.add_subcommand("bench", "Measure this cluster; files go below /kintsugi-bench");
  bench->require_subcommand(1);
  auto arguments = std::make_shared<Arguments>();
  const auto add = [&](const char* name, const char* help, auto action) {
    CLI::App* command = bench->add_subcommand(name, help);
    command->add_flag("--json", session.json, "Print one JSON document");
    command->callback([&session, arguments, name, action] {
      session.choose(std::string("bench ") + name, [&session, arguments, action]() -> Status {
        KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
        return action(session, *client, *arguments);
      });
    });
    return command;
  };
  CLI::App* put = add("put", "Write files that stay for `bench get`", bench_put);
  CLI::App* get = add("get", "Read the files of `bench put`", bench_get);
  for (CLI::App* command : {put, get}) {
    command->add_option("--size", arguments->bytes, "Of a file; default 1GiB")
        ->transform(CLI::AsSizeValue(false));
    command->add_option("--files", arguments->files, "Default: 1")->check(CLI::PositiveNumber);
  }
  put->add_option("--policy", arguments->policy, "Instead of the directory's policy");
  CLI::App* metadata = add("metadata", "Create and stat empty files", bench_metadata);
  metadata->add_option("--operations", arguments->operations, "Of each kind; default 20000")
      ->check(CLI::PositiveNumber);
  metadata->add_option("--parallel", arguments->parallel, "At once; default 16")->check(CLI::Range(1, 1024));
  add_degraded_read_bench(*bench, session);
}

}  // namespace kintsugi::cli
