/// One thread for the system calls that io_uring has not: they may take as long as a disk likes, and the event loop
/// continues.
#pragma once

#include <functional>
#include <memory>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::runtime {

/// Calls run one after the other. Belongs to the thread of `io`; its own one begins with the first call. A call that
/// never returns keeps its thread for ever, and nobody waits for that: what a call uses it owns.
class BlockingThread {
 public:
  explicit BlockingThread(asio::io_context& io);
  ~BlockingThread();
  BlockingThread(const BlockingThread&) = delete;

  /// Returns what `call` returned: a result, or -errno. REQUIRES: `call` refers to nothing that the caller owns.
  asio::awaitable<int> run(std::function<int()> call);
  /// Forgets who asked, and what has not begun. Later calls return -ECANCELED.
  void shut_down();

 private:
  struct Shared;
  static void serve(std::shared_ptr<Shared> shared);

  std::shared_ptr<Shared> shared_;
  bool started_ = false;
};

}  // namespace kintsugi::runtime
