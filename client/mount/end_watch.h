/// Sees to it that a mount which is going to end does end, although servers are away.
#pragma once

#include <string>

#include "client/lib/client.h"
#include "common/runtime/clock.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::mount {

/// While it watches, something has to be written out again and again: within kPatience when the metaserver does not
/// answer, and within kLongPatience when it does, since then servers are slow or are coming back. Else it says in the
/// log what is lost, and cancels all that the client does, so that everything which waits for servers fails soon. A
/// process that does not end then within kLastPatience is killed by SIGALRM.
class EndWatch {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(20);
  static constexpr Duration kLongPatience = std::chrono::minutes(5);
  static constexpr Duration kLastPatience = std::chrono::seconds(15);

  /// All outlive it. `what` is what ends, for the log.
  EndWatch(const runtime::Runtime& runtime, client::Client& client, client::OpenFiles& files,
           std::string what);
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  void start();
  void pause() { watching_ = false; }
  /// REQUIRED before it is destroyed.
  asio::awaitable<void> stop();

 private:
  struct Progress {
    uint64_t dirty_bytes = 0, flushes = 0, stripes = 0;
    bool names = false;
    bool operator==(const Progress&) const = default;
  };
  Progress now() const;
  asio::awaitable<void> watch();
  asio::awaitable<bool> metaserver_answers();
  void give_up(const Progress& left, Duration waited);

  runtime::Clock& clock_;
  client::Client& client_;
  client::OpenFiles& files_;
  const std::string what_;
  Progress last_;
  TimePoint since_;
  bool watching_ = false, running_ = false;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::mount
