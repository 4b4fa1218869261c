// The tables of a mount have bounds: whatever the kernel asks for, and however seldom it forgets.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "client/mount/cluster_file_system.h"
#include "client/mount/directory_cookies.h"
#include "client/mount/kernel/directory_buffer.h"
#include "tests/expect_ok.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

using namespace mount;

constexpr ClusterFileSystemOptions kSmall{.remembered = 50, .listing_positions = 200, .open_handles = 30};

/// What a kernel asks of a mount whose tables are small.
class MountTables : public testing::Test {
 protected:
  void SetUp() override {
    KINTSUGI_ASSERT_OK(cluster.start());
    files = cluster.client().open_files({.dirty_bytes = 4 << 20, .lease_directories = true});
    KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
    mount = std::make_unique<ClusterFileSystem>(cluster.client_node().runtime(), cluster.client(), *files,
                                                nullptr, kSmall);
    caller.interrupt = &interrupt;
  }
  void TearDown() override {
    cluster.run(mount->close_all());
    mount.reset();
    KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
  }

  NodeId make_directory(NodeId parent, const std::string& name) {
    const auto made = cluster.run(mount->make_directory(caller, parent, name, {.mode = S_IFDIR | 0755}));
    KINTSUGI_ASSERT(made);
    return made->node;
  }
  NodeId make_file(NodeId parent, const std::string& name) {
    const auto made = cluster.run(mount->make_node(caller, parent, name, {.mode = S_IFREG | 0644}));
    KINTSUGI_ASSERT(made);
    return made->node;
  }
  /// Makes a file under the lease of its directory, and opens it.
  Result<CreateAnswer> create(NodeId parent, const std::string& name) {
    cluster.run_for(1s);  // ids are reserved
    return cluster.run(mount->create(caller, parent, name, {.mode = S_IFREG | 0644}, {.flags = O_RDWR}));
  }
  /// Reads a directory from `cookie` on, a little at a time; at most `most` names.
  std::vector<std::string> list(NodeId directory, Handle handle, uint64_t& cookie, size_t most) {
    std::vector<std::string> names;
    while (names.size() < most) {
      std::string bytes;
      DirectoryBuffer into(bytes, 300, false);
      KINTSUGI_EXPECT_OK(cluster.run(mount->read_directory(caller, directory, handle, cookie, false, into)));
      if (bytes.empty()) break;
      for (size_t at = 0; at < bytes.size() && names.size() < most;) {
        fuse_dirent entry;
        std::memcpy(&entry, bytes.data() + at, FUSE_NAME_OFFSET);
        names.emplace_back(bytes, at + FUSE_NAME_OFFSET, entry.namelen);
        cookie = entry.off;
        at += FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + entry.namelen);
      }
    }
    return names;
  }
  void expect_bounds() {
    const auto held = mount->held();
    EXPECT_LE(held.inodes, kSmall.remembered);
    EXPECT_LE(held.names, kSmall.remembered);
    EXPECT_LE(held.contents, kSmall.remembered);
    EXPECT_LE(held.kept, kSmall.remembered);
    EXPECT_LE(held.positions, kSmall.listing_positions);
    EXPECT_LE(held.handles, kSmall.open_handles);
  }

  SimulatedCluster cluster{{.seed = 1}};
  std::unique_ptr<client::OpenFiles> files;
  std::unique_ptr<ClusterFileSystem> mount;
  Interrupt interrupt;
  Caller caller;
};

TEST_F(MountTables, AreBoundedWhileNamesAreLookedUpAndNothingIsForgotten) {
  const NodeId directory = make_directory(kRootNode, "d");
  for (int i = 0; i < 150; ++i) {
    make_directory(directory, fmt::format("d{}", i));
    const NodeId file = make_file(directory, fmt::format("f{}", i));
    for (const char kind : {'d', 'f'})
      ASSERT_TRUE(cluster.run(mount->lookup(caller, directory, fmt::format("{}{}", kind, i))));
    const auto opened = cluster.run(mount->open(caller, file, {}));
    ASSERT_TRUE(opened) << opened.error();
    KINTSUGI_EXPECT_OK(cluster.run(mount->release(caller, file, {.handle = opened->handle})));
    expect_bounds();
  }
  for (int i = 0; i < 150; ++i) {
    const std::string name = fmt::format("d{}", i);
    Status removed = cluster.run(mount->remove_directory(caller, directory, name));
    if (removed.code() == Code::kStale) {
      // What is not remembered the kernel looks up once more.
      ASSERT_TRUE(cluster.run(mount->lookup(caller, directory, name)));
      removed = cluster.run(mount->remove_directory(caller, directory, name));
    }
    KINTSUGI_EXPECT_OK(removed);
    expect_bounds();
  }
}

TEST_F(MountTables, AFileThatWasJustMadeIsOpenedWithoutACallAndLivesOnWithoutItsName) {
  const NodeId directory = make_directory(kRootNode, "d");
  const auto made = create(directory, "f");
  ASSERT_TRUE(made) << made.error();
  const NodeId file = made->entry.node;
  const auto write = [&](Handle handle, uint64_t offset, const std::string& text) {
    const auto wrote = cluster.run(mount->write(
        caller, file, {.handle = handle, .offset = offset, .data = std::as_bytes(std::span(text))}));
    ASSERT_TRUE(wrote) << wrote.error();
  };
  write(made->open.handle, 0, "what it ");
  KINTSUGI_EXPECT_OK(cluster.run(mount->release(caller, file, {.handle = made->open.handle})));
  const Duration before = cluster.elapsed();
  const auto opened = cluster.run(mount->open(caller, file, {.flags = O_RDWR}));
  ASSERT_TRUE(opened) << opened.error();
  EXPECT_EQ(cluster.elapsed(), before) << "somebody was asked";
  KINTSUGI_EXPECT_OK(cluster.run(mount->unlink(caller, directory, "f")));
  write(opened->handle, 8, "holds");
  cluster.run_for(20s);
  KINTSUGI_EXPECT_OK(cluster.run(mount->fsync(caller, file, opened->handle)));
  const auto read =
      cluster.run(mount->read(caller, file, {.handle = opened->handle, .offset = 0, .bytes = 100}));
  ASSERT_TRUE(read) << read.error();
  std::string found;
  for (const auto& range : read->ranges)
    found.append(reinterpret_cast<const char*>(range.data()), range.size());
  EXPECT_EQ(found, "what it holds");
  KINTSUGI_EXPECT_OK(cluster.run(mount->release(caller, file, {.handle = opened->handle})));
}

TEST_F(MountTables, PagesStayWhenOnlyThisMountChangesTheModeOfItsFileAndGoWhenAnotherOneChangesAnything) {
  const NodeId directory = make_directory(kRootNode, "d");
  const auto made = create(directory, "f");
  ASSERT_TRUE(made) << made.error();
  const NodeId file = made->entry.node;
  const std::string text = "what a version control system writes";
  ASSERT_TRUE(cluster.run(
      mount->write(caller, file, {.handle = made->open.handle, .data = std::as_bytes(std::span(text))})));
  KINTSUGI_EXPECT_OK(cluster.run(mount->release(caller, file, {.handle = made->open.handle})));
  const auto chmod = [&](uint32_t mode) {
    ASSERT_TRUE(cluster.run(mount->set_attributes(caller, file, {.mode = mode})));
  };
  const auto keeps_pages = [&] {
    const auto opened = cluster.run(mount->open(caller, file, {}));
    KINTSUGI_ASSERT(opened);
    KINTSUGI_EXPECT_OK(cluster.run(mount->release(caller, file, {.handle = opened->handle})));
    return opened->keep_cache;
  };
  chmod(0444);
  EXPECT_TRUE(keeps_pages());
  cluster.run_for(20s);  // it is written out
  EXPECT_TRUE(keeps_pages());
  proto::SetAttributesRequest elsewhere;
  elsewhere.set_inode(file);
  elsewhere.set_mode(0400);
  cluster.run_for(5s);
  auto others = cluster.client().open_files({});
  KINTSUGI_ASSERT_OK(cluster.run(others->session().tell({})));
  ASSERT_TRUE(cluster.run(others->calls().set_attributes({}, elsewhere)));
  chmod(0600);
  EXPECT_FALSE(keeps_pages()) << "somebody else may have changed bytes, too";
  KINTSUGI_EXPECT_OK(cluster.run(others->stop()));
}

TEST_F(MountTables, AFileThatWasMadeAndNeverOpenedHasNoLease) {
  const NodeId directory = make_directory(kRootNode, "d");
  cluster.run_for(1s);  // ids are reserved
  const NodeId file = make_file(directory, "f");
  ASSERT_NE(files->names().made(file), nullptr) << "it is not made under a lease: this shows nothing";
  cluster.run_for(5s);
  EXPECT_FALSE(files->session().has_lease(file)) << "nobody would give it back";
}

TEST_F(MountTables, ADirectoryThatIsMovedOrExchangedUnderItsLeaseWasChangedThen) {
  const auto changed = [&](NodeId node) {
    const auto found = cluster.run(mount->get_attributes(caller, node));
    KINTSUGI_ASSERT(found);
    return found->attributes.changed_ns;
  };
  const NodeId one = make_directory(kRootNode, "one"), two = make_directory(kRootNode, "two");
  cluster.run_for(5s);
  const int64_t made_one = changed(one), made_two = changed(two);
  KINTSUGI_EXPECT_OK(cluster.run(mount->rename(caller, kRootNode, "one", kRootNode, "three", {})));
  const int64_t moved = changed(one);
  EXPECT_GT(moved, made_one);
  cluster.run_for(5s);
  KINTSUGI_EXPECT_OK(
      cluster.run(mount->rename(caller, kRootNode, "two", kRootNode, "three", {.exchange = true})));
  EXPECT_GT(changed(one), moved);
  EXPECT_GT(changed(two), made_two);
}

TEST_F(MountTables, WhoLooksAtADirectoryWhileANameInItIsMovedSeesItsNewTimesAfterwards) {
  const NodeId directory = make_directory(kRootNode, "d");
  make_file(directory, "one");
  // It goes to a directory whose lease another client has to give back first, which takes a moment.
  auto other_files = cluster.client().open_files({.dirty_bytes = 4 << 20, .lease_directories = true});
  KINTSUGI_ASSERT_OK(cluster.run(other_files->session().tell({})));
  auto other = std::make_unique<ClusterFileSystem>(cluster.client_node().runtime(), cluster.client(),
                                                   *other_files, nullptr, kSmall);
  const auto theirs =
      cluster.run(other->make_directory(caller, kRootNode, "theirs", {.mode = S_IFDIR | 0755}));
  ASSERT_TRUE(theirs) << theirs.error();
  cluster.run_for(1s);  // ids are reserved
  ASSERT_TRUE(cluster.run(other->make_node(caller, theirs->node, "file", {.mode = S_IFREG | 0644})));

  std::optional<Status> moved;
  const auto move = [&]() -> asio::awaitable<void> {
    moved = co_await mount->rename(caller, directory, "one", theirs->node, "two", {});
  };
  asio::co_spawn(cluster.client_node().runtime().executor, move(), asio::detached);
  while (!moved) {
    ASSERT_TRUE(cluster.run(mount->get_attributes(caller, directory)));
    cluster.run_for(10us);
  }
  KINTSUGI_EXPECT_OK(*moved);
  const auto now = cluster.run(mount->get_attributes(caller, directory));
  ASSERT_TRUE(now) << now.error();
  const auto by_path = cluster.run(cluster.client().stat("/d"));
  ASSERT_TRUE(by_path) << by_path.error();
  EXPECT_EQ(now->attributes.modified_ns, by_path->modified_ns());
  cluster.run(other->close_all());
  other.reset();
  KINTSUGI_EXPECT_OK(cluster.run(other_files->stop()));
}

TEST_F(MountTables, WhoHasAPipeOrALinkOpenGoesOnToSeeItWithoutItsName) {
  const NodeId directory = make_directory(kRootNode, "d");
  const auto pipe = cluster.run(mount->make_node(caller, directory, "pipe", {.mode = S_IFIFO | 0600}));
  ASSERT_TRUE(pipe) << pipe.error();
  const auto link = cluster.run(mount->symlink(caller, directory, "link", "target"));
  ASSERT_TRUE(link) << link.error();
  cluster.run_for(5s);
  ASSERT_TRUE(cluster.run(mount->set_attributes(caller, pipe->node, {.mode = 0640})));
  for (const char* name : {"pipe", "link"})
    KINTSUGI_EXPECT_OK(cluster.run(mount->unlink(caller, directory, name)));
  cluster.run_for(5s);
  const auto open = cluster.run(mount->get_attributes(caller, pipe->node));
  ASSERT_TRUE(open) << open.error();
  EXPECT_EQ(open->attributes.mode, uint32_t{S_IFIFO | 0640});
  EXPECT_EQ(open->attributes.links, 0u);
  const auto target = cluster.run(mount->read_link(caller, link->node));
  ASSERT_TRUE(target) << target.error();
  EXPECT_EQ(*target, "target");
  // One that was looked up by a process that was killed meanwhile is given back alone.
  const auto link_again = cluster.run(mount->symlink(caller, directory, "again", "elsewhere"));
  ASSERT_TRUE(link_again && cluster.run(mount->lookup(caller, directory, "again")));
  mount->forget(link_again->node, 1);
  KINTSUGI_EXPECT_OK(cluster.run(mount->unlink(caller, directory, "again")));
  cluster.run_for(5s);
  EXPECT_TRUE(cluster.run(mount->get_attributes(caller, link_again->node))) << "the kernel knows it still";
  mount->forget(link_again->node, 1);
  EXPECT_EQ(cluster.run(mount->get_attributes(caller, link_again->node)).error().code(), Code::kStale);
  mount->forget(pipe->node, 1);
  EXPECT_EQ(cluster.run(mount->get_attributes(caller, pipe->node)).error().code(), Code::kStale);
}

TEST_F(MountTables, AFileThatIsMadeWhileTheMetaserverStartsAnewStaysOpenWithoutItsName) {
  constexpr int kFiles = 25;
  cluster.crash_metaserver(Crash::kKill);
  cluster.run_for(1s);
  cluster.restart_metaserver();
  std::vector<NodeId> made;
  const auto make = [&](int i) -> asio::awaitable<void> {
    const auto one = co_await mount->create(caller, kRootNode, fmt::format("f{}", i),
                                            {.mode = S_IFREG | 0644}, {.flags = O_RDWR});
    KINTSUGI_ASSERT(one);
    made.push_back(one->entry.node);
  };
  for (int i = 0; i < kFiles; ++i) {
    asio::co_spawn(cluster.client_node().runtime().executor, make(i), asio::detached);
    cluster.run_for(20ms);
  }
  while (made.size() < kFiles)
    cluster.run_for(100ms);
  for (int i = 0; i < kFiles; ++i)
    KINTSUGI_EXPECT_OK(cluster.run(mount->unlink(caller, kRootNode, fmt::format("f{}", i))));
  cluster.run_for(90s);  // the metaserver does not take all for held any more
  for (const NodeId node : made) {
    const auto open = cluster.run(files->calls().get({}, node));
    EXPECT_TRUE(open) << open.error();
  }
}

TEST_F(MountTables, SpecialFilesThatAreNeverForgottenTakeABoundedRoom) {
  const NodeId directory = make_directory(kRootNode, "d");
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(
        cluster.run(mount->make_node(caller, directory, fmt::format("p{}", i), {.mode = S_IFIFO | 0600})));
    expect_bounds();
  }
}

TEST_F(MountTables, ManyListingsThatStandStillTakeABoundedRoomAndGoOnWhereTheyWere) {
  const NodeId directory = make_directory(kRootNode, "d");
  std::vector<std::string> expected{".", ".."};
  for (int i = 0; i < 300; ++i) {
    expected.push_back(fmt::format("f{:03}", i));
    make_file(directory, expected.back());
  }
  struct Listing {
    Handle handle;
    uint64_t cookie = 0;
    std::vector<std::string> names;
  };
  std::vector<Listing> listings;
  for (int i = 0; i < 6; ++i) {
    const auto opened = cluster.run(mount->open_directory(caller, directory));
    ASSERT_TRUE(opened) << opened.error();
    listings.push_back({opened->handle, 0, {}});
  }
  for (int round = 0; round < 10; ++round) {
    for (Listing& listing : listings) {
      for (const std::string& name : list(directory, listing.handle, listing.cookie, 37))
        listing.names.push_back(name);
      expect_bounds();
    }
  }
  for (const Listing& listing : listings)
    EXPECT_EQ(listing.names, expected);
}

TEST_F(MountTables, SoManyHandlesAreOpenAtOnce) {
  const NodeId directory = make_directory(kRootNode, "d");
  const NodeId file = make_file(directory, "f");
  std::vector<Handle> handles;
  for (size_t i = 0; i < kSmall.open_handles; ++i) {
    const auto opened = cluster.run(mount->open(caller, file, {}));
    ASSERT_TRUE(opened) << opened.error();
    handles.push_back(opened->handle);
  }
  const auto refused = cluster.run(mount->open(caller, file, {}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kLimitExceeded);
  EXPECT_FALSE(cluster.run(mount->open_directory(caller, directory)));
  KINTSUGI_EXPECT_OK(cluster.run(mount->release(caller, file, {.handle = handles.back()})));
  EXPECT_TRUE(cluster.run(mount->open(caller, file, {})));
}

}  // namespace
}  // namespace kintsugi::simulation
