// Where leases, snapshots and clocks meet, on a whole cluster.
#include <algorithm>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <gtest/gtest.h>

#include "client/lib/files/open_files.h"
#include "client/lib/leases/reserved_ids.h"
#include "tests/expect_ok.h"
#include "tests/simulation/cluster/client_program.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

proto::MakeInodeRequest making(uint64_t parent, const std::string& name, proto::Attributes::Type type,
                               uint64_t hold_for = 0) {
  proto::MakeInodeRequest request;
  request.set_parent(parent);
  request.set_name(name);
  request.set_type(type);
  request.set_mode(0755);
  request.set_hold_for(hold_for);
  return request;
}

std::vector<std::byte> bytes_of(size_t size) {
  return std::vector<std::byte>(size, std::byte{7});
}

TEST(DataSeamsInACluster, WhatWasClosedInALeasedDirectoryIsInTheSnapshot) {
  for (const uint64_t seed : seeds({1, 2, 3})) {
    for (const size_t size : {3'000, 300'000, 3'000'000}) {
      SCOPED_TRACE(fmt::format("seed {} size {}", seed, size));
      SimulatedCluster cluster({.seed = seed, .clients = 2});
      KINTSUGI_ASSERT_OK(cluster.start());
      auto files =
          cluster.client_program(0).client().open_files({.dirty_bytes = 16 << 20, .lease_directories = true});
      KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
      const auto directory =
          cluster.run(files->names().make({}, making(kRoot, "d", proto::Attributes::DIRECTORY)));
      ASSERT_TRUE(directory) << directory.error();
      cluster.run_for(1s);  // ids are reserved
      const auto file = cluster.run(files->names().make(
          {}, making(directory->inode(), "f", proto::Attributes::FILE, files->session().id())));
      ASSERT_TRUE(file) << file.error();
      ASSERT_NE(files->names().made(file->inode()), nullptr)
          << "it is not made under the lease: this shows nothing";
      auto handle = files->open(*file, true);
      KINTSUGI_ASSERT_OK(cluster.run(handle->file().write({}, 0, bytes_of(size), false)));
      ASSERT_TRUE(files->session().has_lease(file->inode()))
          << "a close would write it out: this shows nothing";
      KINTSUGI_ASSERT_OK(cluster.run(handle->close({})));
      KINTSUGI_ASSERT_OK(cluster.run(cluster.client_program(1).client().create_snapshot("/d", "s")));
      const auto kept = cluster.run(cluster.client_program(1).client().stat("/d/.snapshots/s/f"));
      ASSERT_TRUE(kept) << kept.error();
      EXPECT_EQ(kept->size(), size) << "the file was closed before the snapshot was asked for";
      KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
    }
  }
}

/// Makes /f with 1,000 durable bytes, and sets its mode to 0600 under its lease. Null, and the test has failed: that was no
/// change under the lease.
std::unique_ptr<client::OpenHandle> file_with_mode_changed(SimulatedCluster& cluster,
                                                           client::OpenFiles& files) {
  const auto made =
      cluster.run(files.names().make({}, making(kRoot, "f", proto::Attributes::FILE, files.session().id())));
  if (!made) ADD_FAILURE() << made.error();
  if (!made) return nullptr;
  auto handle = files.open(*made, true);
  KINTSUGI_EXPECT_OK(cluster.run(handle->file().write({}, 0, bytes_of(1000), false)));
  KINTSUGI_EXPECT_OK(cluster.run(handle->sync({})));
  proto::SetAttributesRequest mode;
  mode.set_inode(made->inode());
  mode.set_mode(0600);
  const bool is_leased = files.session().has_lease(made->inode()) && files.set_attributes(mode);
  EXPECT_TRUE(is_leased) << "it was no change under the lease: this shows nothing";
  return is_leased ? std::move(handle) : nullptr;
}

TEST(DataSeamsInACluster, AMountWhoseClockIsAheadSeesWhatOthersWroteAfterItChangedTheMode) {
  SimulatedCluster cluster({.seed = 1, .clients = 2});
  KINTSUGI_ASSERT_OK(cluster.start());
  cluster.client_node(0).set_wall_offset(30s);
  auto files = cluster.client_program(0).client().open_files({.dirty_bytes = 4 << 20});
  auto others = cluster.client_program(1).client().open_files({.dirty_bytes = 4 << 20});
  KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
  KINTSUGI_ASSERT_OK(cluster.run(others->session().tell({})));
  auto handle = file_with_mode_changed(cluster, *files);
  ASSERT_TRUE(handle);
  const uint64_t inode = handle->file().inode();
  cluster.run_for(3s);
  // Somebody else appends, and has it durable.
  auto other = cluster.run(others->open({}, inode, true));
  ASSERT_TRUE(other) << other.error();
  KINTSUGI_ASSERT_OK(cluster.run((*other)->file().write({}, 1000, bytes_of(500), false)));
  KINTSUGI_ASSERT_OK(cluster.run((*other)->sync({})));
  KINTSUGI_ASSERT_OK(cluster.run((*other)->close({})));
  cluster.run_for(3s);
  const auto asked = cluster.run(files->calls().get({}, inode));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->size(), 1500u);
  auto again = files->open(*asked, true);
  EXPECT_EQ(again->file().size(), 1500u) << "the answer of the metaserver is taken for an old one";
  KINTSUGI_EXPECT_OK(cluster.run(again->close({})));
  KINTSUGI_EXPECT_OK(cluster.run(handle->close({})));
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
  KINTSUGI_EXPECT_OK(cluster.run(others->stop()));
}

TEST(DataSeamsInACluster, AModeThatWasSetUnderALeaseIsTakenThoughTheFileWasClosedAtOnce) {
  SimulatedCluster cluster({.seed = 1, .clients = 2});
  KINTSUGI_ASSERT_OK(cluster.start());
  auto files = cluster.client_program(0).client().open_files({.dirty_bytes = 4 << 20});
  KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
  auto handle = file_with_mode_changed(cluster, *files);
  ASSERT_TRUE(handle);
  const uint64_t inode = handle->file().inode();
  // Nothing is left to be written out, so that the close gives the lease back; and the session has something to say just then.
  KINTSUGI_ASSERT_OK(cluster.run(handle->close({})));
  KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
  cluster.run_for(5s);
  const auto seen = cluster.run(cluster.client_program(1).client().stat("/f"));
  ASSERT_TRUE(seen) << seen.error();
  EXPECT_EQ(seen->mode(), 0600u) << "the change came after the lease had been given back, and was refused";
  EXPECT_FALSE(files->session().has_lease(inode));
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

TEST(DataSeamsInACluster, AModeThatIsLostWithTheLeaseIsToldAtTheNextSync) {
  SimulatedCluster cluster({.seed = 1, .clients = 2});
  KINTSUGI_ASSERT_OK(cluster.start());
  auto files = cluster.client_program(0).client().open_files({.dirty_bytes = 4 << 20});
  auto others = cluster.client_program(1).client().open_files({.dirty_bytes = 4 << 20});
  KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
  KINTSUGI_ASSERT_OK(cluster.run(others->session().tell({})));
  auto handle = file_with_mode_changed(cluster, *files);
  ASSERT_TRUE(handle);
  const uint64_t inode = handle->file().inode();
  cluster.network().cut(SimulatedCluster::client_name(0), "metaserver");
  auto other = cluster.run(others->open({}, inode, true));
  ASSERT_TRUE(other) << other.error();
  cluster.network().mend(SimulatedCluster::client_name(0), "metaserver");
  EXPECT_EQ(cluster.run(handle->sync({})).code(), Code::kLeaseLost);
  KINTSUGI_EXPECT_OK(cluster.run(handle->sync({})));
  const auto told = cluster.run(handle->file().refresh({}));
  ASSERT_TRUE(told) << told.error();
  EXPECT_EQ(told->mode(), (*other)->file().attributes().mode()) << "it was never 0600 for anybody else";
  KINTSUGI_EXPECT_OK(cluster.run((*other)->close({})));
  KINTSUGI_EXPECT_OK(cluster.run(handle->close({})));
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
  KINTSUGI_EXPECT_OK(cluster.run(others->stop()));
}

asio::awaitable<void> sync_file(client::OpenHandle& handle, std::optional<Status>& outcome) {
  outcome = co_await handle.sync({});
}

/// What another client wrote to the file after the first one had lost its lease, and what is there when that can be reached again.
void write_after_a_loss(Duration silence) {
  SimulatedCluster cluster({.seed = 1, .clients = 2});
  KINTSUGI_ASSERT_OK(cluster.start());
  auto files = cluster.client_program(0).client().open_files({.dirty_bytes = 4 << 20});
  auto others = cluster.client_program(1).client().open_files({.dirty_bytes = 4 << 20});
  KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
  KINTSUGI_ASSERT_OK(cluster.run(others->session().tell({})));
  const auto made = cluster.run(
      files->names().make({}, making(kRoot, "f", proto::Attributes::FILE, files->session().id())));
  ASSERT_TRUE(made) << made.error();
  auto handle = files->open(*made, true);
  KINTSUGI_ASSERT_OK(cluster.run(handle->file().write({}, 0, bytes_of(1000), false)));
  ASSERT_TRUE(files->session().has_lease(made->inode()));
  cluster.network().cut(SimulatedCluster::client_name(0), "metaserver");
  const TimePoint began = cluster.simulation().now();
  std::optional<Status> synced;
  asio::co_spawn(cluster.simulation().executor(), sync_file(*handle, synced), asio::detached);
  auto other = cluster.run(others->open({}, made->inode(), true));
  ASSERT_TRUE(other) << other.error();
  const std::vector<std::byte> newer(1000, std::byte{9});
  KINTSUGI_ASSERT_OK(cluster.run((*other)->file().write({}, 0, newer, false)));
  KINTSUGI_ASSERT_OK(cluster.run((*other)->sync({})));
  KINTSUGI_ASSERT_OK(cluster.run((*other)->close({})));
  cluster.run_for(began + silence - cluster.simulation().now());
  cluster.network().mend(SimulatedCluster::client_name(0), "metaserver");
  ASSERT_TRUE(cluster.simulation().run_until([&] { return synced.has_value(); }, 1min));
  EXPECT_EQ(synced->code(), Code::kLeaseLost) << *synced;
  cluster.run_for(40s);
  const auto found = cluster.get("/f");
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ(*found, newer)
      << "what was refused has come all the same, over what another client wrote after it";
  KINTSUGI_EXPECT_OK(cluster.run(handle->close({})));
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
  KINTSUGI_EXPECT_OK(cluster.run(others->stop()));
}

TEST(DataSeamsInACluster, AWriteThatWasUnderWayWhenItsLeaseWasLostNeverComesLater) {
  for (Duration silence = 31s; silence < 70s; silence += 700ms) {
    SCOPED_TRACE(fmt::format("silent for {} ms", silence / 1ms));
    write_after_a_loss(silence);
    if (testing::Test::HasFailure()) return;
  }
}

asio::awaitable<void> make_in_background(client::OpenFiles& files, proto::MakeInodeRequest request,
                                         std::optional<Status>& ended) {
  const auto made = co_await files.names().make({}, std::move(request));
  ended = made ? Status{} : made.error();
}

asio::awaitable<void> unlink_in_background(client::OpenFiles& files, proto::UnlinkRequest request,
                                           std::optional<Status>& ended) {
  const auto unlinked = co_await files.names().unlink({}, std::move(request));
  ended = unlinked ? Status{} : unlinked.error();
}

/// The inode that has the name, as a mount finds it; 0: none.
uint64_t look_up(SimulatedCluster& cluster, client::OpenFiles& files, uint64_t parent,
                 const std::string& name) {
  proto::LookupRequest request;
  request.set_parent(parent);
  request.set_name(name);
  const auto found = cluster.run(files.names().lookup({}, std::move(request)));
  if (!found) EXPECT_EQ(found.error().code(), Code::kNotFound) << found.error();
  return found ? found->inode() : 0;
}

/// A client with the lease of the directory /d, whose inode this is.
struct LeasedDirectory {
  std::unique_ptr<client::OpenFiles> files;
  uint64_t parent = 0;
};

LeasedDirectory leased_directory(SimulatedCluster& cluster) {
  LeasedDirectory made;
  KINTSUGI_EXPECT_OK(cluster.start());
  made.files = cluster.client().open_files({.dirty_bytes = 4 << 20, .lease_directories = true});
  KINTSUGI_EXPECT_OK(cluster.run(made.files->session().tell({})));
  const auto directory =
      cluster.run(made.files->names().make({}, making(kRoot, "d", proto::Attributes::DIRECTORY)));
  EXPECT_TRUE(directory) << directory.error();
  if (directory) made.parent = directory->inode();
  return made;
}

TEST(DataSeamsInACluster, ANameThatIsGivenWhileItsRemovalIsUnderWayIsThere) {
  SimulatedCluster cluster({.seed = 1});
  const auto [files, parent] = leased_directory(cluster);
  ASSERT_NE(parent, 0u);
  ASSERT_TRUE(files->names().is_leased(parent));
  cluster.run_for(1s);  // ids are reserved
  // A name that only the metaserver can take away: it was given by a rename.
  ASSERT_TRUE(cluster.run(files->names().make({}, making(parent, "y", proto::Attributes::FILE))));
  proto::MoveRequest move;
  move.set_parent(parent);
  move.set_name("y");
  move.set_to_parent(parent);
  move.set_to_name("x");
  KINTSUGI_ASSERT_OK(cluster.run(files->names().move({}, move)));
  // Whoever removes it is killed, so that its directory is not locked any more, and somebody makes it anew.
  proto::UnlinkRequest unlink;
  unlink.set_parent(parent);
  unlink.set_name("x");
  std::optional<Status> removed, made;
  asio::co_spawn(cluster.simulation().executor(), unlink_in_background(*files, unlink, removed),
                 asio::detached);
  asio::co_spawn(cluster.simulation().executor(),
                 make_in_background(*files, making(parent, "x", proto::Attributes::FILE), made),
                 asio::detached);
  ASSERT_TRUE(cluster.simulation().run_until([&] { return removed && made; }, 10s));
  KINTSUGI_ASSERT_OK(*removed);
  KINTSUGI_ASSERT_OK(*made);
  ASSERT_TRUE(files->names().is_leased(parent))
      << "the metaserver is asked for all names: this shows nothing";
  EXPECT_NE(look_up(cluster, *files, parent, "x"), 0u);
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

TEST(DataSeamsInACluster, ANameThatARenameGivesIsThereThoughItsMakingBeforeIsRefused) {
  SimulatedCluster cluster({.seed = 1});
  const auto [files, parent] = leased_directory(cluster);
  ASSERT_NE(parent, 0u);
  cluster.run_for(1s);  // ids are reserved
  ASSERT_TRUE(cluster.run(files->names().make({}, making(parent, "y", proto::Attributes::FILE))));
  constexpr auto kUnknown = static_cast<proto::Attributes::Type>(99);  // which the metaserver refuses
  const auto refused = cluster.run(files->names().make({}, making(parent, "x", kUnknown)));
  ASSERT_TRUE(refused && files->names().made(refused->inode())) << "it was not kept back: this shows nothing";
  // The metaserver hears of both while the rename is under way.
  proto::MoveRequest move;
  move.set_parent(parent);
  move.set_name("y");
  move.set_to_parent(parent);
  move.set_to_name("x");
  KINTSUGI_ASSERT_OK(cluster.run(files->names().move({}, move)));
  ASSERT_FALSE(files->names().made(refused->inode())) << "it was not refused: this shows nothing";
  ASSERT_TRUE(files->names().is_leased(parent))
      << "the metaserver is asked for all names: this shows nothing";
  EXPECT_NE(look_up(cluster, *files, parent, "x"), 0u);
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

asio::awaitable<void> flush_in_background(client::OpenFiles& files, std::optional<Status>& ended) {
  ended = co_await files.names().flush({});
}

TEST(DataSeamsInACluster, ARemovedNameDoesNotComeBackWhenItsMakingArrivesLate) {
  SimulatedCluster cluster({.seed = 1, .clients = 2});
  const auto [files, parent] = leased_directory(cluster);
  ASSERT_NE(parent, 0u);
  cluster.run_for(1s);  // ids are reserved
  ASSERT_TRUE(cluster.run(files->names().make({}, making(parent, "x", proto::Attributes::FILE))));
  // The metaserver is told of it on a connection that breaks, and once more on another one.
  const std::string machine = SimulatedCluster::client_name(0);
  cluster.network().delay_connections(machine, 40s);
  std::optional<Status> flushed;
  asio::co_spawn(cluster.simulation().executor(), flush_in_background(*files, flushed), asio::detached);
  cluster.run_for(1ms);
  cluster.network().give_up_connections(machine);
  ASSERT_TRUE(cluster.simulation().run_until([&] { return flushed.has_value(); }, 10s));
  KINTSUGI_ASSERT_OK(*flushed);
  proto::UnlinkRequest unlink;
  unlink.set_parent(parent);
  unlink.set_name("x");
  ASSERT_TRUE(cluster.run(files->names().unlink({}, unlink)));
  KINTSUGI_ASSERT_OK(cluster.run(files->names().flush({})));
  cluster.run_for(60s);
  ASSERT_TRUE(files->names().is_leased(parent)) << "the late message is refused anyway: this shows nothing";
  EXPECT_EQ(cluster.run(cluster.client_program(1).client().stat("/d/x")).error().code(), Code::kNotFound);
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

TEST(DataSeamsInACluster, WhatIsMadeWhileTheMetaserverDoesNotAnswerForMinutesIsThereAfterwards) {
#ifndef KINTSUGI_FAULT_POINTS
  GTEST_SKIP() << "built without fault points";
#endif
  SimulatedCluster cluster({.seed = 1});
  const auto [files, parent] = leased_directory(cluster);
  ASSERT_NE(parent, 0u);
  cluster.run_for(1s);  // ids are reserved
  for (uint32_t i = 0; i < client::ReservedIds::kAtOnce / 2; ++i) {
    const std::string name = fmt::format("{}", i);
    ASSERT_TRUE(cluster.run(files->names().make({}, making(parent, name, proto::Attributes::FILE))));
  }
  KINTSUGI_ASSERT_OK(cluster.run(files->names().flush({})));
  // The metaserver does what it is asked, and its disk does not say that it is done.
  runtime::FaultPoints& faults = cluster.metaserver_node().faults();
  ASSERT_TRUE(faults.set(
      {.point = runtime::FaultPoint::kComplete, .action = runtime::FaultAction::kHang, .detail = "commit"}));
  // The next one needs more ids, for which the metaserver is asked again and again.
  std::vector<std::optional<Status>> made(8);
  for (size_t i = 0; i < made.size(); ++i) {
    asio::co_spawn(cluster.simulation().executor(),
                   make_in_background(
                       *files, making(parent, fmt::format("late-{}", i), proto::Attributes::FILE), made[i]),
                   asio::detached);
    cluster.run_for(30s);
  }
  faults.clear();
  const auto all_made = [&] {
    return std::ranges::all_of(made, [](const auto& one) { return one.has_value(); });
  };
  ASSERT_TRUE(cluster.simulation().run_until(all_made, 1min));
  cluster.run_for(10s);
  for (size_t i = 0; i < made.size(); ++i) {
    KINTSUGI_EXPECT_OK(*made[i]);
    EXPECT_TRUE(cluster.run(cluster.client().stat(fmt::format("/d/late-{}", i)))) << i;
  }
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

TEST(DataSeamsInACluster, ANameInADirectoryIsThereThoughTheAnswerThatMadeTheDirectoryComesLater) {
  SimulatedCluster cluster({.seed = 1, .clients = 2});
  KINTSUGI_ASSERT_OK(cluster.start());
  auto files =
      cluster.client_program(0).client().open_files({.dirty_bytes = 4 << 20, .lease_directories = true});
  auto others =
      cluster.client_program(1).client().open_files({.dirty_bytes = 4 << 20, .kernel_believes = true});
  KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
  KINTSUGI_ASSERT_OK(cluster.run(others->session().tell({})));
  // Another kernel believes that there is no such directory, and hears of nothing: the answer waits for that.
  EXPECT_EQ(look_up(cluster, *others, kRoot, "d"), 0u);
  cluster.network().cut(SimulatedCluster::client_name(1), "metaserver");
  std::optional<Status> made;
  asio::co_spawn(cluster.simulation().executor(),
                 make_in_background(*files, making(kRoot, "d", proto::Attributes::DIRECTORY), made),
                 asio::detached);
  cluster.run_for(100ms);
  ASSERT_FALSE(made) << "nobody was waited for: this shows nothing";
  // Whoever makes it is killed, so that its parent is not locked any more, and somebody works in it.
  const uint64_t directory = look_up(cluster, *files, kRoot, "d");
  ASSERT_NE(directory, 0u);
  ASSERT_TRUE(cluster.run(files->names().make({}, making(directory, "x", proto::Attributes::FILE))));
  ASSERT_TRUE(cluster.simulation().run_until([&] { return made.has_value(); }, 10s));
  KINTSUGI_ASSERT_OK(*made);
  EXPECT_NE(look_up(cluster, *files, directory, "x"), 0u);
  cluster.network().mend(SimulatedCluster::client_name(1), "metaserver");
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
  KINTSUGI_EXPECT_OK(cluster.run(others->stop()));
}

}  // namespace
}  // namespace kintsugi::simulation
