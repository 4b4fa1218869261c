// Where snapshots, trash, quotas, leases and requests by path meet: late answers, repetitions, and clients that keep things back.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "tests/metaserver/snapshot_rig.h"

namespace kintsugi::metaserver {
namespace {

class SeamsRig : public SnapshotRig {
 public:
  SeamsRig() {
    for (const uint64_t session : {kOwner, kOther})
      KINTSUGI_EXPECT_OK(keep(session, [](auto& request) { request.set_all(true); }));
  }
  Status keep(uint64_t session, const std::function<void(proto::KeepSessionRequest&)>& fill) {
    proto::KeepSessionRequest request;
    request.set_session(session);
    fill(request);
    const auto kept = call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, request);
    return kept ? Status{} : kept.error();
  }
  uint64_t leased_directory(uint64_t parent, const std::string& name, uint64_t number) {
    proto::MakeInodeRequest request;
    request.set_parent(parent);
    request.set_name(name);
    request.set_type(proto::Attributes::DIRECTORY);
    request.set_mode(0755);
    request.set_lease(true);
    request.mutable_change()->set_session(kOwner);
    request.mutable_change()->set_number(number);
    const auto made = call<proto::InodeResponse>(rpc::Method::kMakeInode, request);
    EXPECT_TRUE(made && made->lease());
    return made->attributes().inode();
  }
  /// The owner opens the inode for writing. False: it got no lease of it.
  bool take_lease(uint64_t inode) {
    proto::GetInodeRequest get;
    get.set_inode(inode);
    get.set_session(kOwner);
    get.set_hold(true);
    get.set_lease(true);
    const auto opened = call<proto::InodeResponse>(rpc::Method::kGetInode, get);
    return opened && opened->lease();
  }
  uint64_t reserve() {
    proto::ReserveInodesRequest reserve;
    reserve.set_session(kOwner);
    reserve.set_count(100);
    const auto reserved = call<proto::ReserveInodesResponse>(rpc::Method::kReserveInodes, reserve);
    return reserved->first();
  }
  /// The code of one file that the owner made in the directory under its lease.
  Code make_under_lease(uint64_t inode, uint64_t parent, const std::string& name) {
    proto::WriteNamesRequest request;
    request.set_session(kOwner);
    proto::NameChange& change = *request.add_changes();
    change.set_inode(inode);
    change.mutable_make()->set_parent(parent);
    change.mutable_make()->set_name(name);
    change.mutable_make()->set_type(proto::Attributes::FILE);
    change.mutable_make()->set_mode(0644);
    const auto answer = call<proto::WriteNamesResponse>(rpc::Method::kWriteNames, request);
    if (!answer) return answer.error().code();
    return static_cast<Code>(answer->changes(0).code());
  }
  template <class Response, class Request>
  void in_background(rpc::Method method, Request request, std::optional<Status>& ended) {
    const auto run = [](SeamsRig& rig, rpc::Method method, Request request,
                        std::optional<Status>& ended) -> asio::awaitable<void> {
      Response ignored;
      ended = co_await rig.call_async(method, request, ignored);
    };
    asio::co_spawn(client_node.runtime().executor, run(*this, method, std::move(request), ended),
                   asio::detached);
  }
  /// The owner says that it is there, each second.
  void beat(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      KINTSUGI_EXPECT_OK(keep(kOwner, [](auto&) {}));
      simulation.run_for(1s);
    }
  }
};

TEST(DataSeams, WhatIsOpenInADeletedSnapshotIsStaleAndNotTheNextSnapshots) {
  SeamsRig rig;
  KINTSUGI_EXPECT_OK(rig.make_directory("/a"));
  KINTSUGI_EXPECT_OK(rig.put("/a/f", 1, 300'000));
  KINTSUGI_EXPECT_OK(rig.create("/a", "old"));
  const uint64_t open = rig.inode("/a/.snapshots/old/f");
  ASSERT_NE(open, 0u);
  KINTSUGI_EXPECT_OK(rig.set_size(rig.inode("/a/f"), 7));
  KINTSUGI_EXPECT_OK(rig.destroy("/a", "old"));
  rig.settle();
  ASSERT_TRUE(rig.snapshots().empty());
  KINTSUGI_EXPECT_OK(rig.create("/a", "new"));
  proto::OpenReadRequest read;
  read.set_inode(open);
  const auto found = rig.call<proto::OpenReadResponse>(rpc::Method::kOpenRead, read);
  EXPECT_EQ(found ? Code::kOk : found.error().code(), Code::kStale)
      << "whoever reads the old snapshot goes on in the new one: " << found->attributes().size();
}

TEST(DataSeams, ARenameThatComesAgainWhileItStillWaitsIsDoneOnce) {
  SeamsRig rig;
  KINTSUGI_EXPECT_OK(rig.make_directory("/a"));
  KINTSUGI_EXPECT_OK(rig.put("/a/f"));
  const uint64_t leased = rig.leased_directory(1, "d", 1);
  proto::RenameRequest rename;
  rename.set_from("/a/f");
  rename.set_to("/d/f");
  rename.mutable_change()->set_session(77);
  rename.mutable_change()->set_number(1);
  std::optional<Status> first, second;
  rig.in_background<proto::Empty>(rpc::Method::kRename, rename, first);
  rig.beat(1);
  // The connection broke, so it comes again.
  rig.in_background<proto::Empty>(rpc::Method::kRename, rename, second);
  rig.beat(1);
  ASSERT_FALSE(first || second);
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [&](auto& request) { request.add_give_back(leased); }));
  rig.simulation.run_for(3s);
  ASSERT_TRUE(first && second);
  KINTSUGI_EXPECT_OK(*first);
  KINTSUGI_EXPECT_OK(*second);
}

TEST(DataSeams, ARemovalThatComesAgainWhileItStillWaitsTakesNoFileThatSomebodyMadeSince) {
  SeamsRig rig;
  const uint64_t leased = rig.leased_directory(1, "d", 1);
  const uint64_t ids = rig.reserve();
  ASSERT_EQ(rig.make_under_lease(ids, leased, "f"), Code::kOk);
  proto::RemoveRequest remove;
  remove.set_path("/d/f");
  remove.mutable_change()->set_session(77);
  remove.mutable_change()->set_number(1);
  std::optional<Status> first, second;
  rig.in_background<proto::Empty>(rpc::Method::kRemove, remove, first);
  rig.beat(1);
  rig.in_background<proto::Empty>(rpc::Method::kRemove, remove, second);
  rig.beat(1);
  ASSERT_FALSE(first || second);
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [&](auto& request) { request.add_give_back(leased); }));
  rig.simulation.run_for(3s);
  ASSERT_TRUE(first && second);
  KINTSUGI_EXPECT_OK(*first);
  KINTSUGI_EXPECT_OK(*second);
}

TEST(DataSeams, ASnapshotThatIsAskedForAgainWhileItStillWaitsIsMadeOnce) {
  SeamsRig rig;
  const uint64_t leased = rig.leased_directory(1, "d", 1);
  proto::CreateSnapshotRequest create;
  create.set_path("/d");
  create.set_name("s");
  create.mutable_change()->set_session(77);
  create.mutable_change()->set_number(1);
  std::optional<Status> first, second;
  rig.in_background<proto::Empty>(rpc::Method::kCreateSnapshot, create, first);
  rig.beat(1);
  rig.in_background<proto::Empty>(rpc::Method::kCreateSnapshot, create, second);
  rig.beat(1);
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [&](auto& request) { request.add_give_back(leased); }));
  rig.simulation.run_for(3s);
  ASSERT_TRUE(first && second);
  KINTSUGI_EXPECT_OK(*first);
  KINTSUGI_EXPECT_OK(*second);
}

TEST(DataSeams, WhatComesBackFromTheTrashTakesNoNameFromWhoHasTheLeaseOfItsDirectory) {
  SeamsRig rig;
  KINTSUGI_EXPECT_OK(rig.make_directory("/a"));
  KINTSUGI_EXPECT_OK(rig.put("/a/f"));
  proto::SetTrashRequest trash;
  trash.set_path("/");
  trash.set_retention_ns(Duration(1h).count());
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kSetTrash, trash));
  KINTSUGI_EXPECT_OK(rig.remove("/a/f"));
  proto::ListTrashRequest list;
  list.set_path("/");
  const auto kept = rig.call<proto::ListTrashResponse>(rpc::Method::kListTrash, list);
  ASSERT_TRUE(kept && kept->entries_size() == 1);
  const uint64_t leased = rig.leased_directory(1, "d", 1);
  const uint64_t ids = rig.reserve();
  proto::RestoreTrashRequest restore;
  restore.set_path("/");
  restore.set_entry(kept->entries(0).entry());
  restore.set_to("/d/f");
  std::optional<Status> ended;
  rig.in_background<proto::RestoreTrashResponse>(rpc::Method::kRestoreTrash, restore, ended);
  rig.beat(1);
  EXPECT_FALSE(ended) << "the owner of the lease has not been asked: " << *ended;
  EXPECT_EQ(rig.make_under_lease(ids, leased, "f"), Code::kOk) << "whoever made it was told that it is there";
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [&](auto& request) { request.add_give_back(leased); }));
  rig.simulation.run_for(3s);
}

TEST(DataSeams, NobodyKeepsBackWhatLiesBelowAQuotaAfterARename) {
  SeamsRig rig;
  KINTSUGI_EXPECT_OK(rig.make_directory("/q"));
  proto::SetQuotaRequest quota;
  quota.set_path("/q");
  quota.set_max_bytes(1000);
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kSetQuota, quota));
  KINTSUGI_EXPECT_OK(rig.put("/f", 1, 500));
  const uint64_t inode = rig.inode("/f");
  ASSERT_TRUE(rig.take_lease(inode));
  proto::MoveRequest move;
  move.set_parent(1);
  move.set_name("f");
  move.set_to_parent(rig.inode("/q"));
  move.set_to_name("f");
  move.mutable_change()->set_session(kOther);
  move.mutable_change()->set_number(1);
  std::optional<Status> ended;
  rig.in_background<proto::Empty>(rpc::Method::kMove, move, ended);
  rig.beat(2);
  EXPECT_FALSE(ended && ended->ok() && rig.meta->state().clients.leases.owns(InodeId{inode}, kOwner))
      << "its owner goes on to keep back what the quota will refuse after the close";
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [&](auto& request) { request.add_give_back(inode); }));
  rig.simulation.run_for(3s);
}

TEST(DataSeams, NobodyKeepsBackWhatIsLinkedBelowAQuota) {
  SeamsRig rig;
  KINTSUGI_EXPECT_OK(rig.make_directory("/q"));
  proto::MakeInodeRequest make;
  make.set_parent(1);
  make.set_type(proto::Attributes::FILE);
  make.set_mode(0644);
  make.set_hold_for(kOwner);
  make.mutable_change()->set_session(kOwner);
  make.mutable_change()->set_number(1);
  const auto made = rig.call<proto::InodeResponse>(rpc::Method::kMakeInode, make);
  ASSERT_TRUE(made);
  const uint64_t inode = made->attributes().inode();
  ASSERT_TRUE(rig.take_lease(inode));
  proto::SetQuotaRequest quota;
  quota.set_path("/q");
  quota.set_max_bytes(1000);
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kSetQuota, quota));
  proto::LinkRequest link;
  link.set_inode(inode);
  link.set_parent(rig.inode("/q"));
  link.set_name("f");
  link.mutable_change()->set_session(kOwner);
  link.mutable_change()->set_number(2);
  std::optional<Status> ended;
  rig.in_background<proto::InodeResponse>(rpc::Method::kLink, link, ended);
  rig.beat(2);
  EXPECT_FALSE(ended) << "its owner goes on to keep back what the quota will refuse after the close: "
                      << *ended;
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [&](auto& request) { request.add_give_back(inode); }));
  rig.simulation.run_for(3s);
  ASSERT_TRUE(ended);
  KINTSUGI_EXPECT_OK(*ended);
  EXPECT_EQ(rig.inode("/q/f"), inode);
}

TEST(DataSeams, WhoMayNotMakeASnapshotTakesNoLeaseAway) {
  SeamsRig rig;
  const uint64_t leased = rig.leased_directory(1, "d", 1);
  proto::CreateSnapshotRequest create;
  create.set_path("/");
  create.set_name("s");
  create.mutable_caller()->set_uid(1001);
  create.mutable_caller()->set_gid(1001);
  std::optional<Status> ended;
  rig.in_background<proto::Empty>(rpc::Method::kCreateSnapshot, create, ended);
  rig.beat(11);
  EXPECT_TRUE(rig.meta->state().clients.leases.owns(InodeId{leased}, kOwner))
      << "a stranger has made a client that works lose what it had not written out";
  EXPECT_TRUE(ended && ended->code() == Code::kNotPermitted);
  rig.simulation.run_for(3s);
}

TEST(DataSeams, WhatComesAgainAfterAMinuteOfSilenceIsNotDoneOnceMore) {
  SeamsRig rig;
  KINTSUGI_EXPECT_OK(rig.put("/f"));
  proto::UnlinkRequest unlink;
  unlink.set_parent(1);
  unlink.set_name("f");
  unlink.mutable_change()->set_session(kOwner);
  unlink.mutable_change()->set_number(1);
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kUnlink, unlink));
  // The answer is lost with the network, and the client asks again for up to ten minutes (io_timeout).
  rig.pass(65);
  KINTSUGI_EXPECT_OK(rig.put("/f"));
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [](auto& request) { request.set_all(true); }));
  (void)rig.call<proto::Empty>(rpc::Method::kUnlink, unlink);
  EXPECT_TRUE(rig.exists("/f"))
      << "somebody else's file was removed by a removal that was carried out a minute ago";
}

TEST(DataSeams, ACopyThatComesAgainUndoesNothingThatWasWrittenSince) {
  SeamsRig rig;
  KINTSUGI_EXPECT_OK(rig.put("/from", 1, 300'000));
  KINTSUGI_EXPECT_OK(rig.put("/to", 1, 300'000));
  proto::CopyExtentsRequest copy;
  copy.set_from(rig.inode("/from"));
  copy.set_to(rig.inode("/to"));
  copy.set_length(300'000);
  copy.mutable_change()->set_session(kOwner);
  copy.mutable_change()->set_number(1);
  ASSERT_TRUE(rig.call<proto::CopyExtentsResponse>(rpc::Method::kCopyExtents, copy));
  // Somebody else has seen the copy, and cuts the file.
  KINTSUGI_EXPECT_OK(rig.set_size(rig.inode("/to"), 10));
  const auto again = rig.call<proto::CopyExtentsResponse>(rpc::Method::kCopyExtents, copy);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->length(), 300'000u);
  EXPECT_EQ(rig.stat("/to")->size(), 10u) << "the answer was lost, not the copy";
}

TEST(DataSeams, ACopyThatComesAgainSaysHowMuchItWasAndNotHowMuchItWouldBe) {
  constexpr uint64_t kBytes = 300'000, kPiece = 100;
  SeamsRig rig;
  KINTSUGI_EXPECT_OK(rig.put("/from", 1, kBytes));
  KINTSUGI_EXPECT_OK(rig.put("/to", 1, kBytes));
  // So many extents are in the way that one call does not copy over all of them.
  const auto to = rig.open("/to");
  ASSERT_TRUE(to);
  const InodeId content{to->attributes().inode()};
  const StripeId stripe{to->stripes(0).stripe_id()};
  Batch batch;
  batch.remove(keys::extent(content, kBytes));
  proto::StoredExtent piece;
  piece.set_length(kPiece);
  piece.set_stripe_id(stripe.value);
  for (uint64_t at = 0; at < kBytes; at += kPiece) {
    piece.set_stripe_offset(at);
    batch.put(keys::extent(content, at + kPiece), piece.SerializeAsString());
  }
  auto stored = *Reader(*rig.store).get_message<proto::StoredStripe>(keys::stripe(stripe));
  stored.set_references(kBytes / kPiece);
  batch.put(keys::stripe(stripe), stored.SerializeAsString());
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->commit(std::move(batch))));

  proto::CopyExtentsRequest copy;
  copy.set_from(rig.inode("/from"));
  copy.set_to(content.value);
  copy.set_length(kBytes);
  copy.mutable_change()->set_session(kOwner);
  copy.mutable_change()->set_number(1);
  const auto first = rig.call<proto::CopyExtentsResponse>(rpc::Method::kCopyExtents, copy);
  ASSERT_TRUE(first) << first.error();
  ASSERT_LT(first->length(), kBytes);
  const auto again = rig.call<proto::CopyExtentsResponse>(rpc::Method::kCopyExtents, copy);
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->length(), first->length());
}

TEST(DataSeams, WhatIsRestoredWhileItsDirectoryIsInTheTrashDoesNotStayInTheTrash) {
  SeamsRig rig;
  KINTSUGI_EXPECT_OK(rig.make_directory("/a"));
  KINTSUGI_EXPECT_OK(rig.put("/a/f"));
  KINTSUGI_EXPECT_OK(rig.put("/a/g"));
  proto::SetTrashRequest trash;
  trash.set_path("/");
  trash.set_retention_ns(Duration(1h).count());
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kSetTrash, trash));
  KINTSUGI_EXPECT_OK(rig.remove("/a/f"));
  proto::ListTrashRequest list;
  list.set_path("/");
  const auto kept = rig.call<proto::ListTrashResponse>(rpc::Method::kListTrash, list);
  ASSERT_TRUE(kept && kept->entries_size() == 1);
  KINTSUGI_EXPECT_OK(rig.remove("/a", true));
  proto::RestoreTrashRequest restore;
  restore.set_path("/");
  restore.set_entry(kept->entries(0).entry());
  const auto restored = rig.call<proto::RestoreTrashResponse>(rpc::Method::kRestoreTrash, restore);
  EXPECT_EQ(restored ? Code::kOk : restored.error().code(), Code::kNotFound)
      << "it is said to be restored, to " << restored->path() << ", and goes when that does";
}

TEST(DataSeams, WhoBelievesThatThereIsNoSnapshotHearsOfItBeforeItIsAnswered) {
  SeamsRig rig;
  KINTSUGI_EXPECT_OK(rig.make_directory("/a"));
  KINTSUGI_EXPECT_OK(rig.create("/a", "first"));
  KINTSUGI_EXPECT_OK(rig.keep(kOther, [](auto& request) { request.set_believes(true); }));
  const auto look = [&](uint64_t parent, const std::string& name) {
    proto::LookupRequest request;
    request.set_session(kOther);
    request.set_parent(parent);
    request.set_name(name);
    const auto found = rig.call<proto::InodeResponse>(rpc::Method::kLookup, request);
    return found ? found->attributes().inode() : 0;
  };
  const uint64_t listed = look(rig.inode("/a"), ".snapshots");
  ASSERT_NE(listed, 0u);
  EXPECT_EQ(look(listed, "second"), 0u) << "its kernel believes that for a second";
  const TimePoint asked = rig.simulation.now();
  KINTSUGI_EXPECT_OK(rig.create("/a", "second"));
  EXPECT_GE(rig.simulation.now() - asked, kBelieved)
      << "the session has said nothing since: what was answered is not seen on its mount";
}

}  // namespace
}  // namespace kintsugi::metaserver
