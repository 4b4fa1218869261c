#include "chunkserver/store/disk_step.h"

#include <algorithm>
#include <memory>
#include <optional>

namespace kintsugi::chunkserver {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);
/// Looks in a row that must find a disk hung: after the loop stood still, answers that are here wait for their turn.
constexpr int kLooks = 2;

/// Shared with the work, which may outlive the wait for it.
struct Progress {
  explicit Progress(const runtime::Runtime& runtime) : ended(runtime) {}

  std::vector<std::optional<Status>> results;
  runtime::Event ended;  ///< notified when some work has ended
};

asio::awaitable<void> carry_out(std::shared_ptr<Progress> progress, size_t position, DiskStep step) {
  Status result = co_await std::move(step.work);
  --step.root->steps;
  if (progress->results[position]) co_return;  // the caller has stopped waiting for it
  progress->results[position] = std::move(result);
  progress->ended.notify_all();
}

}  // namespace

asio::awaitable<std::vector<Status>> run_side_by_side(const runtime::Runtime& runtime,
                                                      runtime::TaskGroup& tasks, std::string_view when_hung,
                                                      std::vector<DiskStep> steps) {
  auto progress = std::make_shared<Progress>(runtime);
  progress->results.resize(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    ++steps[i].root->steps;
    tasks.spawn(carry_out(progress, i, {steps[i].root, std::move(steps[i].work)}));
  }
  std::vector<int> looks(steps.size());
  TimePoint next_look = runtime.clock.now() + kLookEvery;
  while (!std::ranges::all_of(progress->results, [](const auto& result) { return result.has_value(); })) {
    if (co_await progress->ended.wait_until(next_look)) continue;
    next_look = runtime.clock.now() + kLookEvery;
    for (size_t i = 0; i < steps.size(); ++i) {
      DataDisk& disk = steps[i].root->disk;
      looks[i] = disk.answers() ? 0 : looks[i] + 1;
      if (progress->results[i] || looks[i] < kLooks) continue;
      progress->results[i] = Status{Code::kUnavailable, std::string(when_hung)};
      disk.fail(*progress->results[i]);
    }
  }
  std::vector<Status> results;
  for (auto& result : progress->results)
    results.push_back(std::move(*result));
  co_return results;
}

}  // namespace kintsugi::chunkserver
