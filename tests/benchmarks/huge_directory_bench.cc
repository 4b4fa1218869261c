// One directory of very many names at a metaserver on RocksDB: how long each step keeps the metaserver's thread from everybody else.
//
//   huge_directory_bench [names] [directory]
//   huge_directory_bench [names] [directory] fill
//
// The second only fills: /huge in the store of a metaserver that does not run now, for scripts/lab/huge_directory.py.
// The names are put into the store directly; what follows goes through RPCs. While a step lasts, a timer of the metaserver's
// thread asks every millisecond how much processor time the thread has had since the last time: the longest is the pause that
// others would meet on a machine of their own, whatever else this one is doing.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>

#include "common/log/log.h"
#include "common/proto/inode.pb.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/runtime/production/run.h"
#include "common/runtime/task_group.h"
#include "metaserver/kv/rocksdb_store.h"
#include "metaserver/service/metaserver.h"

namespace kintsugi {
namespace {

using rpc::Method;

constexpr int kCallers = 64;
constexpr uint64_t kNamesABatch = 5000;
constexpr uint64_t kAtRandom = 20'000, kUnlinked = 300'000;
constexpr uint64_t kFirstInode = uint64_t{1} << 40;
constexpr Duration kTick = std::chrono::milliseconds(1);

std::string name_of(uint64_t i) {
  return fmt::format("entry-{:010}", i);
}

Duration thread_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

double ms(Duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

uint64_t resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::strtoull(line.c_str() + 6, nullptr, 10) >> 10;
  return 0;
}

/// Runs on the metaserver's thread.
class Pauses {
 public:
  explicit Pauses(const runtime::Runtime& runtime) : runtime_(runtime), tasks_(runtime) {}
  void start() { tasks_.spawn(tick()); }
  asio::awaitable<void> stop() { co_await tasks_.stop(); }
  asio::awaitable<Duration> take_longest() { co_return std::exchange(longest_, Duration{}); }

 private:
  asio::awaitable<void> tick() {
    Duration last = thread_time();
    while (co_await tasks_.sleep_for(kTick)) {
      const Duration now = thread_time();
      longest_ = std::max(longest_, now - last);
      last = now;
    }
  }

  runtime::Runtime runtime_;
  runtime::TaskGroup tasks_;
  Duration longest_{};
};

struct Bench {
  runtime::ProductionRuntime server_side, client_side;
  std::unique_ptr<metaserver::RocksDbStore> store;
  std::optional<metaserver::MetaServer> meta;
  std::optional<Pauses> pauses;
  std::optional<rpc::Client> client;
  uint64_t names = 0, directory = 0, failed = 0;

  template <class Request, class Response>
  asio::awaitable<Status> call(Method method, const Request& request, Response& response) {
    const Status status = co_await client->call(Context{}, meta->endpoint(), method, request, response);
    if (!status.ok() && failed++ == 0) std::fprintf(stderr, "%s\n", status.to_string().c_str());
    co_return status;
  }

  asio::awaitable<Status> make_directory() {
    proto::MakeInodeRequest request;
    request.set_parent(kRootInode.value);
    request.set_name("huge");
    request.set_type(proto::Attributes::DIRECTORY);
    request.set_mode(0755);
    proto::InodeResponse response;
    KINTSUGI_CO_TRY(co_await call(Method::kMakeInode, request, response));
    directory = response.attributes().inode();
    co_return Status{};
  }

  asio::awaitable<Status> fill() {
    using namespace metaserver;
    for (uint64_t i = 0; i < names; i += kNamesABatch) {
      Transaction transaction(*store);
      const uint64_t end = std::min(names, i + kNamesABatch);
      for (uint64_t k = i; k < end; ++k) {
        const InodeId id{kFirstInode + k};
        proto::StoredInode inode;
        inode.set_type(proto::Attributes::FILE);
        inode.set_mode(0644);
        inode.set_links(1);
        inode.set_modified_ns(1'000'000'000);
        inode.set_parent(directory);
        proto::StoredDirectoryEntry entry;
        entry.set_inode(id.value);
        entry.set_type(proto::Attributes::FILE);
        transaction.put_message(keys::inode(id), inode);
        transaction.put_message(keys::entry(InodeId{directory}, name_of(k)), entry);
      }
      adjust_totals(transaction, static_cast<int64_t>(end - i), 0, 0);
      KINTSUGI_CO_TRY(co_await store->commit(transaction.take()));
    }
    co_return Status{};
  }

  asio::awaitable<uint64_t> list(bool names_only) {
    uint64_t listed = 0;
    proto::ListInodeRequest request;
    request.set_directory(directory);
    request.set_limit(2000);
    request.set_names_only(names_only);
    for (bool more = true; more;) {
      proto::ListResponse page;
      if (!(co_await call(Method::kListInode, request, page)).ok() || page.entries().empty()) break;
      listed += static_cast<uint64_t>(page.entries_size());
      more = page.more();
      request.set_after(page.entries(page.entries_size() - 1).name());
    }
    co_return listed;
  }

  asio::awaitable<void> at_random(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (uint64_t i = 0; i < kAtRandom / kCallers; ++i) {
      proto::LookupRequest look;
      look.set_parent(directory);
      look.set_name(name_of(random() % names));
      proto::InodeResponse found;
      (void)co_await call(Method::kLookup, look, found);
      proto::MakeInodeRequest make;
      make.set_parent(directory);
      make.set_name(fmt::format("{}-{}-{}", name_of(random() % names), seed, i));
      make.set_type(proto::Attributes::FILE);
      (void)co_await call(Method::kMakeInode, make, found);
      proto::UnlinkRequest unlink;
      unlink.set_parent(directory);
      unlink.set_name(make.name());
      proto::Empty none;
      (void)co_await call(Method::kUnlink, unlink, none);
    }
  }

  asio::awaitable<void> unlink(uint64_t& next, uint64_t end) {
    while (next < end) {
      proto::UnlinkRequest request;
      request.set_parent(directory);
      request.set_name(name_of(next++));
      proto::Empty none;
      (void)co_await call(Method::kUnlink, request, none);
    }
  }

  template <class Request>
  asio::awaitable<uint64_t> once(Method method, Request request) {
    proto::Empty none;
    (void)co_await call(method, request, none);
    co_return 0;
  }

  asio::awaitable<uint64_t> all(std::vector<asio::awaitable<void>> callers, uint64_t count) {
    runtime::TaskGroup group(client_side.runtime());
    for (auto& caller : callers)
      group.spawn(std::move(caller));
    co_await group.join();
    co_return count;
  }

  asio::awaitable<uint64_t> settled() {
    runtime::TaskGroup group(client_side.runtime());
    (void)co_await group.sleep_for(std::chrono::seconds(3));
    co_return 0;
  }

  asio::awaitable<uint64_t> until_no_snapshot() {
    runtime::TaskGroup group(client_side.runtime());
    while (true) {
      proto::ListSnapshotsResponse left;
      if (!(co_await call(Method::kListSnapshots, proto::ListSnapshotsRequest{}, left)).ok() ||
          left.snapshots().empty())
        co_return 0;
      (void)co_await group.sleep_for(std::chrono::milliseconds(50));
    }
  }

  asio::awaitable<uint64_t> until_reclaimed() {
    runtime::TaskGroup group(client_side.runtime());
    while (true) {
      proto::DiskFreeResponse free;
      if (!(co_await call(Method::kDiskFree, proto::Empty{}, free)).ok() || free.files() < 100) co_return 0;
      (void)co_await group.sleep_for(std::chrono::milliseconds(50));
    }
  }

  void step(const char* what, asio::awaitable<uint64_t> work) {
    (void)runtime::run_on(server_side, pauses->take_longest());
    const TimePoint begin = client_side.runtime().clock.now();
    const uint64_t count = runtime::run_on(client_side, std::move(work));
    const double seconds = std::chrono::duration<double>(client_side.runtime().clock.now() - begin).count();
    const Duration longest = runtime::run_on(server_side, pauses->take_longest());
    std::printf("%-36s %8.2f s %10.0f/s  longest pause %8.2f ms  resident %5llu MiB\n", what, seconds,
                static_cast<double>(count) / seconds, ms(longest),
                static_cast<unsigned long long>(resident_mib()));
    std::fflush(stdout);
  }

  void run_steps() {
    const std::string path = "/huge";
    step("list names", list(true));
    step("list with attributes", list(false));
    std::vector<asio::awaitable<void>> callers;
    for (int i = 0; i < kCallers; ++i)
      callers.push_back(at_random(static_cast<uint64_t>(i)));
    step("look up, make, remove at random", all(std::move(callers), 3 * kAtRandom));
    proto::SetQuotaRequest quota;
    quota.set_path(path);
    quota.set_max_files(names * 10);
    step("set a quota", once(Method::kSetQuota, quota));
    step("while it is counted", settled());
    quota.clear_max_files();
    step("remove it", once(Method::kSetQuota, quota));
    proto::CreateSnapshotRequest snapshot;
    snapshot.set_path(path);
    snapshot.set_name("kept");
    step("make a snapshot", once(Method::kCreateSnapshot, snapshot));
    uint64_t next = 0;
    const uint64_t end = std::min(kUnlinked, names / 2);
    callers.clear();
    for (int i = 0; i < kCallers; ++i)
      callers.push_back(unlink(next, end / 2));
    step("remove names of the snapshot", all(std::move(callers), end / 2));
    proto::DeleteSnapshotRequest no_snapshot;
    no_snapshot.set_path(path);
    no_snapshot.set_name("kept");
    step("delete the snapshot", once(Method::kDeleteSnapshot, no_snapshot));
    step("until it is deleted", until_no_snapshot());
    callers.clear();
    for (int i = 0; i < kCallers; ++i)
      callers.push_back(unlink(next, end));
    step("remove the first names", all(std::move(callers), end / 2));
    step("list what is left", list(true));
    proto::RemoveRequest remove;
    remove.set_path(path);
    remove.set_recursive(true);
    step("remove the directory", once(Method::kRemove, remove));
    step("until it is gone", until_reclaimed());
  }
};

int run(uint64_t names, const std::string& directory, bool fill_only) {
  Bench bench;
  bench.names = names;
  auto store = metaserver::RocksDbStore::open(bench.server_side.runtime().executor, directory);
  if (!store) return std::fprintf(stderr, "%s\n", store.error().to_string().c_str()), 1;
  bench.store = std::move(*store);
  bench.meta.emplace(bench.server_side.runtime(), metaserver::MetaServerOptions{}, rpc::Secret{},
                     *bench.store);
  runtime::LoopThread server_thread(bench.server_side);
  Status ready = runtime::run_on(bench.server_side, bench.meta->start());
  bench.pauses.emplace(bench.server_side.runtime());
  runtime::run_on(bench.server_side, [&]() -> asio::awaitable<void> {
    bench.pauses->start();
    co_return;
  }());
  bench.client.emplace(bench.client_side.runtime(), rpc::Secret{});
  if (ready.ok()) ready = runtime::run_on(bench.client_side, bench.make_directory());
  if (ready.ok()) ready = runtime::run_on(bench.server_side, bench.fill());
  if (ready.ok()) {
    if (!fill_only) bench.run_steps();
  } else {
    std::fprintf(stderr, "%s\n", ready.to_string().c_str());
  }
  runtime::run_on(bench.client_side, bench.client->stop());
  runtime::run_on(bench.server_side, bench.pauses->stop());
  runtime::run_on(bench.server_side, bench.meta->stop());
  runtime::run_on(bench.server_side, bench.store->close());
  bench.client.reset();
  return ready.ok() && bench.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kintsugi

int main(int argc, char** argv) {
  const uint64_t names = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  std::string directory =
      argc > 2 ? argv[2]
               : (std::filesystem::temp_directory_path() / "kintsugi_huge_directory_XXXXXX").string();
  if (argc <= 2 && !::mkdtemp(directory.data())) return 1;
  kintsugi::log::set_level(kintsugi::log::Level::kWarning);
  const int code = kintsugi::run(names, directory, argc > 3);
  if (argc <= 2) std::filesystem::remove_all(directory);
  return code;
}
