// The locks of a session in memory that outlives the process: what the next one finds there.
#include "client/lib/leases/own_locks.h"

#include <random>

#include <gtest/gtest.h>

namespace kintsugi::client {
namespace {

constexpr uint64_t kSession = 77, kToTheEnd = (uint64_t{1} << 63) - 1;

proto::LockRequest request(uint64_t inode, uint64_t owner, proto::FileLock::Type type, uint64_t begin,
                           uint64_t end, bool whole_file = false) {
  proto::LockRequest request;
  request.set_inode(inode);
  request.set_whole_file(whole_file);
  proto::FileLock& lock = *request.mutable_lock();
  lock.set_type(type);
  lock.set_begin(begin);
  lock.set_end(end);
  lock.set_session(kSession);
  lock.set_owner(owner);
  lock.set_pid(static_cast<uint32_t>(owner + 1));
  return request;
}

std::vector<std::string> listed(const OwnLocks& locks) {
  std::vector<std::string> list;
  for (const proto::HeldLock& held : locks.table().of(kSession))
    list.push_back(held.SerializeAsString());
  return list;
}

TEST(OwnLocks, AreFoundByTheNextProcessAfterEachChange) {
  std::mt19937_64 dice(3);
  std::vector<uint64_t> region(OwnLocks::kBytes / sizeof(uint64_t));
  OwnLocks locks(kSession, std::as_writable_bytes(std::span(region)));
  size_t most = 0;
  for (int i = 0; i < 8'000; ++i) {
    const auto type = static_cast<proto::FileLock::Type>(dice() % 3);
    const uint64_t begin = dice() % 400;
    const auto set =
        locks.set(request(dice() % 3, dice() % 3, type, begin, begin + dice() % 4, dice() % 2 == 0));
    ASSERT_TRUE(set) << set.error();
    most = std::max(most, locks.table().count());
    if (i % 97 != 0) continue;
    std::vector<uint64_t> left = region;
    const OwnLocks next(kSession, std::as_writable_bytes(std::span(left)));
    ASSERT_EQ(listed(next), listed(locks)) << i;
  }
  EXPECT_GT(most, 500u);
}

TEST(OwnLocks, OfWhichARecordIsTornAreKnownUpToThatOne) {
  std::vector<uint64_t> region(OwnLocks::kBytes / sizeof(uint64_t));
  OwnLocks locks(kSession, std::as_writable_bytes(std::span(region)));
  for (uint64_t inode = 1; inode <= 5; ++inode)
    ASSERT_TRUE(*locks.set(request(inode, 1, proto::FileLock::EXCLUSIVE, 0, kToTheEnd)));
  // Words that are not zero are of bounds and records: each bit of each of them is flipped once.
  for (size_t word = 0; word < 100; ++word) {
    if (region[word] == 0) continue;
    for (int bit = 0; bit < 64; bit += 7) {
      std::vector<uint64_t> left = region;
      left[word] ^= uint64_t{1} << bit;
      OwnLocks next(kSession, std::as_writable_bytes(std::span(left)));
      const auto found = listed(next), all = listed(locks);
      ASSERT_LT(found.size(), all.size()) << "word " << word << ", bit " << bit;
      ASSERT_TRUE(std::equal(found.begin(), found.end(), all.begin()));
      // It goes on from there.
      ASSERT_TRUE(*next.set(request(9, 1, proto::FileLock::EXCLUSIVE, 0, kToTheEnd)));
      EXPECT_EQ(OwnLocks(kSession, std::as_writable_bytes(std::span(left))).table().count(),
                found.size() + 1);
    }
  }
}

TEST(OwnLocks, AreAsManyAsAMessageHolds) {
  std::vector<uint64_t> region(OwnLocks::kBytes / sizeof(uint64_t));
  OwnLocks locks(kSession, std::as_writable_bytes(std::span(region)));
  uint64_t taken = 0;
  while (locks.set(request(taken / 50, 1, proto::FileLock::EXCLUSIVE, 2 * taken, 2 * taken)))
    ++taken;
  EXPECT_LE(taken, OwnLocks::kMaxLocks);
  EXPECT_GT(taken, OwnLocks::kMaxLocks - 5);
  EXPECT_EQ(locks.set(request(2, 1, proto::FileLock::SHARED, 0, 5)).error().code(), Code::kLimitExceeded);
  const OwnLocks next(kSession, std::as_writable_bytes(std::span(region)));
  EXPECT_EQ(listed(next), listed(locks));
  EXPECT_TRUE(*locks.set(request(1, 1, proto::FileLock::NONE, 0, kToTheEnd)));
  EXPECT_EQ(locks.table().count(), taken - 50);
  EXPECT_TRUE(*locks.set(request(2, 1, proto::FileLock::SHARED, 0, 5)));
}

}  // namespace
}  // namespace kintsugi::client
