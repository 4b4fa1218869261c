#include "client/mount/open_handles.h"

namespace kintsugi::mount {

OpenHandles::OpenHandles(const runtime::Runtime& runtime, client::OpenFiles& files, Limits limits)
    : files_(files),
      limits_(limits),
      cookie_budget_(limits.listing_positions),
      // A handle of the process before this one must not be mistaken for one of this.
      next_handle_(runtime.random.next() << 24 | 1) {}

Handle OpenHandles::keep(std::unique_ptr<client::OpenHandle> handle) {
  const Handle number = next_handle_++;
  auto file = std::make_shared<OpenedFile>();
  file->handle = std::move(handle);
  files_open_[number] = std::move(file);
  return number;
}

asio::awaitable<Result<OpenHandles::OpenedPtr>> OpenHandles::opened(const Caller& caller, NodeId node,
                                                                    Handle handle) {
  if (const auto found = files_open_.find(handle); found != files_open_.end()) co_return found->second;
  auto again = co_await files_.open(caller.context, node, true);
  if (!again) co_return again.error();
  // Several requests may have come for it meanwhile.
  if (const auto found = files_open_.find(handle); found != files_open_.end()) {
    (void)co_await (*again)->close(caller.context);
    co_return found->second;
  }
  auto file = std::make_shared<OpenedFile>();
  file->handle = std::move(*again);
  file->written = true;  // it is unknown whether the former process wrote through it
  files_open_[handle] = file;
  co_return file;
}

Status OpenHandles::check_room() const {
  if (count() < limits_.handles) return {};
  return {Code::kLimitExceeded, fmt::format("{} files are open, as many as there may be", limits_.handles)};
}

OpenHandles::OpenedPtr OpenHandles::find(Handle handle) const {
  const auto found = files_open_.find(handle);
  return found == files_open_.end() ? nullptr : found->second;
}

OpenHandles::OpenedPtr OpenHandles::take(Handle handle) {
  auto taken = files_open_.extract(handle);
  return taken ? std::move(taken.mapped()) : nullptr;
}

Handle OpenHandles::open_directory() {
  const Handle handle = next_handle_++;
  directories_[handle] = std::make_shared<DirectoryCookies>(cookie_budget_);
  return handle;
}

std::shared_ptr<DirectoryCookies> OpenHandles::directory(Handle handle) {
  auto& kept = directories_[handle];
  if (!kept) kept = std::make_shared<DirectoryCookies>(cookie_budget_);
  return kept;
}

asio::awaitable<void> OpenHandles::close_all(Context context) {
  auto handles = std::exchange(files_open_, {});
  for (auto& [handle, file] : handles)
    (void)co_await file->handle->close(context);
}

}  // namespace kintsugi::mount
