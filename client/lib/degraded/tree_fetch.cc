#include "client/lib/degraded/tree_fetch.h"

#include <algorithm>
#include <cstring>

namespace kintsugi::client {

asio::awaitable<Status> TreeFetch::Into::write(uint64_t, std::span<const std::span<const std::byte>> from) {
  for (std::span<const std::byte> bytes : from) {
    while (!bytes.empty()) {
      if (at_ == into_.size()) co_return Status{Code::kInternal, "more bytes than the range has"};
      const size_t part = std::min(bytes.size(), into_[at_].size() - filled_);
      std::memcpy(into_[at_].data() + filled_, bytes.data(), part);
      bytes = bytes.subspan(part);
      filled_ += part;
      if (filled_ < into_[at_].size()) continue;
      ++at_;
      filled_ = 0;
    }
  }
  co_return Status{};
}

TreeFetch::TreeFetch(Core& core, Context context, LostRange range, uint64_t window_bytes,
                     std::vector<std::span<std::byte>> into, runtime::Event& changed)
    : changed_(&changed),
      started_(core.now()),
      into_(std::move(into)),
      read_(core, context, std::move(range), TreeWishes{.window_bytes = window_bytes}, into_) {}

asio::awaitable<void> TreeFetch::run(std::shared_ptr<TreeFetch> self) {
  self->status_ = co_await self->read_.run();
  if (self->changed_ != nullptr) self->changed_->notify_all();
}

void TreeFetch::cancel() {
  changed_ = nullptr;
  read_.cancel();
}

}  // namespace kintsugi::client
