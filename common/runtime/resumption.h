/// A suspended coroutine, as a value: whoever wakes it later keeps this and calls it once.
#pragma once

#include <memory>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::runtime {

/// Move-only. Resume it on the coroutine's executor, never inside the call that suspended. To drop it destroys the
/// coroutine. (Asio 1.81's any_completion_handler would do, but its move assignment recurses without end.)
template <class T>
class Resumption {
 public:
  Resumption() = default;
  template <class Handler>
  explicit Resumption(Handler handler) : impl_(std::make_unique<Impl<Handler>>(std::move(handler))) {}

  void resume(T value) { std::exchange(impl_, nullptr)->resume(std::move(value)); }
  explicit operator bool() const { return impl_ != nullptr; }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual void resume(T value) = 0;
  };
  template <class Handler>
  struct Impl final : Base {
    explicit Impl(Handler handler) : handler(std::move(handler)) {}
    void resume(T value) override { std::move(handler)(std::move(value)); }
    Handler handler;
  };
  std::unique_ptr<Base> impl_;
};

/// Suspends the calling coroutine and gives its Resumption to `keep`; the co_await yields what it is resumed with.
template <class T, class Keep>
asio::awaitable<T> suspend(Keep keep) {
  return asio::async_initiate<const asio::use_awaitable_t<>&, void(T)>(
      [keep = std::move(keep)](auto handler) mutable { keep(Resumption<T>(std::move(handler))); },
      asio::use_awaitable);
}

}  // namespace kintsugi::runtime
