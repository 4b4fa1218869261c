#include "chunkserver/store/disk/root_guard.h"

namespace kintsugi::chunkserver {

asio::awaitable<Status> RootGuard::lock(runtime::TaskGroup& tasks, const runtime::Clock& clock) {
  // The directory of a disk that is not there must not be made: it would be one of another file system.
  KINTSUGI_CO_TRY(disk_.check_answers());
  const TimePoint give_up = clock.now() + kPatience;
  KINTSUGI_CO_TRY(co_await disk_.disk().make_directory(disk_.root()));
  while (true) {
    auto lock = co_await disk_.disk().lock(lock_path());
    if (lock) {
      lock_ = std::move(*lock);
      co_return Status{};
    }
    if (lock.error().code() != Code::kConflict) co_return lock.error();
    const bool waited = clock.now() < give_up && co_await tasks.sleep_for(kTryEvery);
    if (!waited) {
      co_return Status{Code::kConflict,
                       fmt::format("disk directory {} is in use by another process", disk_.root())};
    }
  }
}

asio::awaitable<void> RootGuard::watch(runtime::TaskGroup& tasks) {
  Status remembered = co_await remember();
  if (!remembered.ok()) disk_.fail(remembered);
  while (!disk_.failed() && co_await tasks.sleep_for(kCheckEvery))
    co_await check();
}

asio::awaitable<Status> RootGuard::remember() {
  // The lock file stands for the root: it is open, so that no other file can get its identity. Quarantine is missing
  // here because people look after it.
  const std::vector<std::string> paths{lock_path(), disk_.temporary_directory(), disk_.chunks_directory(),
                                       disk_.segments_directory()};
  for (const std::string& path : paths) {
    auto attributes = co_await disk_.disk().attributes(path);
    if (!attributes) co_return disk_.note(attributes.error());
    known_.emplace_back(path, attributes->identity);
  }
  co_return Status{};
}

asio::awaitable<void> RootGuard::check() {
  for (const auto& [path, identity] : known_) {
    auto attributes = co_await disk_.disk().attributes(path);
    if (!attributes) {
      const Code code = disk_.note(attributes.error()).code();
      const bool gone = code == Code::kNotFound || code == Code::kNotDirectory;
      if (gone) disk_.fail({Code::kNotFound, path + " was removed"});
    } else if (attributes->identity != identity) {
      disk_.fail({Code::kConflict, path + " was replaced"});
    }
    if (disk_.failed()) co_return;
  }
}

}  // namespace kintsugi::chunkserver
