/// One step of a start, carried out on all disks side by side.
#pragma once

#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/store_root.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// The part of one disk in a step.
struct DiskStep {
  StoreRoot* root = nullptr;
  asio::awaitable<Status> work;
};

/// The message of a disk that hung when the server started.
inline constexpr std::string_view kJoinsLater = "it hangs, and joins when it answers";

/// Returns what became of each, in their order. A disk that hangs is waited for no longer: it has failed then with
/// kUnavailable and the message `when_hung`, and its work runs on in `tasks` until the disk answers; StoreRoot::steps
/// counts it meanwhile. REQUIRES: the work may be carried out as long as the disk is locked, and ends soon once its
/// disk has failed; what it refers to lives as long as `tasks`.
asio::awaitable<std::vector<Status>> run_side_by_side(const runtime::Runtime& runtime,
                                                      runtime::TaskGroup& tasks, std::string_view when_hung,
                                                      std::vector<DiskStep> steps);

}  // namespace kintsugi::chunkserver
