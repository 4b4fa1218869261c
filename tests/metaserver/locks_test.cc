// Locks over all clients: what becomes of them when the metaserver starts anew, and who waits for whom.
#include <ctime>
#include <random>

#include "metaserver/sessions/lock_waits.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint64_t kFirst = 5, kSecond = 6;

struct LockRig : MetaServerRig {
  LockRig() {
    KINTSUGI_EXPECT_OK(put("/f"));
    inode = open("/f")->attributes().inode();
    for (const uint64_t session : {kFirst, kSecond})
      KINTSUGI_EXPECT_OK(tell(session));
  }

  Status tell(uint64_t session, const std::vector<proto::HeldLock>& locks = {}) {
    proto::KeepSessionRequest request;
    request.set_session(session);
    request.set_all(true);
    for (const proto::HeldLock& lock : locks)
      *request.add_lock() = lock;
    const auto kept = call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, request);
    return kept ? Status{} : kept.error();
  }
  proto::LockRequest request(uint64_t session, uint64_t begin, uint64_t end,
                             proto::FileLock::Type type = proto::FileLock::EXCLUSIVE) const {
    proto::LockRequest request;
    request.set_inode(inode);
    proto::FileLock& lock = *request.mutable_lock();
    lock.set_type(type);
    lock.set_session(session);
    lock.set_owner(session * 100);
    lock.set_begin(begin);
    lock.set_end(end);
    return request;
  }
  Result<bool> lock(const proto::LockRequest& request) {
    const auto answer = call<proto::LockResponse>(rpc::Method::kLock, request);
    if (!answer) return answer.error();
    return answer->granted();
  }
  Result<bool> wait_for(uint64_t session, uint64_t begin, uint64_t end) {
    proto::LockRequest wanted = request(session, begin, end);
    wanted.set_waits(true);
    return lock(wanted);
  }
  static proto::HeldLock held(const proto::LockRequest& request) {
    proto::HeldLock held;
    held.set_inode(request.inode());
    *held.mutable_lock() = request.lock();
    return held;
  }

  uint64_t inode = 0;
};

proto::FileLock file_lock(uint64_t session, uint64_t begin, uint64_t end, proto::FileLock::Type type) {
  proto::FileLock lock;
  lock.set_session(session);
  lock.set_owner(session * 10 + begin % 2);
  lock.set_begin(begin);
  lock.set_end(end);
  lock.set_type(type);
  return lock;
}

TEST(FileLocks, EachSessionHasWhatIsInTheTableOfItWhateverEndsBefore) {
  constexpr uint64_t kSessions = 4, kInodes = 3, kEverybody = 99;
  std::mt19937_64 dice(5);
  FileLocks locks;
  const auto in_the_table = [&](uint64_t session) {
    std::vector<std::string> found;
    for (uint64_t inode = 0; inode < kInodes; ++inode) {
      for (const bool whole_file : {false, true}) {
        const auto all = file_lock(kEverybody, 0, UINT64_MAX / 2, proto::FileLock::EXCLUSIVE);
        for (const proto::FileLock& lock : locks.conflicts(InodeId{inode}, all, whole_file)) {
          proto::HeldLock held;
          held.set_inode(inode);
          held.set_whole_file(whole_file);
          *held.mutable_lock() = lock;
          if (lock.session() == session) found.push_back(held.SerializeAsString());
        }
      }
    }
    return found;
  };
  size_t most = 0;
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t session = 1 + dice() % kSessions, begin = dice() % 40;
    const InodeId inode{dice() % kInodes};
    const auto type = static_cast<proto::FileLock::Type>(dice() % 3);
    switch (dice() % 40) {
      case 0: locks.session_ended(session); break;
      case 1: locks.forget(inode, session); break;
      default:
        ASSERT_TRUE(locks.set(inode, file_lock(session, begin, begin + dice() % 5, type), dice() % 2 == 0));
    }
    most = std::max(most, locks.count());
    size_t sum = 0;
    for (uint64_t each = 1; each <= kSessions; ++each) {
      std::vector<std::string> held;
      for (const proto::HeldLock& lock : locks.of(each))
        held.push_back(lock.SerializeAsString());
      ASSERT_EQ(held, in_the_table(each)) << step;
      sum += held.size();
    }
    ASSERT_EQ(locks.count(), sum) << step;
  }
  EXPECT_GT(most, 30u);
}

TEST(FileLocks, TheEndOfASessionLooksAtNoLocksOfOthers) {
  constexpr uint64_t kMany = 200'000, kSessions = 300;
  FileLocks locks;
  for (uint64_t inode = 0; inode < kMany; ++inode)
    ASSERT_TRUE(locks.set(InodeId{inode}, file_lock(1, 0, 9, proto::FileLock::EXCLUSIVE), false));
  for (uint64_t session = 2; session < 2 + kSessions; ++session)
    ASSERT_TRUE(locks.set(InodeId{session}, file_lock(session, 10, 19, proto::FileLock::EXCLUSIVE), false));
  const std::clock_t began = std::clock();
  for (uint64_t session = 2; session < 2 + kSessions; ++session)
    locks.session_ended(session);
  EXPECT_LT(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC, 0.3) << "seconds of this process";
  EXPECT_EQ(locks.count(), kMany);
}

TEST(Locks, OfOneOwnerThatTouchAreOne) {
  LockRig rig;
  const auto in_the_way = [&] {
    proto::LockRequest wanted = rig.request(kSecond, 0, 100);
    wanted.set_test_only(true);
    const auto answer = rig.call<proto::LockResponse>(rpc::Method::kLock, wanted);
    KINTSUGI_ASSERT(answer && !answer->granted());
    return std::pair{answer->conflict().begin(), answer->conflict().end()};
  };
  EXPECT_TRUE(*rig.lock(rig.request(kFirst, 10, 19)));
  EXPECT_TRUE(*rig.lock(rig.request(kFirst, 12, 14)));
  EXPECT_EQ(in_the_way(), (std::pair<uint64_t, uint64_t>{10, 19}));
  EXPECT_TRUE(*rig.lock(rig.request(kFirst, 20, 24)));
  EXPECT_TRUE(*rig.lock(rig.request(kFirst, 40, 50)));
  EXPECT_EQ(in_the_way(), (std::pair<uint64_t, uint64_t>{10, 24}));
  EXPECT_TRUE(*rig.lock(rig.request(kFirst, 2, 5, proto::FileLock::SHARED)));
  EXPECT_EQ(in_the_way(), (std::pair<uint64_t, uint64_t>{2, 5})) << "the first one, though it was taken last";
  EXPECT_TRUE(*rig.lock(rig.request(kFirst, 0, 45, proto::FileLock::NONE)));
  EXPECT_EQ(in_the_way(), (std::pair<uint64_t, uint64_t>{46, 50}));
}

// Whoever knows a session's id can end it.
TEST(Locks, TellTheSessionOfTheirHolderToItselfAlone) {
  LockRig rig;
  EXPECT_TRUE(*rig.lock(rig.request(kFirst, 10, 19)));
  const auto told = [&](uint64_t session) {
    proto::LockRequest wanted = rig.request(session, 0, 100);
    wanted.mutable_lock()->set_owner(77);
    wanted.set_test_only(true);
    const auto answer = rig.call<proto::LockResponse>(rpc::Method::kLock, wanted);
    KINTSUGI_ASSERT(answer && !answer->granted());
    return answer->conflict();
  };
  EXPECT_EQ(told(kSecond).session(), 0u);
  EXPECT_EQ(told(kSecond).begin(), 10u);
  EXPECT_EQ(told(kFirst).session(), kFirst);
}

TEST(Locks, SurviveARestartBecauseTheirOwnersTellThem) {
  LockRig rig;
  const proto::LockRequest first = rig.request(kFirst, 0, 9), second = rig.request(kSecond, 5, 20);
  ASSERT_TRUE(*rig.lock(first));
  ASSERT_FALSE(*rig.lock(second));
  rig.restart();
  KINTSUGI_EXPECT_OK(rig.tell(kSecond));
  EXPECT_EQ(rig.lock(second).error().code(), Code::kUnavailable) << "the first one may still tell";
  KINTSUGI_EXPECT_OK(rig.tell(kFirst, {LockRig::held(first)}));
  EXPECT_FALSE(*rig.lock(second)) << "the first one has it still";
  EXPECT_TRUE(*rig.lock(rig.request(kFirst, 0, 9, proto::FileLock::NONE)));
  EXPECT_TRUE(*rig.lock(second));
}

TEST(Locks, OfOneThatIsSilentAfterARestartAreGivenToOthers) {
  LockRig rig;
  ASSERT_TRUE(*rig.lock(rig.request(kFirst, 0, 9)));
  rig.restart();
  KINTSUGI_EXPECT_OK(rig.tell(kSecond));
  const proto::LockRequest second = rig.request(kSecond, 0, 9);
  EXPECT_FALSE(rig.lock(second));
  rig.pass(Leases::kTakeOver / 1s + 1);
  EXPECT_TRUE(*rig.lock(second));
  KINTSUGI_EXPECT_OK(rig.tell(kFirst, {LockRig::held(rig.request(kFirst, 0, 9))}));
  EXPECT_FALSE(*rig.lock(rig.request(kFirst, 0, 9))) << "it came too late";
}

TEST(Locks, WhatIsToldOnceMoreBringsNothingBack) {
  LockRig rig;
  const proto::LockRequest first = rig.request(kFirst, 0, 9);
  ASSERT_TRUE(*rig.lock(first));
  EXPECT_TRUE(*rig.lock(rig.request(kFirst, 0, 9, proto::FileLock::NONE)));
  // A message that was on its way when the lock was given back.
  KINTSUGI_EXPECT_OK(rig.tell(kFirst, {LockRig::held(first)}));
  EXPECT_TRUE(*rig.lock(rig.request(kSecond, 0, 9)));
}

TEST(Locks, ANewProcessOfASessionLearnsThem) {
  LockRig rig;
  ASSERT_TRUE(*rig.lock(rig.request(kFirst, 3, 9)));
  proto::KeepSessionRequest keep;
  keep.set_session(kFirst);
  keep.set_ask_locks(true);
  const auto answer = rig.call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, keep);
  ASSERT_TRUE(answer) << answer.error();
  ASSERT_EQ(answer->lock_size(), 1);
  EXPECT_EQ(answer->lock(0).inode(), rig.inode);
  EXPECT_EQ(answer->lock(0).lock().begin(), 3u);
}

TEST(Locks, WhoeverWouldCloseACircleIsTold) {
  LockRig rig;
  ASSERT_TRUE(*rig.lock(rig.request(kFirst, 0, 0)));
  ASSERT_TRUE(*rig.lock(rig.request(kSecond, 1, 1)));
  EXPECT_FALSE(*rig.wait_for(kFirst, 1, 1));
  EXPECT_EQ(rig.wait_for(kSecond, 0, 0).error().code(), Code::kDeadlock);
  EXPECT_FALSE(*rig.wait_for(kFirst, 1, 1)) << "the other one goes on waiting";
  // One that gave up waiting is in nobody's way.
  rig.pass(3);
  EXPECT_FALSE(*rig.wait_for(kSecond, 0, 0));
}

}  // namespace
}  // namespace kintsugi::metaserver
