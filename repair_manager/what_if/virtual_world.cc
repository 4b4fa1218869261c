#include "repair_manager/what_if/virtual_world.h"

#include <exception>

#include <boost/asio/co_spawn.hpp>

#include "common/base/assert.h"

namespace kintsugi::what_if {
namespace {

Status nothing_here() {
  return {Code::kUnavailable, "there is nothing but time in a virtual world"};
}

class NoNetwork final : public runtime::Network {
 public:
  asio::awaitable<Result<std::unique_ptr<runtime::Connection>>> dial(runtime::Endpoint, TimePoint,
                                                                     runtime::TaskGroup*) override {
    co_return nothing_here();
  }
  Result<std::unique_ptr<runtime::Listener>> listen(runtime::Endpoint) override { return nothing_here(); }
};

class NoDisk final : public runtime::Disk {
 public:
  using Text = std::string;
  asio::awaitable<Result<std::unique_ptr<runtime::File>>> open(Text, runtime::OpenMode) override {
    co_return nothing_here();
  }
  asio::awaitable<Status> rename(Text, Text) override { co_return nothing_here(); }
  asio::awaitable<Status> remove(Text) override { co_return nothing_here(); }
  asio::awaitable<Status> make_directory(Text) override { co_return nothing_here(); }
  asio::awaitable<Status> sync_directory(Text) override { co_return nothing_here(); }
  asio::awaitable<Result<std::vector<Text>>> list(Text) override { co_return nothing_here(); }
  asio::awaitable<Result<runtime::DiskSpace>> space(Text) override { co_return nothing_here(); }
  asio::awaitable<Result<runtime::FileAttributes>> attributes(Text) override { co_return nothing_here(); }
  asio::awaitable<Result<std::unique_ptr<runtime::FileLock>>> lock(Text) override {
    co_return nothing_here();
  }
};

}  // namespace

runtime::TimerId VirtualClock::call_at(TimePoint due, std::function<void()> callback) {
  const uint64_t id = ++last_;
  timers_.emplace(std::pair(due, id), std::move(callback));
  due_.emplace(id, due);
  return runtime::TimerId{id};
}

bool VirtualClock::cancel(runtime::TimerId timer) {
  const auto known = due_.find(static_cast<uint64_t>(timer));
  if (known == due_.end()) return false;
  timers_.erase({known->second, known->first});
  due_.erase(known);
  return true;
}

bool VirtualClock::fire_next(TimePoint until) {
  // A timer of TimePoint::max() never runs.
  if (timers_.empty() || timers_.begin()->first.first > until ||
      timers_.begin()->first.first == TimePoint::max())
    return false;
  const auto timer = timers_.extract(timers_.begin());
  due_.erase(timer.key().second);
  now_ = std::max(now_, timer.key().first);
  timer.mapped()();
  return true;
}

void SeededRandom::fill(std::span<std::byte> out) {
  for (std::byte& byte : out)
    byte = static_cast<std::byte>(next());
}

VirtualWorld::VirtualWorld(uint64_t seed)
    : random_(seed), network_(std::make_unique<NoNetwork>()), disk_(std::make_unique<NoDisk>()) {}

VirtualWorld::~VirtualWorld() = default;

runtime::Runtime VirtualWorld::runtime() {
  return {io_.get_executor(), clock_, *network_, *disk_, random_};
}

void VirtualWorld::drain() {
  io_.restart();
  io_.poll();
}

bool VirtualWorld::run_until(const std::function<bool()>& condition, Duration limit) {
  const TimePoint end = now() + limit;
  drain();
  while (!condition()) {
    if (!clock_.fire_next(end)) return false;
    drain();
  }
  return true;
}

void VirtualWorld::run(asio::awaitable<void> task) {
  bool done = false;
  std::exception_ptr thrown;
  asio::co_spawn(executor(), std::move(task), [&](std::exception_ptr error) {
    done = true;
    thrown = error;
  });
  const bool ended = run_until([&] { return done; }, Duration::max() - now().time_since_epoch());
  KINTSUGI_ASSERT(ended && "the task waits for what never comes");
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace kintsugi::what_if
