/// Ids for inodes that this session makes by itself.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "client/lib/leases/unsent_names.h"
#include "client/lib/resources.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// The metaserver reserves ranges for the session durably, and remembers the last few of them. The next one is asked for
/// in the background when half of one is left. A call without an answer may have reserved one, too: after that no id is
/// used any more, and before more are asked for the metaserver hears of all inodes that were made with them.
class ReservedIds {
 public:
  static constexpr uint32_t kAtOnce = 4000;

  /// References outlive it.
  ReservedIds(Resources& resources, uint64_t session, UnsentNames& unsent, runtime::TaskGroup& tasks)
      : resources_(resources), session_(session), unsent_(unsent), tasks_(tasks) {}

  /// Takes an id. None: the metaserver has to make the inode.
  std::optional<uint64_t> take();
  /// Asks for ids, as some are wanted soon.
  void prepare();
  /// Drops all ids: the leases were lost, and the ids may be lost with them.
  void lost() { ranges_.clear(); }

 private:
  void want();
  asio::awaitable<void> reserve();

  Resources& resources_;
  const uint64_t session_;
  UnsentNames& unsent_;
  runtime::TaskGroup& tasks_;
  std::deque<std::pair<uint64_t, uint64_t>> ranges_;  ///< each from an id on, so many
  bool reserving_ = false;
  bool unanswered_ = false;  ///< whether the last call had no answer
};

}  // namespace kintsugi::client
