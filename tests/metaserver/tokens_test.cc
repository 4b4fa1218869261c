// Tokens at the metaserver: they outlive restarts and so does their end, a reader changes nothing, and root of a client's host is not
// root. token_paths_test.cc has those with a path.
#include "tests/metaserver/token_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint32_t kAnn = 1001;

TEST(Tokens, OutliveARestartAndSoDoesTheirEnd) {
  TokenRig rig;
  const auto kept = rig.create("kept", TokenClaims::READ);
  const auto gone = rig.create("gone", TokenClaims::READ);
  ASSERT_TRUE(kept && gone);
  EXPECT_EQ(rig.revoke("gone"), Code::kOk);
  EXPECT_EQ(rig.revoke("gone"), Code::kNotFound);
  EXPECT_EQ(rig.revoke("never was"), Code::kNotFound);
  rig.restart();
  rig.hold(kept->token());
  EXPECT_EQ(rig.stat("/"), Code::kOk);
  rig.hold(gone->token());
  EXPECT_EQ(rig.stat("/"), Code::kPermissionDenied);
}

TEST(Tokens, ANameIsFreeAgainWhenItsTokenHasEnded) {
  TokenRig rig;
  ASSERT_TRUE(rig.create("name", TokenClaims::READ, "", false, 60));
  EXPECT_EQ(rig.create("name", TokenClaims::READ).error().code(), Code::kAlreadyExists);
  rig.simulation.run_for(61s);
  ASSERT_TRUE(rig.create("name", TokenClaims::READ)) << "the first one has expired";
  EXPECT_EQ(rig.revoke("name"), Code::kOk);
  ASSERT_TRUE(rig.create("name", TokenClaims::READ));
  const auto all = rig.call<proto::ListTokensResponse>(Method::kListTokens, proto::ListTokensRequest());
  ASSERT_TRUE(all);
  EXPECT_EQ(all->tokens_size(), 3);
}

TEST(Tokens, DaemonsAreToldOnceOfEachRevocation) {
  TokenRig rig;
  const auto made = rig.create("gone", TokenClaims::READ);
  ASSERT_TRUE(made);
  proto::RevokedTokensRequest request;
  const auto before = rig.call<proto::RevokedTokensResponse>(Method::kRevokedTokens, request);
  ASSERT_TRUE(before);
  EXPECT_EQ(before->ids_size(), 0);
  ASSERT_EQ(rig.revoke("gone"), Code::kOk);
  request.set_known(before->version());
  const auto after = rig.call<proto::RevokedTokensResponse>(Method::kRevokedTokens, request);
  ASSERT_TRUE(after);
  ASSERT_EQ(after->ids_size(), 1);
  EXPECT_EQ(after->ids(0), made->claims().id());
  request.set_known(after->version());
  EXPECT_EQ(rig.call<proto::RevokedTokensResponse>(Method::kRevokedTokens, request)->ids_size(), 0);
}

TEST(Tokens, AReaderChangesNothing) {
  TokenRig rig;
  rig.make_tree();
  rig.hold_new(TokenClaims::READ);
  EXPECT_EQ(rig.stat("/p/file"), Code::kOk);
  EXPECT_EQ(rig.open_at("/p/file"), Code::kOk);
  const uint64_t file = rig.inode_of("/p/file");
  EXPECT_EQ(rig.open_by(file), Code::kOk);
  EXPECT_EQ(rig.mkdir("/new"), Code::kPermissionDenied);
  EXPECT_EQ(rig.rm("/p"), Code::kPermissionDenied);
  EXPECT_EQ(rig.mv("/p", "/r"), Code::kPermissionDenied);
  EXPECT_EQ(rig.truncate(file), Code::kPermissionDenied);
  EXPECT_EQ(rig.write_by(file), Code::kPermissionDenied);
  EXPECT_EQ(rig.code<proto::AllocateStripeResponse>(Method::kAllocateStripe,
                                                    rig.at<proto::AllocateStripeRequest>("/x")),
            Code::kPermissionDenied);
  proto::DrainServerRequest drain;
  EXPECT_EQ(rig.code<proto::Empty>(Method::kDrainServer, drain), Code::kPermissionDenied);
  EXPECT_EQ(rig.code<proto::FsckResponse>(Method::kFsck, proto::FsckRequest()), Code::kPermissionDenied);
  const auto leased = rig.get(file, /*lease=*/true);
  ASSERT_TRUE(leased);
  EXPECT_FALSE(leased->lease()) << "a reader would have others wait for it";
  proto::LockRequest lock;
  lock.set_inode(file);
  lock.mutable_lock()->set_type(proto::FileLock::EXCLUSIVE);
  lock.mutable_lock()->set_session(kOwner);
  EXPECT_EQ(rig.code<proto::LockResponse>(Method::kLock, lock), Code::kPermissionDenied);
}

TEST(Tokens, AWriterDoesNotAdministerAndAnAdministratorIsNoDaemon) {
  TokenRig rig;
  rig.make_tree();
  rig.hold_new(TokenClaims::WRITE);
  EXPECT_EQ(rig.mkdir("/new"), Code::kOk);
  EXPECT_EQ(rig.write_by(rig.inode_of("/p/file")), Code::kOk);
  EXPECT_EQ(rig.code<proto::ListTokensResponse>(Method::kListTokens, proto::ListTokensRequest()),
            Code::kPermissionDenied);
  EXPECT_EQ(rig.code<proto::Empty>(Method::kAcceptMetadata, proto::Empty()), Code::kPermissionDenied);
  rig.hold_new(TokenClaims::ADMIN);
  EXPECT_EQ(rig.code<proto::ListTokensResponse>(Method::kListTokens, proto::ListTokensRequest()), Code::kOk);
  EXPECT_EQ(rig.code<proto::HeartbeatResponse>(Method::kHeartbeat, proto::HeartbeatRequest()),
            Code::kPermissionDenied);
}

TEST(Tokens, RootOfAClientsHostIsNotRoot) {
  TokenRig rig;
  rig.make_tree();
  rig.change("/p/file", 0600);
  rig.change("/p/in/deep", 0644);
  rig.change("/q/file", 0600, kAnn);
  rig.change("/q/out", 0700);
  KINTSUGI_EXPECT_OK(rig.put("/q/out/hidden"));
  rig.change("/q/out/hidden", 0666);
  const uint64_t secret = rig.inode_of("/p/file"), readable = rig.inode_of("/p/in/deep"),
                 anns = rig.inode_of("/q/file"), hidden = rig.inode_of("/q/out/hidden"),
                 out = rig.inode_of("/q/out");
  rig.hold_new(TokenClaims::WRITE, "", /*squash=*/true);
  EXPECT_EQ(rig.mkdir("/new"), Code::kAccessDenied);
  EXPECT_EQ(rig.open_at("/p/file"), Code::kAccessDenied);
  EXPECT_EQ(rig.rm("/p"), Code::kAccessDenied);
  EXPECT_NE(rig.truncate(secret), Code::kOk);
  EXPECT_EQ(rig.truncate(secret, /*opened=*/true), Code::kAccessDenied) << "whatever its host says";
  EXPECT_EQ(rig.open_at("/p/in/deep"), Code::kOk);
  // By inode, as a mount asks whose kernel takes its root for root.
  EXPECT_EQ(rig.open_by(secret), Code::kAccessDenied);
  EXPECT_EQ(rig.write_by(secret), Code::kAccessDenied);
  EXPECT_EQ(rig.open_by(readable), Code::kOk);
  EXPECT_EQ(rig.write_by(readable), Code::kAccessDenied);
  EXPECT_EQ(rig.open_by(anns), Code::kOk) << "ann uses that mount, too";
  EXPECT_EQ(rig.write_by(anns), Code::kOk);
  EXPECT_EQ(rig.open_by(hidden), Code::kAccessDenied) << "nobody but root gets there";
  EXPECT_EQ(rig.list_by(out), Code::kAccessDenied);
  const auto leased = rig.get(anns, /*lease=*/true);
  ASSERT_TRUE(leased);
  EXPECT_FALSE(leased->lease());
  // Without squashing root is root.
  rig.hold_new(TokenClaims::WRITE);
  EXPECT_EQ(rig.mkdir("/new"), Code::kOk);
  EXPECT_EQ(rig.open_by(secret), Code::kOk);
}

}  // namespace
}  // namespace kintsugi::metaserver
