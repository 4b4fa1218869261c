// Whoever works by paths may do what POSIX lets that user do, and a change whose answer was lost is recognised when it comes again.
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint32_t kAnn = 1001, kBob = 1002, kTeam = 2000;

proto::Caller user(uint32_t uid, std::vector<uint32_t> groups = {}) {
  proto::Caller caller;
  caller.set_uid(uid);
  caller.set_gid(uid);
  caller.mutable_groups()->Add(groups.begin(), groups.end());
  return caller;
}

proto::Change change(uint64_t number, uint64_t session = 77) {
  proto::Change change;
  change.set_session(session);
  change.set_number(number);
  return change;
}

class PathRig : public MetaServerRig {
 public:
  template <class Request>
  Request request(const std::string& path, const proto::Caller& caller) {
    Request request;
    request.set_path(path);
    *request.mutable_caller() = caller;
    return request;
  }
  Code make_directory(const std::string& path, const proto::Caller& caller, uint32_t mode = 0755,
                      bool parents = false) {
    auto wanted = request<proto::MakeDirectoryRequest>(path, caller);
    wanted.set_mode(mode);
    wanted.set_parents(parents);
    return code(call<proto::Empty>(rpc::Method::kMakeDirectory, wanted));
  }
  Code remove(const std::string& path, const proto::Caller& caller, bool recursive = false) {
    auto wanted = request<proto::RemoveRequest>(path, caller);
    wanted.set_recursive(recursive);
    return code(call<proto::Empty>(rpc::Method::kRemove, wanted));
  }
  Code rename(const std::string& from, const std::string& to, const proto::Caller& caller) {
    proto::RenameRequest wanted;
    wanted.set_from(from);
    wanted.set_to(to);
    wanted.set_replace(true);
    *wanted.mutable_caller() = caller;
    return code(call<proto::Empty>(rpc::Method::kRename, wanted));
  }
  Code put(const std::string& path, const proto::Caller& caller, uint32_t uid = 0, bool replace = false) {
    const auto allocating = request<proto::AllocateStripeRequest>(path, caller);
    const auto allocated = call<proto::AllocateStripeResponse>(rpc::Method::kAllocateStripe, allocating);
    if (!allocated) return allocated.error().code();
    auto committing = commit_request(path, allocated->upload_id(), {write(*allocated, 300'000)});
    *committing.mutable_caller() = caller;
    committing.set_uid(uid);
    committing.set_mode(0640);
    committing.set_replace(replace);
    return code(commit(committing));
  }
  Code commit_only(const std::string& path, const proto::Caller& caller) {
    proto::CommitFileRequest committing;
    committing.set_path(path);
    committing.set_upload_id(uint64_t{1} << 63 | 5);
    *committing.mutable_caller() = caller;
    return code(commit(committing));
  }
  Code read(const std::string& path, const proto::Caller& caller) {
    return code(
        call<proto::OpenReadResponse>(rpc::Method::kOpenRead, request<proto::OpenReadRequest>(path, caller)));
  }
  Code list(const std::string& path, const proto::Caller& caller) {
    return code(call<proto::ListResponse>(rpc::Method::kList, request<proto::ListRequest>(path, caller)));
  }
  Code stat(const std::string& path, const proto::Caller& caller) {
    return code(call<proto::StatResponse>(rpc::Method::kStat, request<proto::StatRequest>(path, caller)));
  }
  proto::Attributes attributes(const std::string& path) {
    return call<proto::StatResponse>(rpc::Method::kStat, request<proto::StatRequest>(path, {}))->attributes();
  }
  template <class T>
  static Code code(const Result<T>& result) {
    return result ? Code::kOk : result.error().code();
  }
};

class PathCallers : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(rig.make_directory("/open", {}, 01777), Code::kOk);
    ASSERT_EQ(rig.make_directory("/closed", {}, 0700), Code::kOk);
    ASSERT_EQ(rig.make_directory("/closed/in", {}, 0777), Code::kOk);
  }
  const proto::Caller ann = user(kAnn, {kTeam}), bob = user(kBob), root;
  PathRig rig;
};

TEST_F(PathCallers, WhatTheyMakeIsTheirs) {
  ASSERT_EQ(rig.make_directory("/open/ann", ann, 0750), Code::kOk);
  ASSERT_EQ(rig.put("/open/ann/file", ann, kBob), Code::kOk);  // whoever it says that it belongs to
  EXPECT_EQ(rig.attributes("/open/ann").uid(), kAnn);
  EXPECT_EQ(rig.attributes("/open/ann").gid(), kAnn);
  EXPECT_EQ(rig.attributes("/open/ann/file").uid(), kAnn);
  ASSERT_EQ(rig.put("/open/given", root, kBob), Code::kOk);
  EXPECT_EQ(rig.attributes("/open/given").uid(), kBob) << "root gives files to others";
}

TEST_F(PathCallers, NobodyChangesADirectoryThatIsNotTheirs) {
  EXPECT_EQ(rig.make_directory("/home", ann), Code::kAccessDenied);
  EXPECT_EQ(rig.make_directory("/a/b/c", ann, 0755, true), Code::kAccessDenied);
  EXPECT_EQ(rig.put("/file", ann), Code::kAccessDenied);
  EXPECT_EQ(rig.commit_only("/file", ann), Code::kAccessDenied) << "also without the allocation before it";
  EXPECT_EQ(rig.remove("/open", ann, true), Code::kAccessDenied);
  EXPECT_EQ(rig.rename("/open", "/mine", ann), Code::kAccessDenied);
  EXPECT_TRUE(rig.exists("/open"));
}

TEST_F(PathCallers, NobodyPassesADirectoryThatMayNotBeSearched) {
  ASSERT_EQ(rig.put("/closed/in/file", root), Code::kOk);
  EXPECT_EQ(rig.stat("/closed", ann), Code::kOk);
  EXPECT_EQ(rig.stat("/closed/in", ann), Code::kAccessDenied);
  EXPECT_EQ(rig.stat("/closed/nothing", ann), Code::kAccessDenied) << "nor is told what is not there";
  EXPECT_EQ(rig.list("/closed", ann), Code::kAccessDenied);
  EXPECT_EQ(rig.list("/closed/in", ann), Code::kAccessDenied);
  EXPECT_EQ(rig.read("/closed/in/file", ann), Code::kAccessDenied);
  EXPECT_EQ(rig.put("/closed/in/mine", ann), Code::kAccessDenied);
  EXPECT_EQ(rig.commit_only("/closed/in/mine", ann), Code::kAccessDenied);
  EXPECT_EQ(rig.make_directory("/closed/in/mine", ann), Code::kAccessDenied);
  EXPECT_EQ(rig.remove("/closed/in/file", ann), Code::kAccessDenied);
  EXPECT_EQ(rig.rename("/closed/in/file", "/open/file", ann), Code::kAccessDenied);
  EXPECT_EQ(rig.read("/closed/in/file", root), Code::kOk);
}

TEST_F(PathCallers, FilesAreReadByThoseWhoMay) {
  ASSERT_EQ(rig.put("/open/secret", ann), Code::kOk);
  EXPECT_EQ(rig.read("/open/secret", ann), Code::kOk);
  EXPECT_EQ(rig.read("/open/secret", bob), Code::kAccessDenied);
  EXPECT_EQ(rig.read("/open/secret", user(kBob, {kAnn})), Code::kOk) << "the group may";
  EXPECT_EQ(rig.stat("/open/secret", bob), Code::kOk);
}

TEST_F(PathCallers, TheStickyBitKeepsOthersFilesWhereTheyAre) {
  ASSERT_EQ(rig.put("/open/anns", ann), Code::kOk);
  EXPECT_EQ(rig.remove("/open/anns", bob), Code::kNotPermitted);
  EXPECT_EQ(rig.rename("/open/anns", "/open/bobs", bob), Code::kNotPermitted);
  EXPECT_EQ(rig.put("/open/anns", bob, 0, true), Code::kNotPermitted) << "nor replaces them";
  EXPECT_EQ(rig.put("/open/anns", ann, 0, true), Code::kOk);
  EXPECT_EQ(rig.remove("/open/anns", ann), Code::kOk);
}

TEST_F(PathCallers, ATreeIsRemovedByThoseWhoMayEmptyAllOfIt) {
  ASSERT_EQ(rig.make_directory("/open/ann", ann, 0777), Code::kOk);
  ASSERT_EQ(rig.put("/open/ann/file", ann), Code::kOk);
  ASSERT_EQ(rig.make_directory("/open/ann/bobs", bob, 0755), Code::kOk);
  ASSERT_EQ(rig.put("/open/ann/bobs/file", bob), Code::kOk);
  EXPECT_EQ(rig.remove("/open/ann", ann, true), Code::kAccessDenied);
  EXPECT_TRUE(rig.exists("/open/ann/file")) << "nothing of it is removed";
  ASSERT_EQ(rig.remove("/open/ann/bobs", bob, true), Code::kOk);
  EXPECT_EQ(rig.remove("/open/ann", ann, true), Code::kOk);
  EXPECT_EQ(rig.remove("/open", ann, true), Code::kAccessDenied);
}

TEST_F(PathCallers, DirectoriesHaveTheGroupOfASetGroupIdDirectory) {
  ASSERT_EQ(rig.make_directory("/open/team", ann, 02770), Code::kOk);
  const uint32_t gid = rig.attributes("/open/team").gid();
  ASSERT_EQ(rig.make_directory("/open/team/in", ann, 0750), Code::kOk);
  EXPECT_EQ(rig.attributes("/open/team/in").gid(), gid);
  EXPECT_NE(rig.attributes("/open/team/in").mode() & 02000, 0u);
}

TEST_F(PathCallers, SnapshotsAndPoliciesAreTheOwnersAndQuotasAndTheTrashAreRoots) {
  ASSERT_EQ(rig.make_directory("/open/ann", ann, 0777), Code::kOk);
  const auto snapshot = [&](const proto::Caller& caller) {
    auto wanted = rig.request<proto::CreateSnapshotRequest>("/open/ann", caller);
    wanted.set_name("s");
    return PathRig::code(rig.call<proto::Empty>(rpc::Method::kCreateSnapshot, wanted));
  };
  const auto destroy = [&](const proto::Caller& caller) {
    auto wanted = rig.request<proto::DeleteSnapshotRequest>("/open/ann", caller);
    wanted.set_name("s");
    return PathRig::code(rig.call<proto::Empty>(rpc::Method::kDeleteSnapshot, wanted));
  };
  const auto policy = [&](const proto::Caller& caller) {
    auto wanted = rig.request<proto::SetPolicyRequest>("/open/ann", caller);
    wanted.set_policy("rs-2-1-64k");
    return PathRig::code(rig.call<proto::Empty>(rpc::Method::kSetPolicy, wanted));
  };
  const auto quota = [&](const proto::Caller& caller) {
    auto wanted = rig.request<proto::SetQuotaRequest>("/open/ann", caller);
    wanted.set_max_files(10);
    return PathRig::code(rig.call<proto::Empty>(rpc::Method::kSetQuota, wanted));
  };
  const auto trash = [&](const proto::Caller& caller) {
    auto wanted = rig.request<proto::SetTrashRequest>("/open/ann", caller);
    wanted.set_retention_ns(3'600'000'000'000);
    return PathRig::code(rig.call<proto::Empty>(rpc::Method::kSetTrash, wanted));
  };
  EXPECT_EQ(snapshot(bob), Code::kNotPermitted);
  EXPECT_EQ(snapshot(ann), Code::kOk);
  EXPECT_EQ(destroy(bob), Code::kNotPermitted);
  EXPECT_EQ(destroy(ann), Code::kOk);
  EXPECT_EQ(policy(bob), Code::kNotPermitted);
  EXPECT_EQ(policy(ann), Code::kOk);
  EXPECT_EQ(quota(ann), Code::kNotPermitted);
  EXPECT_EQ(quota(root), Code::kOk);
  EXPECT_EQ(trash(ann), Code::kNotPermitted);
  EXPECT_EQ(trash(root), Code::kOk);
}

TEST_F(PathCallers, TheWayIntoASnapshotIsCheckedToo) {
  ASSERT_EQ(rig.put("/closed/in/file", root), Code::kOk);
  auto wanted = rig.request<proto::CreateSnapshotRequest>("/closed", root);
  wanted.set_name("s");
  ASSERT_EQ(PathRig::code(rig.call<proto::Empty>(rpc::Method::kCreateSnapshot, wanted)), Code::kOk);
  EXPECT_EQ(rig.read("/closed/.snapshots/s/in/file", root), Code::kOk);
  EXPECT_EQ(rig.read("/closed/.snapshots/s/in/file", ann), Code::kAccessDenied);
  EXPECT_EQ(rig.list("/closed/.snapshots", ann), Code::kAccessDenied);
}

TEST_F(PathCallers, ANewClustersRootBelongsToWhoRunsTheMetaserver) {
  MetaServerOptions options;
  options.root_uid = options.root_gid = kAnn;
  MetaServerRig own(3, 9, 3, options);
  proto::MakeDirectoryRequest wanted;
  wanted.set_path("/mine");
  *wanted.mutable_caller() = ann;
  EXPECT_TRUE(own.call<proto::Empty>(rpc::Method::kMakeDirectory, wanted));
  wanted.set_path("/bobs");
  *wanted.mutable_caller() = bob;
  EXPECT_FALSE(own.call<proto::Empty>(rpc::Method::kMakeDirectory, wanted));
}

// ---- changes whose answers were lost

class LostAnswers : public PathCallers {
 protected:
  /// The change is carried out, its answer is lost with the metaserver, and it comes again, then as another change.
  template <class Request>
  void expect_recognised(rpc::Method method, Request request, Code as_another) {
    *request.mutable_change() = change(1);
    ASSERT_EQ(PathRig::code(rig.call<proto::Empty>(method, request)), Code::kOk);
    rig.restart();
    rig.heartbeat_all();
    EXPECT_EQ(PathRig::code(rig.call<proto::Empty>(method, request)), Code::kOk) << "the repetition";
    EXPECT_EQ(PathRig::code(rig.call<proto::Empty>(method, request)), Code::kOk) << "and the next one";
    *request.mutable_change() = change(2);
    EXPECT_EQ(PathRig::code(rig.call<proto::Empty>(method, request)), as_another);
    *request.mutable_change() = change(1, 78);
    EXPECT_EQ(PathRig::code(rig.call<proto::Empty>(method, request)), as_another) << "of another client";
  }
};

TEST_F(LostAnswers, ARemovalIsNotToldThatThereIsNothing) {
  ASSERT_EQ(rig.put("/open/file", root), Code::kOk);
  expect_recognised(rpc::Method::kRemove, rig.request<proto::RemoveRequest>("/open/file", root),
                    Code::kNotFound);
}

TEST_F(LostAnswers, AMoveIsNotToldThatTheSourceIsGone) {
  ASSERT_EQ(rig.put("/open/file", root), Code::kOk);
  proto::RenameRequest wanted;
  wanted.set_from("/open/file");
  wanted.set_to("/open/other");
  expect_recognised(rpc::Method::kRename, wanted, Code::kNotFound);
  EXPECT_TRUE(rig.exists("/open/other"));
}

TEST_F(LostAnswers, ADirectoryIsNotToldThatItExists) {
  expect_recognised(rpc::Method::kMakeDirectory, rig.request<proto::MakeDirectoryRequest>("/open/new", root),
                    Code::kAlreadyExists);
}

TEST_F(LostAnswers, ASnapshotIsNotMadeOrDeletedTwice) {
  auto wanted = rig.request<proto::CreateSnapshotRequest>("/open", root);
  wanted.set_name("s");
  expect_recognised(rpc::Method::kCreateSnapshot, wanted, Code::kAlreadyExists);
  auto gone = rig.request<proto::DeleteSnapshotRequest>("/open", root);
  gone.set_name("s");
  *gone.mutable_change() = change(5);
  ASSERT_EQ(PathRig::code(rig.call<proto::Empty>(rpc::Method::kDeleteSnapshot, gone)), Code::kOk);
  rig.restart();
  rig.heartbeat_all();
  EXPECT_EQ(PathRig::code(rig.call<proto::Empty>(rpc::Method::kDeleteSnapshot, gone)), Code::kOk);
  *gone.mutable_change() = change(6);
  EXPECT_EQ(PathRig::code(rig.call<proto::Empty>(rpc::Method::kDeleteSnapshot, gone)), Code::kNotFound);
}

TEST_F(LostAnswers, OneThatFailedFailsAgainWhateverHasHappenedSince) {
  proto::RemoveRequest wanted = rig.request<proto::RemoveRequest>("/open/file", root);
  *wanted.mutable_change() = change(9);
  EXPECT_EQ(PathRig::code(rig.call<proto::Empty>(rpc::Method::kRemove, wanted)), Code::kNotFound);
  ASSERT_EQ(rig.put("/open/file", root), Code::kOk);
  EXPECT_EQ(PathRig::code(rig.call<proto::Empty>(rpc::Method::kRemove, wanted)), Code::kNotFound);
  EXPECT_TRUE(rig.exists("/open/file"));
}

}  // namespace
}  // namespace kintsugi::metaserver
