// Locks that the session decides which has the lease of an inode: when the metaserver hears of them, and what others may have until then.
#include "metaserver/sessions/leased_locks.h"

#include "metaserver/sessions/sessions.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

struct LeasedLockRig : MetaServerRig {
  LeasedLockRig() {
    KINTSUGI_EXPECT_OK(put("/f"));
    inode = open("/f")->attributes().inode();
    for (const uint64_t session : {kOwner, kOther})
      KINTSUGI_EXPECT_OK(keep(session, [](auto& request) { request.set_all(true); }));
  }

  /// A call that gives up before the metaserver does.
  template <class Response>
  Result<Response> call(rpc::Method method, const google::protobuf::MessageLite& request) {
    Response response;
    const Status status = simulation.run(call_within(4s, method, request, response));
    if (!status.ok()) return status;
    return response;
  }
  Status keep(uint64_t session, const std::function<void(proto::KeepSessionRequest&)>& fill,
              proto::KeepSessionResponse* answer = nullptr) {
    proto::KeepSessionRequest request;
    request.set_session(session);
    fill(request);
    const auto kept = call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, request);
    if (kept && answer) *answer = *kept;
    return kept ? Status{} : kept.error();
  }
  bool get_lease(uint64_t session) {
    proto::GetInodeRequest request;
    request.set_inode(inode);
    request.set_session(session);
    request.set_lease(true);
    const auto got = call<proto::InodeResponse>(rpc::Method::kGetInode, request);
    return got && got->lease();
  }
  proto::HeldLock page(uint64_t session, uint64_t number) const {
    proto::HeldLock held;
    held.set_inode(inode);
    proto::FileLock& lock = *held.mutable_lock();
    lock.set_type(proto::FileLock::EXCLUSIVE);
    lock.set_session(session);
    lock.set_owner(session * 100);
    lock.set_begin(number);
    lock.set_end(number);
    return held;
  }
  Result<bool> lock(uint64_t session, uint64_t number,
                    proto::FileLock::Type type = proto::FileLock::EXCLUSIVE) {
    proto::LockRequest request;
    request.set_inode(inode);
    *request.mutable_lock() = page(session, number).lock();
    request.mutable_lock()->set_type(type);
    const auto answer = call<proto::LockResponse>(rpc::Method::kLock, request);
    if (!answer) return answer.error();
    return answer->granted();
  }
  Status give_back(const std::vector<uint64_t>& pages, uint64_t number = 0) {
    return keep(kOwner, [&](auto& request) {
      request.add_give_back(inode);
      request.add_locks_of(inode);
      for (const uint64_t page_number : pages)
        *request.add_lock() = page(kOwner, page_number);
      request.set_number(number);
    });
  }

  uint64_t inode = 0;
};

TEST(LeasedLocks, AreToldBeforeAnybodyElseGetsOne) {
  LeasedLockRig rig;
  ASSERT_TRUE(rig.get_lease(kOwner));
  EXPECT_EQ(rig.lock(kOther, 1).error().code(), Code::kDeadlineExceeded)
      << "the owner has not told what it has";
  KINTSUGI_EXPECT_OK(rig.give_back({1, 2}));
  EXPECT_FALSE(*rig.lock(kOther, 1));
  EXPECT_TRUE(*rig.lock(kOther, 3));
  EXPECT_TRUE(*rig.lock(kOwner, 1, proto::FileLock::NONE)) << "from here on by calls";
  EXPECT_TRUE(*rig.lock(kOther, 1));
}

TEST(LeasedLocks, ThatWereThereBeforeTheLeaseAreWhatTheOwnerSays) {
  LeasedLockRig rig;
  ASSERT_TRUE(*rig.lock(kOwner, 1));
  ASSERT_TRUE(*rig.lock(kOwner, 2));
  ASSERT_TRUE(rig.get_lease(kOwner));
  KINTSUGI_EXPECT_OK(rig.give_back({2}));
  EXPECT_TRUE(*rig.lock(kOther, 1)) << "it was given back under the lease";
  EXPECT_FALSE(*rig.lock(kOther, 2));
}

TEST(LeasedLocks, OfWhichTheOwnerDecidedNothingStay) {
  LeasedLockRig rig;
  ASSERT_TRUE(*rig.lock(kOwner, 1));
  ASSERT_TRUE(rig.get_lease(kOwner));
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [&](auto& request) { request.add_give_back(rig.inode); }));
  EXPECT_FALSE(*rig.lock(kOther, 1));
}

TEST(LeasedLocks, AreNotDecidedWhereSomebodyElseHasOne) {
  LeasedLockRig rig;
  ASSERT_TRUE(*rig.lock(kOther, 1));
  // A new process of the other one holds nothing yet, and goes on with the locks.
  KINTSUGI_EXPECT_OK(rig.keep(kOther, [](auto& request) { request.set_all(true); }));
  EXPECT_FALSE(rig.get_lease(kOwner));
  EXPECT_TRUE(*rig.lock(kOther, 1, proto::FileLock::NONE));
  KINTSUGI_EXPECT_OK(rig.keep(kOther, [](auto& request) { request.set_all(true); }));
  EXPECT_TRUE(rig.get_lease(kOwner));
}

TEST(LeasedLocks, OfOneThatIsSilentKeepOthersOutUntilItTells) {
  LeasedLockRig rig;
  ASSERT_TRUE(*rig.lock(kOwner, 5));
  ASSERT_TRUE(rig.get_lease(kOwner));
  for (int i = 0; i < 4; ++i) {
    const auto granted = rig.lock(kOther, 1);
    EXPECT_FALSE(granted && *granted) << i;
  }
  EXPECT_FALSE(*rig.lock(kOther, 1)) << "the lease is lost, and nobody knows which locks there are";
  KINTSUGI_EXPECT_OK(rig.give_back({2}));
  EXPECT_TRUE(*rig.lock(kOther, 1));
  EXPECT_TRUE(*rig.lock(kOther, 5));
  EXPECT_FALSE(*rig.lock(kOther, 2)) << "as without a lease it has its locks for a minute";
}

TEST(LeasedLocks, OfOneThatIsSilentEndWithItsSession) {
  LeasedLockRig rig;
  ASSERT_TRUE(rig.get_lease(kOwner));
  bool granted = false;
  int seconds = 0;
  for (; !granted && seconds < 100; seconds += 5) {
    KINTSUGI_EXPECT_OK(rig.keep(kOther, [](auto&) {}));
    const auto answer = rig.lock(kOther, 1);
    granted = answer && *answer;
    rig.pass(5);
  }
  EXPECT_TRUE(granted);
  EXPECT_GE(seconds, 30) << "it still might have told";
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [&](auto& request) {
    request.set_all(true);
    request.add_lease(rig.inode);
    *request.add_lock() = rig.page(kOwner, 1);
  }));
  KINTSUGI_EXPECT_OK(rig.give_back({1}));
  EXPECT_FALSE(*rig.lock(kOwner, 1)) << "it came too late";
}

TEST(LeasedLocks, AreToldOnceMoreAfterARestart) {
  LeasedLockRig rig;
  ASSERT_TRUE(rig.get_lease(kOwner));
  rig.restart();
  KINTSUGI_EXPECT_OK(rig.keep(kOther, [](auto& request) { request.set_all(true); }));
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [&](auto& request) {
    request.set_all(true);
    request.add_lease(rig.inode);
    *request.add_lock() = rig.page(kOwner, 1);
  }));
  EXPECT_FALSE(rig.lock(kOther, 2)) << "the owner has the lease still";
  KINTSUGI_EXPECT_OK(rig.give_back({2}));
  EXPECT_TRUE(*rig.lock(kOther, 1));
  EXPECT_FALSE(*rig.lock(kOther, 2));
}

TEST(LeasedLocks, ANewProcessTellsWhatTheOneBeforeItHad) {
  LeasedLockRig rig;
  ASSERT_TRUE(*rig.lock(kOwner, 1));
  ASSERT_TRUE(rig.get_lease(kOwner));
  proto::KeepSessionResponse answer;
  KINTSUGI_EXPECT_OK(rig.keep(
      kOwner,
      [&](auto& request) {
        request.set_all(true);
        request.set_ask_locks(true);
        *request.add_lock() = rig.page(kOwner, 2);
      },
      &answer));
  ASSERT_EQ(answer.lock_size(), 1);
  EXPECT_EQ(answer.lock(0).lock().begin(), 2u);
  KINTSUGI_EXPECT_OK(rig.keep(kOwner, [&](auto& request) { request.add_give_back(rig.inode); }));
  EXPECT_TRUE(*rig.lock(kOther, 1));
  EXPECT_FALSE(*rig.lock(kOther, 2));
  // Without a lease it is the metaserver that knows.
  KINTSUGI_EXPECT_OK(rig.keep(
      kOwner,
      [&](auto& request) {
        request.set_ask_locks(true);
        *request.add_lock() = rig.page(kOwner, 3);
      },
      &answer));
  ASSERT_EQ(answer.lock_size(), 1);
  EXPECT_EQ(answer.lock(0).lock().begin(), 2u);
}

TEST(LeasedLocks, AMessageThatWasOvertakenChangesNothing) {
  LeasedLockRig rig;
  ASSERT_TRUE(rig.get_lease(kOwner));
  KINTSUGI_EXPECT_OK(rig.give_back({1}, 7));
  ASSERT_TRUE(rig.get_lease(kOwner));
  EXPECT_EQ(rig.give_back({}, 6).code(), Code::kConflict);
  EXPECT_EQ(rig.lock(kOther, 1).error().code(), Code::kDeadlineExceeded) << "the owner has the lease still";
}

}  // namespace
}  // namespace kintsugi::metaserver
