/// The advisory locks of this session, in memory that may outlive the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/proto/file_locks.h"
#include "common/proto/inode.pb.h"

namespace kintsugi::client {

/// Another process that is given the same region finds the locks as the last change left them: what was set is in the
/// region before set() returns. There it is a log of changes; when that is long, what there is now begins a new one in
/// the other half. Each change has a checksum, as have its bounds: what is damaged is said and not believed.
class OwnLocks {
  struct Change;
  struct Record;

 public:
  /// A message of all of them fits a frame's header.
  static constexpr size_t kMaxLocks = 8'000;
  static constexpr size_t kBytes = 640 * 4096;

  /// `region`: kBytes, all zero at first, aligned to 8 bytes, and outlives this. Empty: nobody continues with the
  /// locks.
  OwnLocks(uint64_t session, std::span<std::byte> region);

  const FileLocks& table() const { return table_; }
  /// Checks that there is room for the lock. kLimitExceeded.
  Status check_room(const proto::LockRequest& request) const;
  /// Sets the lock as FileLocks::set does. kLimitExceeded, kInvalidArgument.
  Result<bool> set(const proto::LockRequest& request);
  /// Removes a lock that somebody else has now.
  void lost(const proto::HeldLock& lock);
  /// Replaces all locks by these.
  void replace(const google::protobuf::RepeatedPtrField<proto::HeldLock>& locks);

 private:
  struct Bounds {
    uint32_t half = 0, count = 0;
  };
  static constexpr size_t records_of_half();
  static uint64_t word_of(Bounds bounds);
  Bounds bounds() const;
  void set_bounds(Bounds bounds);
  Record* records(uint32_t half);
  void read();
  void note(uint64_t inode, bool whole_file, const proto::FileLock& lock);
  void begin_anew();

  const uint64_t session_;
  const std::span<std::byte> region_;
  FileLocks table_;
};

}  // namespace kintsugi::client
