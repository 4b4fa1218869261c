#include "client/lib/leases/own_locks.h"

#include <algorithm>
#include <atomic>

#include "common/base/assert.h"
#include "common/base/sealed_record.h"
#include "common/log/log.h"

namespace kintsugi::client {
namespace {

constexpr uint64_t kToTheEnd = (uint64_t{1} << 63) - 1;
/// Locks that one change can add: the new one, and a part of one that it splits.
constexpr size_t kMostNew = 2;
constexpr size_t kBeginAnewAt = 1024;  ///< records; or twice as many as there are locks

}  // namespace

struct OwnLocks::Change {
  uint64_t inode, begin, end, owner;
  uint32_t pid;
  uint16_t type, whole_file;
};

struct OwnLocks::Record : SealedRecord<Change> {
  void seal(uint64_t inode, bool whole_file, const proto::FileLock& lock) {
    SealedRecord::seal({inode, lock.begin(), lock.end(), lock.owner(), lock.pid(),
                        static_cast<uint16_t>(lock.type()), static_cast<uint16_t>(whole_file)});
  }
};

/// The first one's place has the bounds.
constexpr size_t OwnLocks::records_of_half() {
  return kBytes / 2 / sizeof(Record) - 1;
}

OwnLocks::OwnLocks(uint64_t session, std::span<std::byte> region) : session_(session), region_(region) {
  static_assert(2 * kMaxLocks + kMostNew < records_of_half());
  KINTSUGI_ASSERT(region_.empty() || region_.size() == kBytes);
  if (!region_.empty()) read();
}

OwnLocks::Record* OwnLocks::records(uint32_t half) {
  return reinterpret_cast<Record*>(region_.data() + half * (kBytes / 2)) + 1;
}

uint64_t OwnLocks::word_of(Bounds bounds) {
  const uint32_t packed = bounds.half << 31 | bounds.count;
  return uint64_t{crc32c(std::as_bytes(std::span(&packed, 1)))} << 32 | packed;
}

OwnLocks::Bounds OwnLocks::bounds() const {
  const auto packed = static_cast<uint32_t>(*reinterpret_cast<const uint64_t*>(region_.data()));
  return {packed >> 31, packed & ~(uint32_t{1} << 31)};
}

void OwnLocks::set_bounds(Bounds bounds) {
  // One word, after what it counts: a process that dies leaves the locks as they were or as they are now.
  std::atomic_ref word(*reinterpret_cast<uint64_t*>(region_.data()));
  word.store(word_of(bounds), std::memory_order_release);
}

void OwnLocks::read() {
  const auto word = *reinterpret_cast<const uint64_t*>(region_.data());
  if (word == 0) return;  // the first process of all
  const auto [half, count] = bounds();
  const bool whole = word == word_of({half, count}) && count <= records_of_half();
  uint32_t read = 0;
  for (; whole && read < count; ++read) {
    const Record& record = records(half)[read];
    if (!record.whole()) break;
    proto::FileLock lock;
    lock.set_type(static_cast<proto::FileLock::Type>(record.body.type));
    lock.set_begin(record.body.begin);
    lock.set_end(record.body.end);
    lock.set_session(session_);
    lock.set_owner(record.body.owner);
    lock.set_pid(record.body.pid);
    (void)table_.set(InodeId{record.body.inode}, lock, record.body.whole_file != 0);
  }
  if (whole && read == count) return;
  log::error(
      "the list of locks that the process before left is damaged: {} of its changes are known; programs may "
      "hold locks "
      "that others get, until they are started again",
      read);
  set_bounds({whole ? half : 0, read});
}

void OwnLocks::note(uint64_t inode, bool whole_file, const proto::FileLock& lock) {
  if (region_.empty()) return;
  const auto [half, count] = bounds();
  if (count >= std::max(kBeginAnewAt, 2 * table_.count())) return begin_anew();
  records(half)[count].seal(inode, whole_file, lock);
  set_bounds({half, count + 1});
}

void OwnLocks::begin_anew() {
  if (region_.empty()) return;
  const uint32_t half = 1 - bounds().half;
  uint32_t count = 0;
  KINTSUGI_ASSERT(table_.count() <= records_of_half());
  for (const proto::HeldLock& held : table_.of(session_)) {
    records(half)[count++].seal(held.inode(), held.whole_file(), held.lock());
  }
  set_bounds({half, count});
}

Status OwnLocks::check_room(const proto::LockRequest& request) const {
  const proto::FileLock& lock = request.lock();
  const bool only_ends = lock.type() == proto::FileLock::NONE && lock.begin() == 0 && lock.end() >= kToTheEnd;
  if (only_ends || request.test_only() || table_.count() + kMostNew <= kMaxLocks) return {};
  return {Code::kLimitExceeded, fmt::format("there are {} locks, as many as there may be", table_.count())};
}

Result<bool> OwnLocks::set(const proto::LockRequest& request) {
  KINTSUGI_TRY(check_room(request));
  KINTSUGI_ASSIGN(const bool granted,
                  table_.set(InodeId{request.inode()}, request.lock(), request.whole_file()));
  if (granted) note(request.inode(), request.whole_file(), request.lock());
  return granted;
}

void OwnLocks::lost(const proto::HeldLock& lost) {
  proto::FileLock lock = lost.lock();
  log::warning("a lock of inode {} was lost to another client while this one was silent", lost.inode());
  lock.set_type(proto::FileLock::NONE);
  if (table_.set(InodeId{lost.inode()}, lock, lost.whole_file())) note(lost.inode(), lost.whole_file(), lock);
}

void OwnLocks::replace(const google::protobuf::RepeatedPtrField<proto::HeldLock>& locks) {
  table_ = {};
  for (const proto::HeldLock& held : locks)
    if (table_.count() < kMaxLocks) (void)table_.set(InodeId{held.inode()}, held.lock(), held.whole_file());
  begin_anew();
}

}  // namespace kintsugi::client
