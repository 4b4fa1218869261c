// What kernels believe that two clients have told things, on a whole cluster: nobody who has been answered a change finds anything
// older believed anywhere, whoever is cut off, slow to forget, or crashes.
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "client/lib/files/open_files.h"
#include "common/proto/promises.h"
#include "common/runtime/event.h"
#include "tests/expect_ok.h"
#include "tests/simulation/cluster/client_program.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr uint64_t kAbsent = 0;

/// A client, and what a kernel would have cached of its answers.
struct Mount {
  struct Named {
    uint64_t inode;
    TimePoint until;
  };
  struct Shown {
    uint32_t mode;
    TimePoint until;
  };
  std::unique_ptr<client::OpenFiles> files;
  std::map<std::pair<uint64_t, std::string>, Named> names;
  std::map<uint64_t, Shown> shown;
  bool is_cut = false;
};

class Beliefs {
 public:
  Beliefs(uint64_t seed, bool leases) : cluster({.seed = seed, .clients = 2}), leases_(leases) {}

  void start() {
    KINTSUGI_ASSERT_OK(cluster.start());
    for (size_t i = 0; i < 2; ++i) {
      Mount& mount = mounts[i];
      mount.files = client(i).open_files(
          {.dirty_bytes = 4 << 20, .lease_directories = leases_, .kernel_believes = true});
      mount.files->session().on_changed = [this, i](client::Session::Changes changes) {
        return forget(i, std::move(changes));
      };
      KINTSUGI_ASSERT_OK(cluster.run(mount.files->session().tell({})));
    }
    for (size_t i = 0; i < 2; ++i)
      make(i, kRoot, fmt::format("d{}", i), proto::Attributes::DIRECTORY);
    cluster.run_for(1s);
  }
  ~Beliefs() {
    cluster.network().heal();
    for (Mount& mount : mounts)
      KINTSUGI_EXPECT_OK(cluster.run(mount.files->stop()));
  }

  void step() {
    const bool mends = cluster.random_below(4) == 0;
    for (size_t i = 0; i < 2; ++i)
      if (mends && std::exchange(mounts[i].is_cut, false))
        cluster.network().rejoin(SimulatedCluster::client_name(i));
    // With leases one that is cut off would lose what it has made: that is another test's.
    if (!leases_ && cluster.random_below(12) == 0) {
      const size_t which = cluster.random_below(2);
      if (!mounts[1 - which].is_cut) cut(which);
    }
    const size_t by = mounts[0].is_cut ? 1 : mounts[1].is_cut ? 0 : cluster.random_below(2);
    const uint64_t directory = directories[cluster.random_below(directories.size())];
    const std::string name = fmt::format("n{}", cluster.random_below(6));
    // The other one asks at the same time, and may be answered what was before.
    if (!mounts[1 - by].is_cut && cluster.random_below(2) == 0) begin_looking(1 - by, directory, name);
    change(by, directory, name);
    check();
    for (size_t i = 0; i < 2; ++i)
      if (!mounts[i].is_cut && cluster.random_below(2) == 0) {
        const uint64_t in = directories[cluster.random_below(directories.size())];
        cluster.run(look(i, in, fmt::format("n{}", cluster.random_below(6))));
      }
    check();
    if (cluster.random_below(6) == 0) cluster.run_for(cluster.random_time(0s, 2s));
  }

  SimulatedCluster cluster;
  uint64_t believed = 0;  ///< beliefs that were compared with the truth

 private:
  client::Client& client(size_t i) { return cluster.client_program(i).client(); }
  TimePoint now() { return cluster.simulation().now(); }

  void cut(size_t which) {
    mounts[which].is_cut = true;
    cluster.network().isolate(SimulatedCluster::client_name(which));
  }

  /// A kernel that lets go at once, or after a while, as when one of its locks is held.
  asio::awaitable<void> forget(size_t i, client::Session::Changes changes) {
    if (cluster.random_below(8) == 0) {
      runtime::Event never(cluster.client_node(i).runtime());
      (void)co_await never.wait_until(cluster.client_node(i).runtime().clock.now() +
                                      cluster.random_time(0s, 3s));
    }
    for (const proto::ChangedInode& changed : changes) {
      mounts[i].shown.erase(changed.inode());
      for (const std::string& name : changed.names())
        mounts[i].names.erase({changed.inode(), name});
    }
  }

  asio::awaitable<void> look(size_t i, uint64_t directory, std::string name) {
    Mount& mount = mounts[i];
    const TimePoint asked = now();
    proto::LookupRequest request;
    request.set_parent(directory);
    request.set_name(name);
    const auto found = co_await mount.files->names().lookup({}, std::move(request));
    if (found) believe(i, asked, directory, name, *found);
    if (!found && found.error().code() == Code::kNotFound)
      mount.names[{directory, name}] = {kAbsent, now() + valid_name(i, asked, directory)};
  }
  asio::awaitable<void> look_in_background(size_t i, uint64_t directory, std::string name) {
    const ClientProgram::Use use(cluster.client_program(i));
    co_await look(i, directory, std::move(name));
  }
  void begin_looking(size_t i, uint64_t directory, const std::string& name) {
    asio::co_spawn(cluster.client_node(i).runtime().executor, look_in_background(i, directory, name),
                   asio::detached);
    cluster.run_for(cluster.random_time(0s, 2ms));
  }

  Duration valid(size_t i, TimePoint asked) {
    return mounts[i].files->session().believable(asked, kBelieved);
  }
  Duration valid_name(size_t i, TimePoint asked, uint64_t directory) {
    return mounts[i].files->session().is_shared(directory) ? Duration{} : valid(i, asked);
  }
  void believe(size_t i, TimePoint asked, uint64_t directory, const std::string& name,
               const proto::Attributes& told) {
    mounts[i].names[{directory, name}] = {told.inode(), now() + valid_name(i, asked, directory)};
    mounts[i].shown[told.inode()] = {told.mode(), now() + valid(i, asked)};
  }

  void make(size_t i, uint64_t parent, const std::string& name, proto::Attributes::Type type) {
    proto::MakeInodeRequest request;
    request.set_parent(parent);
    request.set_name(name);
    request.set_type(type);
    request.set_mode(0755);
    const TimePoint asked = now();
    const bool exists = truth_.contains({parent, name});
    const auto made = cluster.run(mounts[i].files->names().make({}, std::move(request)));
    ASSERT_EQ(made ? Code::kOk : made.error().code(), exists ? Code::kAlreadyExists : Code::kOk);
    if (exists) return;
    truth_[{parent, name}] = made->inode();
    modes_[made->inode()] = 0755;
    if (type == proto::Attributes::DIRECTORY) directories.push_back(made->inode());
    believe(i, asked, parent, name, *made);
  }

  void change(size_t by, uint64_t directory, const std::string& name) {
    Mount& mount = mounts[by];
    const auto known = truth_.find({directory, name});
    switch (known == truth_.end() ? 0 : cluster.random_below(4)) {
      case 0: return make(by, directory, name, proto::Attributes::FILE);
      case 1: {
        proto::UnlinkRequest request;
        request.set_parent(directory);
        request.set_name(name);
        const auto unlinked = cluster.run(mount.files->names().unlink({}, std::move(request)));
        ASSERT_TRUE(unlinked) << unlinked.error();
        mount.shown.erase(known->second);
        mount.names.erase(known->first);
        truth_.erase(known);
        return;
      }
      case 2: {
        proto::SetAttributesRequest request;
        const TimePoint asked = now();
        const auto mode = static_cast<uint32_t>(0400 + cluster.random_below(0200));
        request.set_inode(known->second);
        request.set_mode(mode);
        if (!mount.files->set_attributes(request)) {
          const auto set = cluster.run(mount.files->calls().set_attributes({}, std::move(request)));
          ASSERT_TRUE(set) << set.error();
        }
        modes_[known->second] = mode;
        mount.shown[known->second] = {mode, now() + valid(by, asked)};
        return;
      }
      default: {
        const std::pair to{directories[cluster.random_below(directories.size())],
                           fmt::format("n{}", cluster.random_below(6))};
        proto::MoveRequest request;
        request.set_parent(directory);
        request.set_name(name);
        request.set_to_parent(to.first);
        request.set_to_name(to.second);
        KINTSUGI_EXPECT_OK(cluster.run(mount.files->names().move({}, std::move(request))));
        if (to == known->first) return;
        truth_[to] = known->second;
        truth_.erase({directory, name});
        // A kernel moves what it knows of the name, with its time.
        auto moved = mount.names.extract({directory, name});
        mount.names.erase(to);
        if (moved) {
          moved.key() = to;
          mount.names.insert(std::move(moved));
        }
      }
    }
  }

  void check() {
    for (size_t i = 0; i < 2; ++i) {
      for (const auto& [where, named] : mounts[i].names) {
        if (named.until <= now()) continue;
        ++believed;
        const auto found = truth_.find(where);
        EXPECT_EQ(named.inode, found == truth_.end() ? kAbsent : found->second)
            << "mount " << i << " of " << where.second << " in " << where.first;
      }
      for (const auto& [inode, shown] : mounts[i].shown) {
        if (shown.until <= now()) continue;
        ++believed;
        EXPECT_EQ(shown.mode, modes_[inode]) << "mount " << i << " of inode " << inode;
      }
    }
  }

  const bool leases_;
  Mount mounts[2];
  std::vector<uint64_t> directories{kRoot};
  std::map<std::pair<uint64_t, std::string>, uint64_t> truth_;
  std::map<uint64_t, uint32_t> modes_;
};

void go_through(bool leases) {
  uint64_t believed = 0;
  for (const uint64_t seed : seeds({1, 2, 3, 4, 5, 6})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Beliefs beliefs(seed, leases);
    beliefs.start();
    for (int i = 0; i < 150 && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(fmt::format("step {}", i));
      if (beliefs.cluster.random_below(40) == 0) {
        beliefs.cluster.crash_metaserver(beliefs.cluster.random_below(2) == 0 ? Crash::kPower : Crash::kKill);
        beliefs.cluster.run_for(beliefs.cluster.random_time(0s, 1s));
        beliefs.cluster.restart_metaserver();
      }
      beliefs.step();
    }
    believed += beliefs.believed;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(believed, 500u) << "nothing was believed: this shows nothing";
}

TEST(Beliefs, AreWhatIsTrueWhoeverIsCutOff) {
  go_through(false);
}

TEST(Beliefs, AreWhatIsTrueUnderLeasesOfDirectories) {
  go_through(true);
}

}  // namespace
}  // namespace kintsugi::simulation
