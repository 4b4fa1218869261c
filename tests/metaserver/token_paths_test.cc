// Tokens with a path: they see nothing else by any way, and what they keep of files that leave it.
#include "metaserver/namespace/snapshots.h"
#include "tests/metaserver/token_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint64_t kRoot = 1;

TEST(Tokens, OneWithAPathSeesNothingElseByPath) {
  TokenRig rig;
  rig.make_tree();
  rig.hold_new(TokenClaims::WRITE, "/p");
  EXPECT_EQ(rig.list("/p"), Code::kOk);
  EXPECT_EQ(rig.open_at("//p/in/deep"), Code::kOk);
  EXPECT_EQ(rig.mkdir("/p/in/new"), Code::kOk);
  EXPECT_EQ(rig.stat("/"), Code::kOk) << "it is on the way";
  for (const char* path : {"/", "/q", "/pq", "/q/out"})
    EXPECT_EQ(rig.list(path), Code::kAccessDenied) << path;
  EXPECT_EQ(rig.stat("/q"), Code::kAccessDenied);
  EXPECT_EQ(rig.open_at("/q/file"), Code::kAccessDenied);
  EXPECT_NE(rig.list("/p/../q"), Code::kOk);
  EXPECT_EQ(rig.mv("/p/file", "/q/stolen"), Code::kAccessDenied);
  EXPECT_EQ(rig.mv("/q/file", "/p/stolen"), Code::kAccessDenied);
  EXPECT_EQ(rig.mv("/p/file", "/p/in/moved"), Code::kOk);
  EXPECT_EQ(rig.rm("/p"), Code::kAccessDenied) << "its name is in the directory above";
  EXPECT_EQ(rig.rm("/p/in"), Code::kOk);
  EXPECT_EQ(rig.code<proto::ListTrashResponse>(Method::kListTrash, rig.at<proto::ListTrashRequest>("/p")),
            Code::kPermissionDenied)
      << "the trash may be of a directory above";
  EXPECT_EQ(rig.code<proto::ListSnapshotsResponse>(Method::kListSnapshots, proto::ListSnapshotsRequest()),
            Code::kPermissionDenied);
}

TEST(Tokens, OneWithAPathSeesNothingElseByInode) {
  TokenRig rig;
  rig.make_tree();
  const uint64_t p = rig.inode_of("/p"), deep = rig.inode_of("/p/in/deep"), q = rig.inode_of("/q"),
                 out = rig.inode_of("/q/file"), at_root = rig.inode_of("/file");
  rig.hold_new(TokenClaims::WRITE, "/p");
  EXPECT_EQ(rig.lookup(kRoot, "p"), Code::kOk) << "so a mount gets there";
  EXPECT_TRUE(rig.get(kRoot));
  EXPECT_EQ(rig.lookup(p, "in"), Code::kOk);
  EXPECT_EQ(rig.list_by(p), Code::kOk);
  EXPECT_EQ(rig.open_by(deep), Code::kOk);
  EXPECT_EQ(rig.write_by(deep), Code::kOk);
  EXPECT_EQ(rig.lookup(kRoot, "q"), Code::kAccessDenied);
  EXPECT_EQ(rig.list_by(kRoot), Code::kAccessDenied);
  for (const uint64_t inode : {out, at_root}) {
    EXPECT_EQ(rig.open_by(inode), Code::kAccessDenied);
    EXPECT_EQ(rig.write_by(inode), Code::kAccessDenied);
    EXPECT_EQ(rig.write_by(deep, inode), Code::kAccessDenied) << "among several";
    EXPECT_EQ(rig.truncate(inode), Code::kAccessDenied);
    EXPECT_FALSE(rig.get(inode));
  }
  EXPECT_EQ(rig.list_by(q), Code::kAccessDenied);
  proto::CopyExtentsRequest copy;
  copy.set_from(out);
  copy.set_to(deep);
  copy.set_length(10);
  EXPECT_EQ(rig.code<proto::CopyExtentsResponse>(Method::kCopyExtents, copy), Code::kAccessDenied);
  proto::LinkRequest link;
  link.set_inode(out);
  link.set_parent(p);
  link.set_name("stolen");
  EXPECT_EQ(rig.code<proto::InodeResponse>(Method::kLink, link), Code::kNotPermitted);
  proto::MakeInodeRequest nameless;
  nameless.set_parent(p);
  nameless.set_type(proto::Attributes::FILE);
  nameless.set_hold_for(kOwner);
  const auto made = rig.held<proto::InodeResponse>(Method::kMakeInode, nameless);
  ASSERT_TRUE(made) << made.error();
  link.set_inode(made->attributes().inode());
  link.set_name("first");
  EXPECT_EQ(rig.code<proto::InodeResponse>(Method::kLink, link), Code::kOk) << "its first name";
  link.set_name("second");
  EXPECT_EQ(rig.code<proto::InodeResponse>(Method::kLink, link), Code::kNotPermitted);
  // What leaves the path is left.
  proto::RenameRequest move;
  move.set_from("/p/in");
  move.set_to("/q/in");
  ASSERT_TRUE(rig.call<proto::Empty>(Method::kRename, move));
  EXPECT_EQ(rig.open_by(deep), Code::kAccessDenied);
  // The path is a name and no inode: another directory may come to bear it.
  move.set_from("/p");
  move.set_to("/former");
  ASSERT_TRUE(rig.call<proto::Empty>(Method::kRename, move));
  EXPECT_EQ(rig.list_by(p), Code::kAccessDenied);
}

TEST(Tokens, OneWithAPathGetsNoLeaseUnderWhichARefusalWouldComeTooLate) {
  TokenRig rig;
  rig.make_tree();
  rig.hold_new(TokenClaims::WRITE, "/p");
  const uint64_t file = rig.inode_of("/p/file");
  const auto got = rig.get(file, /*lease=*/true);
  ASSERT_TRUE(got);
  EXPECT_FALSE(got->lease());
  proto::WriteNamesRequest names;
  names.add_changes()->mutable_unlink()->set_parent(rig.inode_of("/p/in"));
  EXPECT_EQ(rig.code<proto::WriteNamesResponse>(Method::kWriteNames, names), Code::kPermissionDenied);
  proto::WriteExtentsRequest write;
  write.set_inode(file);
  *write.mutable_names() = names;
  EXPECT_EQ(rig.code<proto::WriteExtentsResponse>(Method::kWriteExtents, write), Code::kPermissionDenied);
  // While the metaserver believes what sessions say that they have.
  rig.restart();
  rig.hold_new(TokenClaims::WRITE, "/p");
  proto::KeepSessionRequest keep;
  keep.set_session(kOther);
  keep.set_all(true);
  keep.add_lease(file);
  keep.add_lease(rig.inode_of("/q/file"));
  ASSERT_TRUE(rig.held<proto::KeepSessionResponse>(Method::kKeepSession, keep));
  EXPECT_EQ(rig.meta->state().clients.leases.count(), 0u) << "nobody is asked to write it out";
}

TEST(Tokens, ASessionKeepsTheRestWhenAFileOfItIsMovedOutOfThePath) {
  TokenRig rig;
  rig.make_tree();
  const auto token = rig.create("mount", TokenClaims::WRITE, "/p");
  ASSERT_TRUE(token);
  rig.hold(token->token());
  const uint64_t stays = rig.inode_of("/p/in/deep"), leaves = rig.inode_of("/p/file");
  proto::KeepSessionRequest keep;
  keep.set_session(kOther);
  keep.set_all(true);
  ASSERT_TRUE(rig.held<proto::KeepSessionResponse>(Method::kKeepSession, keep));
  rig.restart();  // then a session is asked for all that it has
  rig.hold(token->token());
  for (const uint64_t inode : {stays, leaves}) {
    keep.add_hold(inode);
    proto::HeldLock& held = *keep.add_lock();
    held.set_inode(inode);
    held.mutable_lock()->set_type(proto::FileLock::EXCLUSIVE);
    held.mutable_lock()->set_session(kOther);
    held.mutable_lock()->set_owner(1);
  }
  proto::RenameRequest move;
  move.set_from("/p/file");
  move.set_to("/q/moved");
  ASSERT_TRUE(rig.call<proto::Empty>(Method::kRename, move));
  ASSERT_TRUE(rig.held<proto::KeepSessionResponse>(Method::kKeepSession, keep)) << "so it does not end";
  proto::KeepSessionRequest other;
  other.set_session(kOwner);
  other.set_all(true);
  ASSERT_TRUE(rig.call<proto::KeepSessionResponse>(Method::kKeepSession, other));
  const auto is_free = [&](uint64_t inode) {
    proto::LockRequest lock;
    lock.set_inode(inode);
    lock.set_test_only(true);
    *lock.mutable_lock() = keep.lock(0).lock();
    lock.mutable_lock()->set_session(kOwner);
    const auto answer = rig.call<proto::LockResponse>(Method::kLock, lock);
    EXPECT_TRUE(answer) << answer.error();
    return answer && answer->granted();
  };
  EXPECT_FALSE(is_free(stays));
  EXPECT_TRUE(is_free(leaves)) << "a token holds nothing outside of its path";
}

TEST(Tokens, OneWithAPathGivesALockBackThoughTheFileHasLeftThePath) {
  TokenRig rig;
  rig.make_tree();
  rig.hold_new(TokenClaims::WRITE, "/p");
  proto::KeepSessionRequest keep;
  keep.set_all(true);
  keep.set_session(kOther);
  ASSERT_TRUE(rig.held<proto::KeepSessionResponse>(Method::kKeepSession, keep));
  keep.set_session(kOwner);
  ASSERT_TRUE(rig.call<proto::KeepSessionResponse>(Method::kKeepSession, keep));
  proto::LockRequest lock;
  lock.set_inode(rig.inode_of("/p/file"));
  lock.mutable_lock()->set_type(proto::FileLock::EXCLUSIVE);
  lock.mutable_lock()->set_session(kOther);
  const auto taken = rig.held<proto::LockResponse>(Method::kLock, lock);
  ASSERT_TRUE(taken && taken->granted());
  proto::RenameRequest move;
  move.set_from("/p/file");
  move.set_to("/q/moved");
  ASSERT_TRUE(rig.call<proto::Empty>(Method::kRename, move));
  proto::LockRequest others = lock;
  others.mutable_lock()->set_session(kOwner);
  const auto refused = rig.call<proto::LockResponse>(Method::kLock, others);
  ASSERT_TRUE(refused);
  EXPECT_FALSE(refused->granted());
  EXPECT_EQ(rig.code<proto::LockResponse>(Method::kLock, lock), Code::kAccessDenied)
      << "no lock is taken there";
  lock.mutable_lock()->set_type(proto::FileLock::NONE);
  EXPECT_EQ(rig.code<proto::LockResponse>(Method::kLock, lock), Code::kOk);
  const auto free = rig.call<proto::LockResponse>(Method::kLock, others);
  ASSERT_TRUE(free);
  EXPECT_TRUE(free->granted());
}

TEST(Tokens, OneWithAPathIsToldOfNothingOutsideOfIt) {
  TokenRig rig;
  rig.make_tree();
  rig.hold_new(TokenClaims::WRITE, "/p");
  proto::KeepSessionRequest keep;
  keep.set_session(kOther);
  keep.set_all(true);
  keep.set_believes(true);
  ASSERT_TRUE(rig.held<proto::KeepSessionResponse>(Method::kKeepSession, keep));
  proto::LookupRequest lookup;  // the way to its path
  lookup.set_parent(kRoot);
  lookup.set_name("p");
  lookup.set_session(kOther);
  ASSERT_TRUE(rig.held<proto::InodeResponse>(Method::kLookup, lookup));
  keep.set_all(false);
  keep.add_give_back(rig.inode_of("/q"));
  keep.add_locks_of(rig.inode_of("/q"));
  ASSERT_TRUE(rig.held<proto::KeepSessionResponse>(Method::kKeepSession, keep));
  const TimePoint before = rig.simulation.now();
  KINTSUGI_EXPECT_OK(rig.put("/q/secret-name"));
  KINTSUGI_EXPECT_OK(rig.make_directory("/another"));
  EXPECT_LT(rig.simulation.now() - before, 500ms) << "and nobody waits until it has heard";
}

TEST(Tokens, AnIdThatIsOfNothingYetIsOutside) {
  TokenRig rig;
  rig.make_tree();
  const uint64_t next = rig.meta->state().names.inode_ids.next(), file = rig.inode_of("/p/file");
  rig.hold_new(TokenClaims::WRITE, "/p");
  EXPECT_EQ(rig.open_by(next), Code::kStale);
  // Handlers wait for leases before they look, and the id may be of a file by then.
  proto::CopyExtentsRequest copy;
  copy.set_from(next);
  copy.set_to(file);
  copy.set_length(1 << 20);
  EXPECT_EQ(rig.code<proto::CopyExtentsResponse>(Method::kCopyExtents, copy), Code::kStale);
  EXPECT_EQ(rig.write_by(file, next), Code::kStale);
  rig.hold_new(TokenClaims::WRITE, "", /*squash=*/true);
  EXPECT_EQ(rig.write_by(next), Code::kStale) << "it may be root's alone";
}

TEST(Tokens, SnapshotsOfItsPathAreInsideAndOthersAreNot) {
  TokenRig rig;
  rig.make_tree();
  for (const char* path : {"/p", "/q"}) {
    proto::CreateSnapshotRequest request;
    request.set_path(path);
    request.set_name("s");
    ASSERT_TRUE(rig.call<proto::Empty>(Method::kCreateSnapshot, request));
  }
  const uint64_t in = rig.inode_of("/p/.snapshots/s/file"), out = rig.inode_of("/q/.snapshots/s/file");
  const uint64_t deep = rig.inode_of("/p/.snapshots/s/in/deep"), inner = rig.inode_of("/p/.snapshots/s/in");
  const uint32_t slot = SnapshotInode::of(InodeId{in}).slot;
  const uint64_t elsewhere = SnapshotInode{slot, InodeId{rig.inode_of("/q/file")}}.shown().value;
  ASSERT_TRUE(rig.rm_as_operator("/p/in"));
  rig.hold_new(TokenClaims::READ, "/p");
  EXPECT_EQ(rig.open_at("/p/.snapshots/s/file"), Code::kOk);
  EXPECT_EQ(rig.open_by(in), Code::kOk);
  EXPECT_EQ(rig.open_by(deep), Code::kOk) << "removed since";
  EXPECT_EQ(rig.list_by(inner), Code::kOk);
  EXPECT_EQ(rig.open_by(elsewhere), Code::kAccessDenied) << "its slot, and an inode that is not in it";
  EXPECT_EQ(rig.list_by(SnapshotInode{slot, InodeId{kRoot}}.shown().value), Code::kAccessDenied);
  EXPECT_EQ(rig.open_at("/q/.snapshots/s/file"), Code::kAccessDenied);
  EXPECT_EQ(rig.open_by(out), Code::kAccessDenied);
  EXPECT_EQ(rig.list_by(SnapshotInode{0, InodeId{rig.inode_of("/q")}}.shown().value), Code::kAccessDenied);
}

TEST(Tokens, AFileOfSeveralNamesIsInsideForNobodyByInode) {
  TokenRig rig;
  rig.make_tree();
  proto::LinkRequest link;
  link.set_inode(rig.inode_of("/p/file"));
  link.set_parent(rig.inode_of("/q"));
  link.set_name("second");
  ASSERT_TRUE(rig.call<proto::InodeResponse>(Method::kLink, link));
  rig.hold_new(TokenClaims::READ, "/p");
  EXPECT_EQ(rig.open_by(link.inode()), Code::kAccessDenied);
  EXPECT_EQ(rig.open_at("/p/file"), Code::kOk) << "by its path it is";
}

}  // namespace
}  // namespace kintsugi::metaserver
