// A lock that is granted after its application was told EINTR is given back, and nothing else that its owner has.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "client/mount/cluster_file_system.h"
#include "tests/expect_ok.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

using namespace mount;

class InterruptedLock : public testing::Test {
 protected:
  void SetUp() override {
    KINTSUGI_ASSERT_OK(cluster.start());
    files = cluster.client().open_files({.dirty_bytes = 4 << 20});
    KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
    mount = std::make_unique<ClusterFileSystem>(cluster.client_node().runtime(), cluster.client(), *files,
                                                nullptr, ClusterFileSystemOptions{});
    caller.interrupt = &interrupt;
    const auto made = cluster.run(mount->create(caller, kRootNode, "f", {.mode = S_IFREG | 0644}, {}));
    KINTSUGI_ASSERT(made);
    node = made->entry.node;
    handle = made->open.handle;
  }
  void TearDown() override {
    cluster.run(mount->close_all());
    mount.reset();
    KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
  }

  Status lock(LockOwner owner, uint64_t start, uint64_t end) {
    return cluster.run(mount->set_lock(caller, node, request(owner, start, end, true)));
  }
  /// Whether somebody else has it.
  bool is_locked(uint64_t start, uint64_t end) {
    const auto found = cluster.run(mount->get_lock(caller, node, request(99, start, end, false)));
    EXPECT_TRUE(found) << found.error();
    return found && found->type != LockType::kUnlock;
  }
  LockRequest request(LockOwner owner, uint64_t start, uint64_t end, bool wait) const {
    return {.handle = handle,
            .owner = owner,
            .lock = {.type = LockType::kWrite, .start = start, .end = end},
            .wait = wait};
  }

  SimulatedCluster cluster{{.seed = 1}};
  std::unique_ptr<client::OpenFiles> files;
  std::unique_ptr<ClusterFileSystem> mount;
  Interrupt interrupt;
  Caller caller;
  NodeId node = 0;
  Handle handle = 0;
};

TEST_F(InterruptedLock, IsGivenBackAndLeavesTheOtherLocksOfItsOwner) {
  KINTSUGI_ASSERT_OK(lock(1, 0, 9));
  KINTSUGI_ASSERT_OK(lock(1, 200, UINT64_MAX));
  interrupt.request();
  interrupt.abandon();
  (void)lock(1, 100, 109);
  interrupt = {};
  EXPECT_FALSE(is_locked(10, 199)) << "nobody knows of it";
  EXPECT_TRUE(is_locked(0, 9)) << "its owner believes to have it";
  EXPECT_TRUE(is_locked(300, 300)) << "its owner believes to have it";
}

TEST_F(InterruptedLock, LeavesWhatItsOwnerHadOfTheRange) {
  const auto shared = [this](uint64_t start, uint64_t end) {
    LockRequest wanted = request(1, start, end, false);
    wanted.lock.type = LockType::kRead;
    return cluster.run(mount->set_lock(caller, node, wanted));
  };
  // Two locks in the range that is asked for, one that reaches beyond it, and one beside it.
  KINTSUGI_ASSERT_OK(lock(1, 100, 104));
  KINTSUGI_ASSERT_OK(shared(107, 108));
  KINTSUGI_ASSERT_OK(lock(1, 118, 130));
  KINTSUGI_ASSERT_OK(lock(1, 200, 209));
  interrupt.request();
  interrupt.abandon();
  (void)lock(1, 102, 120);
  interrupt = {};
  for (const auto& [start, end] : {std::pair{100, 104}, {107, 108}, {118, 130}, {200, 209}})
    for (int at = start; at <= end; ++at)
      EXPECT_TRUE(is_locked(at, at)) << at << ": its owner believes to have it";
  EXPECT_FALSE(is_locked(105, 106)) << "nobody knows of it";
  EXPECT_FALSE(is_locked(109, 117)) << "nobody knows of it";
  LockRequest reads = request(99, 107, 108, false);
  reads.lock.type = LockType::kRead;
  KINTSUGI_EXPECT_OK(cluster.run(mount->set_lock(caller, node, reads)));
}

TEST_F(InterruptedLock, LeavesAFileLockThatWasToBeChanged) {
  LockRequest wanted = request(1, 0, 0, true);
  wanted.flock = true;
  wanted.lock.type = LockType::kRead;
  KINTSUGI_ASSERT_OK(cluster.run(mount->set_lock(caller, node, wanted)));
  wanted.lock.type = LockType::kWrite;
  interrupt.request();
  interrupt.abandon();
  (void)cluster.run(mount->set_lock(caller, node, wanted));
  interrupt = {};
  wanted.wait = false;
  wanted.owner = 2;
  EXPECT_EQ(cluster.run(mount->set_lock(caller, node, wanted)).code(), Code::kWouldBlock);
  wanted.lock.type = LockType::kRead;
  KINTSUGI_EXPECT_OK(cluster.run(mount->set_lock(caller, node, wanted)));
}

}  // namespace
}  // namespace kintsugi::simulation
