// Everything that a call has to have settled is settled in one turn, also what gets there, or is given away, while it waits.
#include "metaserver/service/settling.h"

#include <tuple>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/base/crc32c.h"
#include "tests/metaserver/lease_rig.h"

namespace kintsugi::metaserver {
namespace {

struct SettlingRig : LeaseRig {
  /// The writer gives the inode back, and is given it again so many turns of the metaserver later, unless it is too late.
  void give_back_and_take_again(InodeId inode, int turns, std::function<bool()> is_too_late) {
    const auto run = [](SettlingRig& rig, InodeId inode, int turns,
                        std::function<bool()> is_too_late) -> asio::awaitable<void> {
      proto::KeepSessionRequest request;
      request.set_session(kWriter);
      request.add_give_back(inode.value);
      proto::KeepSessionResponse response;
      rig.meta->state().clients.leases.keep(request, response);
      for (int i = 0; i < turns; ++i)
        co_await asio::post(rig.meta_node.runtime().executor, asio::use_awaitable);
      rig.granted = !is_too_late() && rig.meta->state().clients.leases.grant(kWriter, inode);
    };
    asio::co_spawn(meta_node.runtime().executor, run(*this, inode, turns, std::move(is_too_late)),
                   asio::detached);
  }
  bool owned(InodeId inode) { return meta->state().clients.leases.owns(inode, kWriter); }
  uint64_t inode_of(const std::string& path) {
    proto::StatRequest request;
    request.set_path(path);
    const auto found = call<proto::StatResponse>(rpc::Method::kStat, request);
    return found ? found->attributes().inode() : 0;
  }

  /// The directory /d of user 7, with so many files in it that one turn does not look through them.
  InodeId make_large_tree() {
    constexpr int kFiles = 600;
    KINTSUGI_EXPECT_OK(make_directory("/d"));
    const InodeId directory{inode_of("/d")};
    proto::SetAttributesRequest owner;
    owner.set_uid(7);
    for (const uint64_t id : {directory.value, uint64_t{1}}) {
      owner.set_inode(id);
      EXPECT_TRUE(call<proto::InodeResponse>(rpc::Method::kSetAttributes, owner));
    }
    for (int i = 0; i < kFiles; ++i)
      make(directory.value, fmt::format("{}", i), proto::Attributes::FILE);
    return directory;
  }
  void make(uint64_t parent, const std::string& name, proto::Attributes::Type type, uint64_t session = 0) {
    proto::MakeInodeRequest request;
    request.set_parent(parent);
    request.set_name(name);
    request.set_type(type);
    request.set_mode(0755);
    if (session != 0) request.mutable_change()->set_session(session);
    if (session != 0) request.mutable_change()->set_number(++changes);
    const auto made = call<proto::InodeResponse>(rpc::Method::kMakeInode, request);
    EXPECT_TRUE(made) << made.error();
  }
  void remove_large_tree(std::optional<Status>& ended) {
    proto::RemoveRequest remove;
    remove.set_path("/d");
    remove.set_recursive(true);
    remove.mutable_caller()->set_uid(7);
    in_background(rpc::Method::kRemove, remove, ended);
  }

  uint64_t changes = 0;
  bool granted = false;
};

/// A call may begin or end in any of these turns after the lease was given back.
constexpr int kTurns = 12;

TEST(Settling, AListingAlsoWaitsForAFileThatGotItsNameWhileItWaited) {
  for (const bool by_path : {false, true}) {
    std::optional<Status> ended;
    LeaseRig rig;
    KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
    KINTSUGI_ASSERT_OK(rig.put("/d/old"));
    const uint64_t old = rig.open("/d/old")->attributes().inode();
    proto::StatRequest stat;
    stat.set_path("/d");
    const uint64_t directory = rig.call<proto::StatResponse>(rpc::Method::kStat, stat)->attributes().inode();
    ASSERT_TRUE(*rig.get_of(old, kWriter, false, true));
    if (by_path) {
      proto::ListRequest list;
      list.set_path("/d");
      rig.in_background(rpc::Method::kList, list, ended);
    } else {
      proto::ListInodeRequest list;
      list.set_directory(directory);
      list.set_session(kReader);
      rig.in_background(rpc::Method::kListInode, list, ended);
    }
    rig.simulation.run_for(100ms);
    proto::MakeInodeRequest make;
    make.set_parent(directory);
    make.set_name("new");
    make.set_type(proto::Attributes::FILE);
    make.set_lease(true);
    make.set_hold_for(kWriter);
    make.mutable_change()->set_session(kWriter);
    make.mutable_change()->set_number(1);
    const auto made = rig.call<proto::InodeResponse>(rpc::Method::kMakeInode, make);
    ASSERT_TRUE(made) << made.error();
    ASSERT_TRUE(made->lease());
    KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(old); }));
    rig.simulation.run_for(100ms);
    EXPECT_FALSE(ended) << "how long the new file is, is its writer's to say" << by_path;
    KINTSUGI_EXPECT_OK(
        rig.keep(kWriter, [&](auto& request) { request.add_give_back(made->attributes().inode()); }));
    rig.simulation.run_for(100ms);
    ASSERT_TRUE(ended);
    KINTSUGI_EXPECT_OK(*ended);
  }
}

TEST(Settling, AFileIsNotCutOffUnderALeaseThatIsGivenWhileItIsLookedThrough) {
  constexpr uint64_t kExtents = 6000;  // more than one turn looks at
  int granted = 0;
  for (int turns = 0; turns < kTurns; ++turns) {
    std::optional<Status> ended;
    SettlingRig rig;
    KINTSUGI_ASSERT_OK(rig.put("/many", 1, 1));
    const InodeId file{rig.open("/many")->attributes().inode()};
    proto::WriteExtentsRequest write;
    write.set_inode(file.value);
    for (uint64_t i = 0; i < kExtents; ++i) {
      write.add_extents()->set_file_offset(i * 10);
      write.mutable_extents(static_cast<int>(i))->set_length(1);
    }
    const std::string bytes(kExtents, 'x');
    write.set_size_at_least(kExtents * 10);
    write.set_inline_data(bytes);
    write.set_inline_crc(crc32c(std::as_bytes(std::span(bytes))));
    const auto written = rig.call<proto::WriteExtentsResponse>(rpc::Method::kWriteExtents, write);
    ASSERT_TRUE(written) << written.error();

    ASSERT_TRUE(*rig.get_of(file.value, kWriter, false, true));
    proto::SetAttributesRequest cut;
    cut.set_inode(file.value);
    cut.set_size(15);
    cut.mutable_change()->set_session(kReader);
    cut.mutable_change()->set_number(1);
    rig.in_background(rpc::Method::kSetAttributes, cut, ended);
    rig.simulation.run_for(100ms);
    ASSERT_FALSE(ended);
    rig.give_back_and_take_again(file, turns,
                                 [&] { return load_inode(*rig.store, file).size() != kExtents * 10; });
    rig.simulation.run_for(100ms);
    if (!rig.granted) continue;
    ++granted;
    EXPECT_EQ(load_inode(*rig.store, file).size(), kExtents * 10) << turns << ": the writer has it";
  }
  EXPECT_GT(granted, 0) << "this shows nothing";
}

TEST(Settling, ATreeIsNotRemovedUnderALeaseThatIsGivenWhileItIsLookedThrough) {
  int granted = 0;
  for (int turns = 0; turns < kTurns; ++turns) {
    std::optional<Status> ended;
    SettlingRig rig;
    const InodeId directory = rig.make_large_tree();
    ASSERT_TRUE(*rig.get_of(directory.value, kWriter, false, true));
    rig.remove_large_tree(ended);
    rig.simulation.run_for(100ms);
    ASSERT_FALSE(ended);
    rig.give_back_and_take_again(directory, turns,
                                 [&] { return !find_entry(Reader(*rig.store), kRootInode, "d"); });
    rig.simulation.run_for(100ms);
    if (!rig.granted) continue;
    ++granted;
    EXPECT_TRUE(rig.owned(directory) && !ended) << turns << ": the writer says what is in it";
  }
  EXPECT_GT(granted, 0) << "this shows nothing";
}

TEST(Settling, WhatComesIntoATreeWhileItsRemovalWaitsIsCheckedAsWell) {
  int granted = 0;
  for (int turns = 0; turns < kTurns; ++turns) {
    std::optional<Status> ended;
    SettlingRig rig;
    const InodeId directory = rig.make_large_tree();
    ASSERT_TRUE(*rig.get_of(directory.value, kWriter, false, true));
    rig.remove_large_tree(ended);
    rig.simulation.run_for(100ms);
    ASSERT_FALSE(ended);
    rig.give_back_and_take_again(directory, turns,
                                 [&] { return !find_entry(Reader(*rig.store), kRootInode, "d"); });
    rig.simulation.run_for(100ms);
    if (!rig.granted) continue;
    ++granted;
    rig.make(directory.value, "of another user", proto::Attributes::DIRECTORY, kWriter);
    KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(directory.value); }));
    rig.simulation.run_for(100ms);
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->code(), Code::kAccessDenied) << turns;
    EXPECT_NE(rig.inode_of("/d/of another user"), 0u);
  }
  EXPECT_GT(granted, 0) << "this shows nothing";
}

TEST(Settling, WhatIsKeptBackDeepInATreeIsCheckedBeforeAUserRemovesIt) {
  std::optional<Status> ended;
  SettlingRig rig;
  const InodeId directory = rig.make_large_tree();
  rig.make(directory.value, "everybody's", proto::Attributes::DIRECTORY);
  const InodeId deep{rig.inode_of("/d/everybody's")};
  proto::SetAttributesRequest owner;
  owner.set_inode(deep.value);
  owner.set_uid(7);
  ASSERT_TRUE(rig.call<proto::InodeResponse>(rpc::Method::kSetAttributes, owner));
  ASSERT_TRUE(rig.meta->state().clients.leases.grant(kWriter, deep));
  rig.remove_large_tree(ended);
  rig.simulation.run_for(100ms);
  ASSERT_FALSE(ended) << "only the writer knows what is in it";
  rig.make(deep.value, "of another user", proto::Attributes::DIRECTORY, kWriter);
  KINTSUGI_EXPECT_OK(rig.keep(kWriter, [&](auto& request) { request.add_give_back(deep.value); }));
  rig.simulation.run_for(100ms);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->code(), Code::kAccessDenied);
  EXPECT_NE(rig.inode_of("/d/everybody's/of another user"), 0u);
}

TEST(Settling, WhoMayNotRemoveATreeTakesNoLeaseInItAway) {
  std::optional<Status> ended;
  SettlingRig rig;
  const InodeId directory = rig.make_large_tree();
  rig.make(directory.value, "of another user", proto::Attributes::DIRECTORY);
  const InodeId deep{rig.inode_of("/d/of another user")};
  ASSERT_TRUE(rig.meta->state().clients.leases.grant(kWriter, deep));
  rig.remove_large_tree(ended);
  rig.simulation.run_for(100ms);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->code(), Code::kAccessDenied);
  EXPECT_TRUE(rig.meta->state().clients.leases.take_recalls(kWriter).empty());
  EXPECT_TRUE(rig.owned(deep));
}

TEST(Settling, AChangeThatWasRefusedIsNotCarriedOutWhenItComesAgainLate) {
  SettlingRig rig;
  rpc::Client another(rig.client_node.runtime(), test_secret());
  proto::RenameRequest rename;
  rename.set_from("/g");
  rename.set_to("/h");
  rename.mutable_change()->set_session(99);
  rename.mutable_change()->set_number(1);
  const auto refused = rig.call<proto::Empty>(rpc::Method::kRename, rename);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kNotFound);
  KINTSUGI_EXPECT_OK(rig.put("/g"));
  proto::Empty response;
  const Status late =
      rig.simulation.run(another.call(Context{}, {"10.0.0.1", 7000}, rpc::Method::kRename, rename, response));
  EXPECT_EQ(late, refused.error());
  EXPECT_NE(rig.inode_of("/g"), 0u);
  EXPECT_EQ(rig.inode_of("/h"), 0u);
  rig.simulation.run(another.stop());
}

TEST(Settling, AFileThatWasRefusedIsNotMadeWhenItsCommitComesAgainLate) {
  SettlingRig rig;
  proto::CommitFileRequest commit;
  commit.set_upload_id(uint64_t{1} << 63 | 99);
  commit.set_path("/f");
  commit.mutable_change()->set_session(commit.upload_id());
  const auto refused = rig.call<proto::CommitFileResponse>(rpc::Method::kCommitFile, commit);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kAlreadyExists);
  KINTSUGI_EXPECT_OK(rig.remove("/f"));
  const auto late = rig.call<proto::CommitFileResponse>(rpc::Method::kCommitFile, commit);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error(), refused.error());
  EXPECT_EQ(rig.inode_of("/f"), 0u);
}

TEST(Settling, APolicyThatComesAgainLateUndoesNoOtherOne) {
  SettlingRig rig;
  KINTSUGI_EXPECT_OK(rig.make_directory("/d"));
  proto::SetPolicyRequest first, second;
  for (auto [request, policy, number] :
       {std::tuple{&first, "rs-3-2-64k", 1}, std::tuple{&second, "rs-6-3-64k", 2}}) {
    request->set_path("/d");
    request->set_policy(policy);
    request->mutable_change()->set_session(99);
    request->mutable_change()->set_number(number);
    ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kSetPolicy, *request));
  }
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kSetPolicy, first)) << "it was carried out before";
  proto::GetPolicyRequest ask;
  ask.set_path("/d");
  const auto policy = rig.call<proto::GetPolicyResponse>(rpc::Method::kGetPolicy, ask);
  ASSERT_TRUE(policy);
  EXPECT_EQ(policy->policy(), "rs-6-3-64k");
}

TEST(Settling, WhatASessionHadThatEndedAmongManyIsNotBelievedAfterACrash) {
  LeaseRig rig;
  rig.sync_latency = 20ms;
  rig.restart(false);
  rig.heartbeat_all();
  constexpr uint64_t kFirst = 100, kLast = 200;
  for (const uint64_t session : {kWriter, kReader})
    KINTSUGI_EXPECT_OK(rig.keep(session, [](auto& request) { request.set_all(true); }));
  for (uint64_t session = kFirst; session < kFirst + 30; ++session)
    KINTSUGI_EXPECT_OK(rig.keep(session, [](auto& request) { request.set_all(true); }));
  KINTSUGI_EXPECT_OK(rig.keep(kLast, [](auto& request) { request.set_all(true); }));
  rig.simulation.run_for(15s);
  for (uint64_t session = kFirst; session < kFirst + 30; ++session)
    KINTSUGI_EXPECT_OK(rig.keep(session, [](auto&) {}));
  KINTSUGI_EXPECT_OK(rig.keep(kLast, [](auto&) {}));
  KINTSUGI_EXPECT_OK(rig.keep(kReader, [](auto&) {}));
  ASSERT_TRUE(*rig.get(kLast, false, true));
  for (int i = 0; i < 800 && rig.meta->state().clients.sessions.known(kLast); ++i) {
    if (i % 10 == 0) KINTSUGI_EXPECT_OK(rig.keep(kReader, [](auto&) {}));
    rig.simulation.run_for(100ms);
  }
  ASSERT_FALSE(rig.meta->state().clients.sessions.known(kLast)) << "it was silent";
  const auto leased = rig.get(kReader, false, true);
  ASSERT_TRUE(leased) << leased.error();
  EXPECT_TRUE(*leased) << "it is another's now";
  KINTSUGI_EXPECT_OK(rig.grow(kReader, 1000, 1));
  rig.restart(true);
  KINTSUGI_EXPECT_OK(rig.keep(kLast, [&](auto& request) {
    request.set_all(true);
    request.add_lease(rig.inode);
  }));
  EXPECT_FALSE(rig.meta->state().clients.leases.owns(InodeId{rig.inode}, kLast))
      << "another had it since, and wrote";
}

}  // namespace
}  // namespace kintsugi::metaserver
