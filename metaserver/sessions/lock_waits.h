/// Who waits for whose range lock, to find deadlocks: a wait that would close a circle is refused (EDEADLK).
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "common/proto/inode.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::metaserver {

/// Clients that wait for a lock ask again and again; one that does not has given up.
class LockWaits {
 public:
  static constexpr Duration kForgotten = std::chrono::seconds(2);
  static constexpr size_t kMaxWaiting = 100'000, kMaxSteps = 10'000;

  /// The clock must outlive it.
  explicit LockWaits(const runtime::Clock& clock) : clock_(clock) {}

  /// Notes that the owner of `wanted` waits for those of `in_the_way`. Returns false if one of them waits, through
  /// whomever, for that owner, which must not wait then.
  bool may_wait(const proto::FileLock& wanted, const std::vector<proto::FileLock>& in_the_way);
  /// Notes that the owner of `wanted` waits no longer.
  void ended(const proto::FileLock& wanted);

 private:
  using Owner = std::pair<uint64_t, uint64_t>;  ///< session, owner in it
  struct Wait {
    std::vector<Owner> for_whom;
    TimePoint asked{};
  };

  const runtime::Clock& clock_;
  std::map<Owner, Wait> waits_;
};

}  // namespace kintsugi::metaserver
