#include "client/lib/read/window_pipeline.h"

#include "common/runtime/span.h"

namespace kintsugi::client {

asio::awaitable<Status> WindowPipeline::run(Context context, WindowUser& user) {
  context_ = context;
  const Status status = co_await read_all(user);
  // Windows that nobody will take are waited for: each is bounded by its own deadlines.
  const runtime::Wait wait(context_, runtime::WaitKind::kJoin);
  co_await tasks_.join();
  in_flight_.clear();
  co_return status;
}

asio::awaitable<Status> WindowPipeline::read_all(WindowUser& user) {
  while (true) {
    KINTSUGI_CO_TRY(co_await start_ahead(user));
    if (in_flight_.empty()) co_return Status{};
    WindowInFlight& front = *in_flight_.front();
    while (!front.result) {
      const runtime::Wait wait(context_, runtime::WaitKind::kJoin, 0, 0, 1);
      co_await changed_.wait();
    }
    runtime::advance(context_, 1);
    KINTSUGI_CO_TRY(co_await user.take(front));
    in_flight_.pop_front();
  }
}

asio::awaitable<Status> WindowPipeline::start_ahead(WindowUser& user) {
  while (in_flight_.size() < max_in_flight_) {
    if (!planned_) KINTSUGI_CO_TRY(co_await user.plan_next(planned_));
    if (!planned_) break;  // that was the last one
    KINTSUGI_CO_TRY(co_await start_planned());
    if (planned_) break;  // memory has to come back first
  }
  co_return Status{};
}

asio::awaitable<Status> WindowPipeline::start_planned() {
  const size_t buffers = WindowReader::buffers_needed(planned_->window);
  Lease lease = resources_.memory.try_reserve(buffers);
  if (lease.count() == 0) {
    if (!in_flight_.empty()) co_return Status{};
    const runtime::Wait wait(context_, runtime::WaitKind::kResource,
                             runtime::named_target(context_, "memory"));
    KINTSUGI_CO_ASSIGN(lease, co_await resources_.memory.reserve(buffers, resources_.now() + kMemoryLimit));
  }
  auto started = std::make_unique<WindowInFlight>();
  started->offset = planned_->offset;
  started->window = planned_->window;
  started->reader = std::make_unique<WindowReader>(resources_, context_, std::move(planned_->window),
                                                   std::move(lease), trees_);
  planned_.reset();
  tasks_.spawn(read(started.get()));
  in_flight_.push_back(std::move(started));
  co_return Status{};
}

asio::awaitable<void> WindowPipeline::read(WindowInFlight* window) {
  window->result = co_await window->reader->run();
  changed_.notify_all();
}

asio::awaitable<void> WindowPipeline::read_again(WindowInFlight& window, StripeWindow located) {
  Lease lease = window.reader->take_lease();
  window.window = located;
  window.reader =
      std::make_unique<WindowReader>(resources_, context_, std::move(located), std::move(lease), trees_);
  const runtime::Wait wait(context_, runtime::WaitKind::kJoin);
  window.result = co_await window.reader->run();
}

}  // namespace kintsugi::client
