// Advisory locks that two clients decide under leases, on a whole cluster: no two owners ever have what excludes one another, whoever is
// cut off, killed, or crashes.
#include <list>
#include <map>

#include <gtest/gtest.h>

#include "client/lib/files/open_files.h"
#include "common/runtime/event.h"
#include "tests/expect_ok.h"
#include "tests/simulation/cluster/client_program.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr size_t kClients = 2, kOwners = 3, kFiles = 2;
constexpr uint64_t kPages = 3;
/// A client may have lost its locks that the metaserver has not heard of for a minute, or for ten seconds after it started anew. Here
/// that is doubtful from kSilent after it was first cut off, until it was not for kSlowToTell.
constexpr Duration kSilent = 30s, kSlowToTell = 20s;

/// A lock as the program that took it knows it.
struct Taken {
  size_t client;
  uint64_t owner;
  size_t file;
  proto::FileLock lock;
  bool doubtful = false;  ///< it may be lost by now, since its client was silent
};

class Locks {
 public:
  explicit Locks(uint64_t seed) : cluster({.seed = seed, .clients = kClients}) {}

  void start() {
    KINTSUGI_ASSERT_OK(cluster.start());
    for (size_t i = 0; i < kFiles; ++i)
      KINTSUGI_ASSERT_OK(cluster.put(path(i), 10'000));
    for (size_t i = 0; i < kFiles; ++i)
      inodes_.push_back(cluster.run(cluster.client().stat(path(i)))->inode());
    for (size_t i = 0; i < kClients; ++i) {
      clients_[i].region.resize(client::OwnLocks::kBytes);
      open_client(i);
      KINTSUGI_ASSERT_OK(cluster.run(clients_[i].files->session().tell({})));
    }
  }
  ~Locks() {
    ending_ = true;
    cluster.network().heal();
    while (under_way() > 0)
      cluster.run_for(1s);
    for (Client& one : clients_)
      (void)cluster.run(one.files->stop());  // what was written while it was cut off may be refused
  }

  void step() {
    note_doubts();
    for (size_t i = 0; i < kClients; ++i) {
      Client& one = clients_[i];
      if (!one.cut_at && now() - one.rejoined_at >= kSlowToTell) one.silent_since.reset();
      for (uint64_t owner = 1; owner <= kOwners; ++owner) {
        if (clients_[i].ends || clients_[i].busy.contains(owner) || cluster.random_below(2) == 0) continue;
        clients_[i].busy.insert(owner);
        asio::co_spawn(cluster.client_node(i).runtime().executor, work(i, owner), asio::detached);
      }
      if (clients_[i].cut_at && now() >= clients_[i].rejoins_at) rejoin(i);
      // To hand over it waits for calls that are under way, and while it is cut off they do not end.
      if (clients_[i].ends && clients_[i].busy.empty() && !clients_[i].cut_at) replace_process(i);
    }
    const size_t which = cluster.random_below(kClients);
    switch (cluster.random_below(30)) {
      case 0:
      case 1: cut(which); break;
      case 2: crash_metaserver(cluster.random_below(2) == 0 ? Crash::kPower : Crash::kKill); break;
      case 3:
      case 4: clients_[which].ends = true; break;
      default: break;
    }
    cluster.run_for(cluster.random_below(20) == 0 ? cluster.random_time(0s, 30s)
                                                  : cluster.random_time(0s, 300ms));
  }

  SimulatedCluster cluster;
  uint64_t taken_here = 0, taken_by_call = 0, refused = 0, processes = 0;

 private:
  struct Client {
    std::unique_ptr<client::OpenFiles> files;
    client::ChangeJournal journal;
    std::vector<std::byte> region;
    std::set<uint64_t> busy;
    bool ends = false;  ///< once nothing is under way
    std::optional<TimePoint> cut_at;
    TimePoint rejoins_at = TimePoint::min();
    TimePoint rejoined_at{};
    std::optional<TimePoint> silent_since;  ///< it may not have told anything since
  };

  static std::string path(size_t file) { return fmt::format("/file-{}", file); }
  TimePoint now() { return cluster.simulation().now(); }
  size_t under_way() const {
    size_t count = 0;
    for (const Client& one : clients_)
      count += one.busy.size();
    return count;
  }
  void open_client(size_t i) {
    clients_[i].files = cluster.client_program(i).client().open_files(
        {.io_timeout = 0s, .dirty_bytes = 4 << 20}, nullptr, &clients_[i].journal, {}, clients_[i].region);
  }

  // ---- what happens to them
  void cut(size_t i) {
    Client& one = clients_[i];
    if (one.cut_at) return;
    one.cut_at = now();
    one.rejoins_at =
        now() + (cluster.random_below(4) == 0 ? cluster.random_time(10s, 100s) : cluster.random_time(0s, 3s));
    if (!one.silent_since) one.silent_since = now();
    cluster.network().isolate(SimulatedCluster::client_name(i));
  }
  void rejoin(size_t i) {
    note_doubts();
    clients_[i].cut_at.reset();
    clients_[i].rejoined_at = now();
    cluster.network().rejoin(SimulatedCluster::client_name(i));
  }
  bool in_doubt(size_t i) {
    const auto since = clients_[i].silent_since;
    return since && (now() - *since >= kSilent ||
                     (metaserver_started_ && *since - kSlowToTell < *metaserver_started_));
  }
  /// What may be lost now may be lost later on, too.
  void note_doubts() {
    for (Taken& one : taken_)
      one.doubtful = one.doubtful || in_doubt(one.client);
  }
  void crash_metaserver(Crash how) {
    // A client that has lost locks, and not heard of it, may be the first to tell the next process of the metaserver of them.
    for (size_t i = 0; i < kClients; ++i)
      if (in_doubt(i))
        for (Taken& one : taken_)
          one.doubtful = true;
    cluster.crash_metaserver(how);
    cluster.run_for(cluster.random_time(0s, 3s));
    cluster.restart_metaserver();
    metaserver_started_ = now();
  }
  /// The process of a client ends; the next one finds what it had noted by then, or a little later.
  void replace_process(size_t i) {
    Client& one = clients_[i];
    one.ends = false;
    ++processes;
    const std::vector<std::byte> as_of_now = one.region;
    KINTSUGI_EXPECT_OK(cluster.run(one.files->stop(true)));
    one.files.reset();
    one.region = as_of_now;
    open_client(i);
  }

  // ---- what programs do
  asio::awaitable<void> pause(size_t i, Duration time) {
    runtime::Event never(cluster.client_node(i).runtime());
    (void)co_await never.wait_until(now() + time);
  }
  asio::awaitable<void> work(size_t i, uint64_t owner) {
    const ClientProgram::Use use(cluster.client_program(i));
    Client& one = clients_[i];
    const size_t file = cluster.random_below(kFiles);
    // Mostly it is one of them, so that the other client is not always in the way.
    const uint64_t seldom = clients_[1 - i].cut_at ? 2 : 12;
    const size_t likely = cluster.random_below(seldom) == 0 ? file : i % kFiles;
    std::unique_ptr<client::OpenHandle> handle;
    if (cluster.random_below(3) > 0) {
      auto opened = co_await one.files->open({}, inodes_[likely], true);
      if (opened) handle = std::move(*opened);
    }
    if (handle && cluster.random_below(4) == 0)
      (void)co_await handle->file().write({}, cluster.random_below(9000), std::vector<std::byte>(100));
    for (int more = static_cast<int>(cluster.random_below(4)); more >= 0; --more)
      co_await change_lock(i, owner, likely);
    if (handle) (void)co_await handle->close({});
    one.busy.erase(owner);
  }

  /// Takes a lock and leaves it for a later step, or ends what the owner has.
  asio::awaitable<void> change_lock(size_t i, uint64_t owner, size_t file) {
    proto::LockRequest request;
    request.set_inode(inodes_[file]);
    request.set_whole_file(false);
    proto::FileLock& lock = *request.mutable_lock();
    lock.set_session(clients_[i].files->session().id());
    lock.set_owner(owner);
    const bool ends = ending_ || cluster.random_below(2) == 0;
    if (ends) {
      std::erase_if(taken_, [&](const Taken& one) {
        return one.client == i && one.owner == owner && one.file == file;
      });
      lock.set_type(proto::FileLock::NONE);
      lock.set_end((uint64_t{1} << 63) - 1);
      const auto answer = co_await clients_[i].files->locks().lock({}, request);
      EXPECT_TRUE(answer && answer->granted());
      co_return;
    }
    // Nothing of its own changes its type, so that what was granted is what there is.
    const uint64_t page = cluster.random_below(kPages);
    for (const Taken& one : taken_)
      if (one.client == i && one.owner == owner && one.file == file) co_return;
    lock.set_begin(page);
    lock.set_end(page + cluster.random_below(2));
    lock.set_type(cluster.random_below(3) == 0 ? proto::FileLock::SHARED : proto::FileLock::EXCLUSIVE);
    request.set_waits(cluster.random_below(3) == 0);
    for (int tries = request.waits() ? 5 : 1; tries > 0; --tries) {
      const bool here =
          clients_[i].files->session().locks_at(inodes_[file], true) == client::Session::LocksAt::kHere;
      const auto answer = co_await clients_[i].files->locks().lock({}, request);
      if (!answer) {
        EXPECT_EQ(answer.error().code(), Code::kDeadlock) << answer.error();
        co_return;
      }
      if (answer->granted()) {
        ++(here ? taken_here : taken_by_call);
        check({i, owner, file, lock});
        co_await pause(i, cluster.random_time(0s, 200ms));
        co_return;
      }
      ++refused;
      co_await pause(i, cluster.random_time(0s, 200ms));
    }
  }

  /// Whoever had something that this excludes must have been silent for too long.
  void check(Taken news) {
    std::erase_if(taken_, [&](const Taken& one) {
      const bool excludes =
          one.lock.type() == proto::FileLock::EXCLUSIVE || news.lock.type() == proto::FileLock::EXCLUSIVE;
      const bool same = one.client == news.client && one.owner == news.owner;
      if (same || one.file != news.file || !excludes || one.lock.end() < news.lock.begin() ||
          news.lock.end() < one.lock.begin())
        return false;
      EXPECT_TRUE(one.doubtful || (one.client != news.client && in_doubt(one.client)))
          << "client " << news.client << " owner " << news.owner << " has [" << news.lock.begin() << ", "
          << news.lock.end() << "] of file " << one.file << " beside client " << one.client << " owner "
          << one.owner;
      return true;
    });
    taken_.push_back(std::move(news));
  }

  std::vector<uint64_t> inodes_;
  Client clients_[kClients];
  std::list<Taken> taken_;
  std::optional<TimePoint> metaserver_started_;
  bool ending_ = false;
};

TEST(LeasedLocks, ExcludeOneAnotherWhoeverIsCutOffKilledOrCrashes) {
  const std::vector<uint64_t> chosen = seeds({1, 2, 3, 4, 5, 6});
  uint64_t here = 0, by_call = 0, refused = 0, processes = 0;
  for (const uint64_t seed : chosen) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Locks locks(seed);
    locks.start();
    for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(fmt::format("step {}", i));
      locks.step();
    }
    here += locks.taken_here;
    by_call += locks.taken_by_call;
    refused += locks.refused;
    processes += locks.processes;
    if (testing::Test::HasFailure()) return;
  }
  if (chosen.size() == 1) return;  // of which little is to be seen
  EXPECT_GT(here, 150u) << "nothing is decided by clients: this shows nothing";
  EXPECT_GT(by_call, 50u);
  EXPECT_GT(refused, 50u);
  EXPECT_GT(processes, 3u);
}

}  // namespace
}  // namespace kintsugi::simulation
