// Changes whose commit fails change nothing in memory either: what the metaserver believes is what it stored, before and after a
// restart.
#include "tests/metaserver/directory_rig.h"

namespace kintsugi::metaserver {
namespace {

#ifdef KINTSUGI_FAULT_POINTS

class FailingCommits : public testing::Test {
 protected:
  FailingCommits() {
    KINTSUGI_EXPECT_OK(rig.make_directory("/d"));
    KINTSUGI_EXPECT_OK(rig.put("/d/f"));
  }

  void fail_next_commit() {
    ASSERT_TRUE(rig.meta_node.faults().set(
        {.point = runtime::FaultPoint::kStoreCommit, .action = runtime::FaultAction::kError, .times = 1}));
  }
  void commits_work() { rig.meta_node.faults().clear(); }

  Status set_trash(int64_t retention_ns) { return rig.set_trash("/d", retention_ns); }
  Result<proto::ListTrashResponse> trash() {
    proto::ListTrashRequest request;
    request.set_path("/d");
    return rig.call<proto::ListTrashResponse>(rpc::Method::kListTrash, request);
  }
  Status set_quota(std::optional<uint64_t> files) { return rig.set_quota("/d", std::nullopt, files); }
  void expect_same_after_restart() {
    const auto shown = [&] {
      std::string all;
      for (const proto::Snapshot& snapshot : rig.snapshots())
        all += snapshot.SerializeAsString() + "\n";
      const auto kept = trash();
      return all + (kept ? kept->SerializeAsString() : kept.error().to_string());
    };
    const std::string before = shown();
    rig.restart();
    EXPECT_EQ(shown(), before);
  }

  static constexpr int64_t kHour = 3'600'000'000'000;
  DirectoryRig rig;
};

TEST_F(FailingCommits, MakeNoSnapshot) {
  fail_next_commit();
  EXPECT_EQ(rig.create("/d", "s").code(), Code::kUnavailable);
  commits_work();
  EXPECT_TRUE(rig.snapshots().empty());
  EXPECT_FALSE(rig.exists("/d/.snapshots/s"));
  expect_same_after_restart();
  KINTSUGI_EXPECT_OK(rig.create("/d", "s")) << "the name is free";
}

TEST_F(FailingCommits, DeleteNoSnapshot) {
  KINTSUGI_ASSERT_OK(rig.create("/d", "s"));
  const Dump before = rig.dump("/d/.snapshots/s");
  fail_next_commit();
  EXPECT_EQ(rig.destroy("/d", "s").code(), Code::kUnavailable);
  commits_work();
  EXPECT_EQ(rig.dump("/d/.snapshots/s"), before);
  KINTSUGI_ASSERT_OK(rig.remove("/d/f"));
  rig.settle();
  EXPECT_EQ(rig.dump("/d/.snapshots/s"), before);
  expect_same_after_restart();
  EXPECT_EQ(rig.dump("/d/.snapshots/s"), before);
}

TEST_F(FailingCommits, LeaveTheCountsOfASnapshotAsTheyAre) {
  KINTSUGI_ASSERT_OK(rig.create("/d", "s"));
  fail_next_commit();
  EXPECT_EQ(rig.remove("/d/f").code(), Code::kUnavailable);
  commits_work();
  EXPECT_EQ(rig.snapshots().at(0).kept_records(), 0u);
  KINTSUGI_EXPECT_OK(rig.remove("/d/f"));
  rig.settle();
  const uint64_t kept = rig.snapshots().at(0).kept_records();
  EXPECT_EQ(kept, rig.count(keys::Kind::kSaved));
  expect_same_after_restart();
}

TEST_F(FailingCommits, OfADeletionsStepsLoseNothingThatIsToBeFreed) {
  for (int i = 0; i < 100; ++i)
    KINTSUGI_ASSERT_OK(rig.put(fmt::format("/d/f{}", i), 1, 1000));
  KINTSUGI_ASSERT_OK(rig.create("/d", "s"));
  for (int i = 0; i < 100; ++i)
    KINTSUGI_ASSERT_OK(rig.remove(fmt::format("/d/f{}", i)));
  rig.settle();
  KINTSUGI_ASSERT_OK(rig.destroy("/d", "s"));
  fail_next_commit();
  rig.settle();
  commits_work();
  rig.settle();
  EXPECT_TRUE(rig.snapshots().empty());
  EXPECT_EQ(rig.count(keys::Kind::kSaved), 0u);
  EXPECT_EQ(rig.count(keys::Kind::kSavedFor), 0u);
  rig.expect_references_exact();
}

TEST_F(FailingCommits, MakeNoTrashAndRemoveNone) {
  fail_next_commit();
  EXPECT_EQ(set_trash(kHour).code(), Code::kUnavailable);
  commits_work();
  EXPECT_EQ(trash().error().code(), Code::kNotFound);
  expect_same_after_restart();
  KINTSUGI_ASSERT_OK(set_trash(kHour));
  fail_next_commit();
  EXPECT_EQ(set_trash(2 * kHour).code(), Code::kUnavailable);
  commits_work();
  EXPECT_EQ(trash()->retention_ns(), kHour);
  fail_next_commit();
  EXPECT_EQ(set_trash(0).code(), Code::kUnavailable);
  commits_work();
  EXPECT_EQ(trash()->retention_ns(), kHour);
  expect_same_after_restart();
}

TEST_F(FailingCommits, ATrashThatCannotBeMadeIsNone) {
  // Its directory would be one more than the quota of the directory above has room for; that is not enforced, but the name is.
  KINTSUGI_ASSERT_OK(rig.put("/d/.trash"));
  EXPECT_EQ(set_trash(kHour).code(), Code::kAlreadyExists);
  EXPECT_EQ(trash().error().code(), Code::kNotFound);
  expect_same_after_restart();
}

TEST_F(FailingCommits, SetNoQuota) {
  fail_next_commit();
  EXPECT_EQ(set_quota(1).code(), Code::kUnavailable);
  commits_work();
  KINTSUGI_EXPECT_OK(rig.put("/d/g"));
  rig.restart();
  KINTSUGI_EXPECT_OK(rig.put("/d/h"));
  KINTSUGI_EXPECT_OK(set_quota(1));
  EXPECT_EQ(rig.put("/d/i").code(), Code::kQuota);
  fail_next_commit();
  EXPECT_EQ(set_quota(std::nullopt).code(), Code::kUnavailable);
  commits_work();
  EXPECT_EQ(rig.put("/d/i").code(), Code::kQuota);
  rig.restart();
  EXPECT_EQ(rig.put("/d/i").code(), Code::kQuota);
}

TEST_F(FailingCommits, OfTheStepsThatClearARemovedTreeLeaveNothingBehind) {
  const size_t inodes = rig.count(keys::Kind::kInode);
  KINTSUGI_ASSERT_OK(rig.make_directory("/tree"));
  for (int i = 0; i < 300; ++i)
    KINTSUGI_ASSERT_OK(rig.make_directory(fmt::format("/tree/{}", i)));
  KINTSUGI_ASSERT_OK(rig.remove("/tree", true));
  for (int i = 0; i < 3; ++i) {
    fail_next_commit();
    rig.pass(2);
  }
  commits_work();
  rig.settle();
  EXPECT_EQ(rig.count(keys::Kind::kInode), inodes);
}

TEST_F(FailingCommits, DrainNoServer) {
  const ServerId server = rig.servers[0].id;
  const auto drain = [&](bool on) {
    proto::DrainServerRequest request;
    request.set_server_id(server.value);
    request.set_drain(on);
    return rig.status_of(rig.call<proto::Empty>(rpc::Method::kDrainServer, request));
  };
  const auto draining = [&] { return rig.meta->state().servers.registry.find(server)->stored.draining(); };
  fail_next_commit();
  EXPECT_EQ(drain(true).code(), Code::kUnavailable);
  commits_work();
  EXPECT_FALSE(draining());
  KINTSUGI_EXPECT_OK(drain(true));
  EXPECT_TRUE(draining());
  rig.restart();
  EXPECT_TRUE(draining());
}

#endif  // KINTSUGI_FAULT_POINTS

}  // namespace
}  // namespace kintsugi::metaserver
