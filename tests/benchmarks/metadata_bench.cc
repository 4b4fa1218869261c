// Metadata operations a second: a metaserver on RocksDB (synced) and a client with many concurrent callers,
// each on its own thread, over loopback RPC. First by path, then by inode, as a mount and the library do it.
//
//   metadata_bench [callers] [creates] [stats] [directory [recorded]]
//
// `recorded`: the server records its modules and open work and measures the turns of its loop, as the daemon does.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <sys/resource.h>

#include "common/log/log.h"
#include "common/proto/inode.pb.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/runtime/production/run.h"
#include "common/runtime/task_group.h"
#include "metaserver/kv/rocksdb_store.h"
#include "metaserver/service/metaserver.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi {
namespace {

constexpr int kDirectories = 16;

struct Load {
  rpc::Client& client;
  runtime::Endpoint at;
  uint64_t left;
  uint64_t failed = 0;
  uint64_t changes = 0;  ///< numbers of the session's changes
  std::vector<uint64_t> directories, files;
};

constexpr uint64_t kSession = 1;

std::string path_of(uint64_t i) {
  return fmt::format("/bench/d{}/file-{}", i % kDirectories, i);
}

asio::awaitable<void> create_files(Load& load) {
  while (load.left > 0) {
    proto::CommitFileRequest request;
    request.set_path(path_of(--load.left));
    request.set_mode(0644);
    proto::CommitFileResponse response;
    const Status made =
        co_await load.client.call(Context{}, load.at, rpc::Method::kCommitFile, request, response);
    if (!made.ok()) ++load.failed;
  }
}

asio::awaitable<void> stat_files(Load& load, uint64_t files) {
  while (load.left > 0) {
    proto::StatRequest request;
    request.set_path(path_of(--load.left * 7919 % files));
    proto::StatResponse response;
    const Status found = co_await load.client.call(Context{}, load.at, rpc::Method::kStat, request, response);
    if (!found.ok()) ++load.failed;
  }
}

asio::awaitable<Result<uint64_t>> make_inode(Load& load, uint64_t parent, std::string name,
                                             proto::Attributes::Type type) {
  proto::MakeInodeRequest request;
  request.set_parent(parent);
  request.set_name(std::move(name));
  request.set_type(type);
  request.set_mode(type == proto::Attributes::DIRECTORY ? 0755 : 0644);
  request.set_lease(type == proto::Attributes::DIRECTORY);
  request.mutable_change()->set_session(kSession);
  request.mutable_change()->set_number(++load.changes);
  request.mutable_change()->set_generation(1);
  proto::InodeResponse response;
  KINTSUGI_CO_TRY(co_await load.client.call(Context{}, load.at, rpc::Method::kMakeInode, request, response));
  co_return response.attributes().inode();
}

asio::awaitable<void> create_inodes(Load& load) {
  while (load.left > 0) {
    const uint64_t i = --load.left;
    const auto made = co_await make_inode(load, load.directories[i % kDirectories],
                                          fmt::format("inode-{}", i), proto::Attributes::FILE);
    if (made) {
      load.files.push_back(*made);
    } else {
      ++load.failed;
    }
  }
}

asio::awaitable<void> stat_inodes(Load& load) {
  while (load.left > 0) {
    proto::GetInodeRequest request;
    request.set_session(kSession);
    request.set_inode(load.files[--load.left * 7919 % load.files.size()]);
    proto::InodeResponse response;
    const Status found =
        co_await load.client.call(Context{}, load.at, rpc::Method::kGetInode, request, response);
    if (!found.ok()) ++load.failed;
  }
}

/// Makes files as a client does under the lease of a directory: many in one call (LeasedNames). Each caller has a directory of its own.
asio::awaitable<void> write_names(Load& load, uint64_t directory) {
  constexpr uint32_t kAtOnce = 500;
  uint64_t number = 0;
  while (load.left > 0) {
    proto::ReserveInodesRequest reserve;
    reserve.set_session(kSession);
    reserve.set_count(static_cast<uint32_t>(std::min<uint64_t>(kAtOnce, load.left)));
    proto::ReserveInodesResponse reserved;
    Status status =
        co_await load.client.call(Context{}, load.at, rpc::Method::kReserveInodes, reserve, reserved);
    const uint64_t count = std::min<uint64_t>(reserved.count(), load.left);
    load.left -= status.ok() ? count : load.left;
    proto::WriteNamesRequest request;
    request.set_session(kSession);
    for (uint64_t i = 0; i < count; ++i) {
      proto::NameChange& change = *request.add_changes();
      change.set_inode(reserved.first() + i);
      change.mutable_make()->set_parent(directory);
      change.mutable_make()->set_name(fmt::format("leased-{}", ++number));
      change.mutable_make()->set_type(proto::Attributes::FILE);
      change.mutable_make()->set_mode(0644);
    }
    proto::WriteNamesResponse response;
    if (status.ok())
      status = co_await load.client.call(Context{}, load.at, rpc::Method::kWriteNames, request, response);
    for (const auto& change : response.changes())
      load.failed += change.code() != 0;
    if (!status.ok()) load.failed += count;
  }
}

asio::awaitable<Status> make_directories_by_inode(Load& load) {
  proto::KeepSessionRequest keep;
  keep.set_session(kSession);
  keep.set_all(true);
  proto::KeepSessionResponse kept;
  KINTSUGI_CO_TRY(co_await load.client.call(Context{}, load.at, rpc::Method::kKeepSession, keep, kept));
  for (int i = 0; i < kDirectories; ++i) {
    KINTSUGI_CO_ASSIGN(const uint64_t inode,
                       co_await make_inode(load, 1, fmt::format("d{}", i), proto::Attributes::DIRECTORY));
    load.directories.push_back(inode);
  }
  co_return Status{};
}

asio::awaitable<Status> make_directories(Load& load) {
  for (int i = 0; i < kDirectories; ++i) {
    proto::MakeDirectoryRequest request;
    request.set_path(fmt::format("/bench/d{}", i));
    request.set_parents(true);
    proto::Empty response;
    KINTSUGI_CO_TRY(
        co_await load.client.call(Context{}, load.at, rpc::Method::kMakeDirectory, request, response));
  }
  co_return Status{};
}

asio::awaitable<void> run_all(const runtime::Runtime& runtime, std::vector<asio::awaitable<void>> callers) {
  runtime::TaskGroup group(runtime);
  for (auto& caller : callers)
    group.spawn(std::move(caller));
  co_await group.join();
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <class MakeCaller>
void measure(runtime::ProductionRuntime& production, const char* what, Load& load, int callers,
             MakeCaller make) {
  const uint64_t operations = load.left;
  std::vector<asio::awaitable<void>> tasks;
  for (int i = 0; i < callers; ++i)
    tasks.push_back(make());
  const double cpu = cpu_seconds();
  const TimePoint begin = production.runtime().clock.now();
  runtime::run_on(production, run_all(production.runtime(), std::move(tasks)));
  const double seconds = std::chrono::duration<double>(production.runtime().clock.now() - begin).count();
  std::printf(
      "%-8s %8llu operations, %d callers: %7.3f s, %9.0f/s, %5.1f us CPU each (both sides), %llu failed\n",
      what, static_cast<unsigned long long>(operations), callers, seconds,
      static_cast<double>(operations) / seconds,
      (cpu_seconds() - cpu) / static_cast<double>(operations) * 1e6,
      static_cast<unsigned long long>(load.failed));
}

/// How many turns of the server's loop there were since the last call, and how long they took.
class Turns {
 public:
  explicit Turns(runtime::ProductionRuntime& server) : server_(server), turns_(server.measure_turns()) {
    turns_.on_long = [this](std::string_view ran, Duration took) {
      if (took > longest_) ran_ = ran;
      longest_ = std::max(longest_, took);
    };
  }
  void tell(uint64_t operations) { runtime::run_on(server_, tell_on_loop(operations)); }

 private:
  asio::awaitable<void> tell_on_loop(uint64_t operations) {
    uint64_t turns = 0, long_ones = 0;
    for (size_t i = 0; i < turns_.totals().turns.size(); ++i) {
      turns += turns_.totals().turns[i];
      if (i > 0) long_ones += turns_.totals().turns[i];
    }
    std::printf(
        "         %.2f turns each, %.2f us of the loop each; %llu of 1 ms and more, the longest %.1f ms %s\n",
        static_cast<double>(turns - before_) / static_cast<double>(operations),
        to_seconds(turns_.totals().ran - ran_before_) / static_cast<double>(operations) * 1e6,
        static_cast<unsigned long long>(long_ones - long_before_), to_seconds(longest_) * 1e3, ran_.c_str());
    before_ = turns;
    long_before_ = long_ones;
    ran_before_ = turns_.totals().ran;
    longest_ = {};
    ran_.clear();
    co_return;
  }

  runtime::ProductionRuntime& server_;
  runtime::LoopTurns& turns_;
  uint64_t before_ = 0, long_before_ = 0;
  Duration ran_before_{}, longest_{};
  std::string ran_;
};

int run(int callers, uint64_t creates, uint64_t stats, const std::string& directory, bool recorded) {
  runtime::ProductionRuntime server_side, client_side;
  auto store = metaserver::RocksDbStore::open(server_side.runtime().executor, directory);
  if (!store) return std::fprintf(stderr, "%s\n", store.error().to_string().c_str()), 1;
  sight::Recorder recorder(server_side.runtime().clock, 1);
  std::optional<Turns> turns;
  if (recorded) turns.emplace(server_side);
  const auto tell = [&](uint64_t operations) {
    if (turns) turns->tell(operations);
  };
  metaserver::MetaServer meta(server_side.runtime(), {.recorder = recorded ? &recorder : nullptr},
                              rpc::Secret{}, **store);
  runtime::LoopThread server_thread(server_side);
  const Status started = runtime::run_on(server_side, meta.start());
  if (!started.ok()) return std::fprintf(stderr, "%s\n", started.to_string().c_str()), 1;
  {
    rpc::Client client(client_side.runtime(), rpc::Secret{});
    Load load{client, meta.endpoint(), 0};
    const Status ready = runtime::run_on(client_side, make_directories(load));
    if (!ready.ok()) return std::fprintf(stderr, "%s\n", ready.to_string().c_str()), 1;
    load.left = creates;
    measure(client_side, "create", load, callers, [&] { return create_files(load); });
    tell(creates);
    load.left = stats;
    measure(client_side, "stat", load, callers, [&] { return stat_files(load, creates); });
    tell(stats);
    const Status by_inode = runtime::run_on(client_side, make_directories_by_inode(load));
    if (!by_inode.ok()) return std::fprintf(stderr, "%s\n", by_inode.to_string().c_str()), 1;
    load.left = creates;
    measure(client_side, "make", load, callers, [&] { return create_inodes(load); });
    tell(creates);
    load.left = creates;
    size_t next = 0;
    measure(client_side, "leased", load, kDirectories / 4,
            [&] { return write_names(load, load.directories[next++]); });
    tell(creates);
    load.left = stats;
    measure(client_side, "get", load, callers, [&] { return stat_inodes(load); });
    tell(stats);
    runtime::run_on(client_side, client.stop());
  }
  runtime::run_on(server_side, meta.stop());
  runtime::run_on(server_side, (*store)->close());
  return 0;
}

}  // namespace
}  // namespace kintsugi

int main(int argc, char** argv) {
  const int callers = argc > 1 ? std::atoi(argv[1]) : 64;
  const uint64_t creates = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 100'000;
  const uint64_t stats = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 300'000;
  std::string directory =
      argc > 4 ? argv[4]
               : (std::filesystem::temp_directory_path() / "kintsugi_metadata_bench_XXXXXX").string();
  if (argc <= 4 && !::mkdtemp(directory.data())) return 1;
  kintsugi::log::set_level(kintsugi::log::Level::kWarning);
  const int code = kintsugi::run(callers, creates, stats, directory, argc > 5);
  if (argc <= 4) std::filesystem::remove_all(directory);
  return code;
}
