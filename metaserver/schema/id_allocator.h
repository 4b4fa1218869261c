/// Ids that are never given out twice, whatever crashes.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "metaserver/kv/key_value_store.h"

namespace kintsugi::metaserver {

/// Reserves ids durably in ranges of kRange, the next range long before the last one is used up. Ids that were reserved
/// and not used before a crash are skipped.
///
/// Each start on an existing counter skips a random number of ids besides. So a store that was put back from an older
/// copy of its files does not give out the ids again that it had given out after the copy was made.
class IdAllocator {
 public:
  static constexpr uint64_t kRange = 10000;
  static constexpr uint64_t kFirst = 2;  ///< 0 means none; 1 is the root directory
  /// The most ids that one start skips: 2^64 ids are enough for 2^24 starts.
  static constexpr uint64_t kMostSkipped = uint64_t{1} << 40;

  /// `store` must outlive it. `name` names the counter in the store.
  IdAllocator(const runtime::Runtime& runtime, KeyValueStore& store, std::string name);

  /// Reserves the first range. No id may be taken before.
  asio::awaitable<Status> start();
  asio::awaitable<void> stop();

  /// kUnavailable when a whole range was used up before the next one was durable.
  Result<uint64_t> take();

  /// Ids that this process has reserved: [first, limit). Those below next() were given out.
  uint64_t first() const { return first_; }
  uint64_t next() const { return next_; }
  uint64_t limit() const { return limit_; }
  /// The limit that the process before this one had reserved; 0: there was none.
  uint64_t former_limit() const { return former_limit_; }

 private:
  asio::awaitable<void> reserve_in_background();
  asio::awaitable<Status> reserve();

  KeyValueStore& store_;
  std::string name_;
  runtime::Random& random_;
  uint64_t former_limit_ = 0;
  uint64_t first_ = 0;
  uint64_t next_ = 0;
  uint64_t limit_ = 0;  ///< ids below this are durably reserved
  bool reserving_ = false;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::metaserver
