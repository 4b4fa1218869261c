/// The orderly end of a command that is interrupted.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace kintsugi::cli {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP calls `cancel` (on a thread of its own) instead of ending the
/// process, so that the command can give up what it began. Then the process ends by that very signal, as a shell
/// expects it: when the command calls end_if_requested(), or when kPatience has passed, or at the next signal,
/// whichever comes first.
///
/// A signal that the process ignored before, as under nohup, stays ignored. REQUIRES: there is one at a time.
class Interruption {
 public:
  explicit Interruption(std::function<void()> cancel);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  bool requested() const;
  /// A descriptor that becomes readable when the signal comes, and stays so: for who waits for a pipe.
  int descriptor() const;
  /// Ends the process if the signal came.
  void end_if_requested() const;

 private:
  void watch();

  const std::function<void()> cancel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;  ///< the command has ended
  std::thread watcher_;
};

}  // namespace kintsugi::cli
