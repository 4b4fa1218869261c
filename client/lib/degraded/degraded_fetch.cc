#include "client/lib/degraded/degraded_fetch.h"

namespace kintsugi::client {

DegradedFetch::DegradedFetch(Resources& resources, Context context, LostRange range, TreeWishes wishes,
                             std::vector<std::span<std::byte>> into, runtime::Event& changed)
    : changed_(&changed),
      started_(resources.now()),
      sink_(std::move(into)),
      read_(resources, context, std::move(range), std::move(wishes), sink_) {}

asio::awaitable<void> DegradedFetch::run(std::shared_ptr<DegradedFetch> self) {
  self->status_ = co_await self->read_.run();
  if (self->changed_ != nullptr) self->changed_->notify_all();
}

void DegradedFetch::cancel() {
  changed_ = nullptr;
  read_.cancel();
}

}  // namespace kintsugi::client
