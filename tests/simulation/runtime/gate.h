/// A place where one coroutine of the simulator waits until something lets it go on.
#pragma once

#include <memory>

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/base/assert.h"
#include "common/runtime/disk.h"

namespace kintsugi::simulation {

/// At most one waiter. `open` posts it and keeps no state: the waiter re-checks its condition in a loop.
/// The gate outlives the wait: the waiting coroutine holds a reference to the object that contains it.
class Gate {
 public:
  asio::awaitable<void> wait() {
    KINTSUGI_ASSERT(!waiter_);
    auto initiate = [this](auto handler) {
      waiter_ = std::make_unique<Holder<decltype(handler)>>(std::move(handler));
    };
    return asio::async_initiate<const asio::use_awaitable_t<>&, void()>(initiate, asio::use_awaitable);
  }

  void open() {
    if (auto waiter = std::move(waiter_)) waiter->resume();
  }

 private:
  struct Waiter {
    virtual ~Waiter() = default;
    virtual void resume() = 0;
  };
  template <class Handler>
  struct Holder final : Waiter {
    explicit Holder(Handler h) : handler(std::move(h)) {}
    void resume() override { asio::post(std::move(handler)); }
    Handler handler;
  };
  std::unique_ptr<Waiter> waiter_;
};

}  // namespace kintsugi::simulation
