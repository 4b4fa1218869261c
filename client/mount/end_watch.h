/// Sees to it that a mount which is going to end does end, although servers are away.
#pragma once

#include <string>

#include "client/lib/client.h"
#include "common/runtime/clock.h"
#include "common/runtime/runtime.h"

namespace kintsugi::mount {

/// While it watches, something has to be written out within kPatience, again and again; else it says in the log what is lost, and
/// cancels all that the client does, so that everything which waits for servers fails soon. A process that does not end then
/// within kLastPatience is killed by SIGALRM.
class EndWatch {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(20);
  static constexpr Duration kLastPatience = std::chrono::seconds(15);

  /// All outlive it. `what` is what ends, for the log.
  EndWatch(runtime::Clock& clock, client::Client& client, client::OpenFiles& files, std::string what);
  ~EndWatch() { stop(); }
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  void start();
  void stop();
  bool gave_up() const { return gave_up_; }

 private:
  struct Progress {
    uint64_t dirty_bytes = 0, flushes = 0, stripes = 0;
    bool names = false;
    bool operator==(const Progress&) const = default;
  };
  Progress now() const;
  void look();
  void give_up(const Progress& left);

  runtime::Clock& clock_;
  client::Client& client_;
  client::OpenFiles& files_;
  const std::string what_;
  Progress last_;
  TimePoint since_;
  runtime::TimerId timer_ = runtime::TimerId::kNone;
  bool gave_up_ = false;
};

}  // namespace kintsugi::mount
