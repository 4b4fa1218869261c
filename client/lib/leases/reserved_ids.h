/// Ids for inodes that this session makes by itself.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "client/lib/leases/repeated_calls.h"
#include "client/lib/resources.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// The metaserver reserves ranges for the session durably. The next one is asked for in the background when half of
/// one is left.
class ReservedIds {
 public:
  static constexpr uint32_t kAtOnce = 4000;

  ReservedIds(Resources& resources, uint64_t session, RepeatedCalls& calls, runtime::TaskGroup& tasks)
      : resources_(resources), session_(session), calls_(calls), tasks_(tasks) {}

  /// None: the metaserver has to make the inode.
  std::optional<uint64_t> take();
  /// Some are wanted soon.
  void prepare();
  /// The leases were lost, and the ids may be lost with them.
  void lost() { ranges_.clear(); }

 private:
  asio::awaitable<void> reserve();

  Resources& resources_;
  const uint64_t session_;
  RepeatedCalls& calls_;
  runtime::TaskGroup& tasks_;
  std::deque<std::pair<uint64_t, uint64_t>> ranges_;  ///< each from an id on, so many
  bool reserving_ = false;
};

}  // namespace kintsugi::client
