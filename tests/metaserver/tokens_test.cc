// Tokens at the metaserver: they outlive restarts and so does their end, a reader changes nothing, one with a path sees nothing else by
// any way, and root of a client's host is not root.
#include "common/proto/token.pb.h"
#include "common/rpc/token.h"
#include "metaserver/namespace/snapshots.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

using proto::TokenClaims;
using rpc::Method;

constexpr uint32_t kAnn = 1001;

class TokenRig : public MetaServerRig {
 public:
  ~TokenRig() { forget_holder(); }

  Result<proto::CreateTokenResponse> create(const std::string& name, TokenClaims::Role role,
                                            const std::string& path = "", bool squash = false,
                                            uint64_t seconds = 0) {
    proto::CreateTokenRequest request;
    request.mutable_claims()->set_name(name);
    request.mutable_claims()->set_role(role);
    request.mutable_claims()->set_path(path);
    request.mutable_claims()->set_squash(squash);
    request.mutable_claims()->set_squash_uid(65534);
    request.mutable_claims()->set_squash_gid(65534);
    request.set_lifetime_seconds(seconds);
    return call<proto::CreateTokenResponse>(Method::kCreateToken, request);
  }
  Code revoke(const std::string& name) {
    proto::RevokeTokenRequest request;
    request.set_name(name);
    return status_of(call<proto::RevokeTokenResponse>(Method::kRevokeToken, request)).code();
  }
  /// From now on held<>() asks with this token.
  void hold(const std::string& text) {
    forget_holder();
    const auto token = rpc::parse_token(text);
    ASSERT_TRUE(token) << token.error();
    holder_ = std::make_unique<rpc::Client>(client_node.runtime(), *token);
  }
  void hold_new(TokenClaims::Role role, const std::string& path = "", bool squash = false) {
    const auto made = create("t" + std::to_string(++made_), role, path, squash);
    ASSERT_TRUE(made) << made.error();
    hold(made->token());
  }
  template <class Response>
  Result<Response> held(Method method, const google::protobuf::MessageLite& request) {
    Response response;
    Context context;
    context.deadline = simulation.now() + 20s;
    const Status status =
        simulation.run(holder_->call(context, {"10.0.0.1", 7000}, method, request, response));
    if (!status.ok()) return status;
    return response;
  }
  template <class Response, class Request>
  Code code(Method method, const Request& request) {
    return status_of(held<Response>(method, request)).code();
  }

  // ---- requests of the holder
  template <class Request>
  static Request at(const std::string& path, uint32_t uid = 0) {
    Request request;
    request.set_path(path);
    request.mutable_caller()->set_uid(uid);
    request.mutable_caller()->set_gid(uid);
    return request;
  }
  Code stat(const std::string& path) {
    return code<proto::StatResponse>(Method::kStat, at<proto::StatRequest>(path));
  }
  Code list(const std::string& path) {
    return code<proto::ListResponse>(Method::kList, at<proto::ListRequest>(path));
  }
  Code mkdir(const std::string& path, uint32_t uid = 0) {
    return code<proto::Empty>(Method::kMakeDirectory, at<proto::MakeDirectoryRequest>(path, uid));
  }
  Code rm(const std::string& path) {
    auto request = at<proto::RemoveRequest>(path);
    request.set_recursive(true);
    return code<proto::Empty>(Method::kRemove, request);
  }
  Code mv(const std::string& from, const std::string& to) {
    proto::RenameRequest request;
    request.set_from(from);
    request.set_to(to);
    return code<proto::Empty>(Method::kRename, request);
  }
  Code open_at(const std::string& path) {
    return code<proto::OpenReadResponse>(Method::kOpenRead, at<proto::OpenReadRequest>(path));
  }
  Code open_by(uint64_t inode) {
    proto::OpenReadRequest request;
    request.set_inode(inode);
    return code<proto::OpenReadResponse>(Method::kOpenRead, request);
  }
  Code list_by(uint64_t inode) {
    proto::ListInodeRequest request;
    request.set_directory(inode);
    return code<proto::ListResponse>(Method::kListInode, request);
  }
  Result<proto::InodeResponse> get(uint64_t inode, bool lease = false) {
    proto::GetInodeRequest request;
    request.set_inode(inode);
    request.set_session(kOwner);
    request.set_lease(lease);
    return held<proto::InodeResponse>(Method::kGetInode, request);
  }
  Code lookup(uint64_t parent, const std::string& name) {
    proto::LookupRequest request;
    request.set_parent(parent);
    request.set_name(name);
    return code<proto::InodeResponse>(Method::kLookup, request);
  }
  Code truncate(uint64_t inode, bool opened = false) {
    proto::SetAttributesRequest request;
    request.set_opened_for_writing(opened);
    request.set_inode(inode);
    request.set_size(1);
    return code<proto::InodeResponse>(Method::kSetAttributes, request);
  }
  Code write_by(uint64_t inode, uint64_t other = 0) {
    proto::WriteExtentsRequest request;
    request.set_inode(inode);
    request.set_size_at_least(10);
    if (other != 0) request.add_more()->set_inode(other);
    return code<proto::WriteExtentsResponse>(Method::kWriteExtents, request);
  }

  // ---- what the operator, who has the secret, does
  uint64_t inode_of(const std::string& path) {
    const auto found = call<proto::StatResponse>(Method::kStat, at<proto::StatRequest>(path));
    EXPECT_TRUE(found) << path;
    return found ? found->attributes().inode() : 0;
  }
  bool rm_as_operator(const std::string& path) {
    auto request = at<proto::RemoveRequest>(path);
    request.set_recursive(true);
    return call<proto::Empty>(Method::kRemove, request).has_value();
  }
  void change(const std::string& path, uint32_t mode, uint32_t uid = 0) {
    proto::SetAttributesRequest request;
    request.set_inode(inode_of(path));
    request.set_mode(mode);
    request.set_uid(uid);
    request.set_gid(uid);
    ASSERT_TRUE(call<proto::InodeResponse>(Method::kSetAttributes, request));
  }
  void make_tree() {
    for (const char* path : {"/p", "/p/in", "/q", "/q/out"})
      KINTSUGI_EXPECT_OK(make_directory(path));
    for (const char* path : {"/p/file", "/p/in/deep", "/q/file", "/file"})
      KINTSUGI_EXPECT_OK(put(path));
  }

 private:
  void forget_holder() {
    if (holder_) simulation.run(holder_->stop());
    holder_.reset();
  }

  std::unique_ptr<rpc::Client> holder_;
  int made_ = 0;
};

constexpr uint64_t kRoot = 1;

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
