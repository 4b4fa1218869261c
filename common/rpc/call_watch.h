/// Who hears when requests begin and end, so that a recording can begin with one that takes long (tracing/agent).
#pragma once

#include <atomic>
#include <cstdint>

#include "common/rpc/method.h"

namespace kintsugi::rpc {

/// Any thread may call; no call waits for anything.
class CallWatch {
 public:
  virtual ~CallWatch() = default;
  /// A request of this method is served from now on. Returns its number for ended(); 0: it is not watched.
  virtual uint64_t began(Method method) = 0;
  virtual void ended(uint64_t number) = 0;
};

inline std::atomic<CallWatch*> the_call_watch{nullptr};

/// REQUIRES: it lives as long as the process, or is null: then nobody hears, and every request costs a relaxed load.
inline void set_call_watch(CallWatch* watch) {
  the_call_watch.store(watch, std::memory_order_release);
}

/// While one lives its request is served.
class WatchedCall {
 public:
  explicit WatchedCall(Method method) {
    if (the_call_watch.load(std::memory_order_relaxed) == nullptr) return;
    watch_ = the_call_watch.load(std::memory_order_acquire);
    if (watch_ != nullptr) number_ = watch_->began(method);
  }
  ~WatchedCall() {
    if (number_ != 0) watch_->ended(number_);
  }
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

 private:
  CallWatch* watch_ = nullptr;
  uint64_t number_ = 0;
};

}  // namespace kintsugi::rpc
