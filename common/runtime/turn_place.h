/// Which region of code kept the thread of an event loop longest in one turn of it: whoever keeps the records of open
/// work (trace_recorder.h) notes here what the thread does now.
#pragma once

#include <cstdint>

#include "common/runtime/site.h"

namespace kintsugi::runtime {

class TurnPlace {
 public:
  /// The loop begins to run what has come.
  void begin() { *this = TurnPlace{}; }
  /// From now on `site` runs; null: nothing that has a name.
  void enter(const Site* site, int64_t now_ns) {
    const int64_t taken = now_ns - since_ns_;
    if (taken > longest_ns_) {
      longest_ns_ = taken;
      longest_ = site_;
    }
    since_ns_ = now_ns;
    site_ = site;
  }
  /// The site at which the turn, which ends now, stood longest; null: none had a name.
  const Site* longest(int64_t now_ns) {
    enter(nullptr, now_ns);
    return longest_;
  }

  /// What runs now; null: nothing that has a name.
  const Site* site() const { return site_; }

  /// The place of the calling thread.
  static TurnPlace& here() { return here_; }

 private:
  /// Nothing is touched yet: no time was taken since.
  static constexpr int64_t kNotYet = INT64_MAX;

  int64_t since_ns_ = kNotYet;
  int64_t longest_ns_ = 0;
  const Site* site_ = nullptr;
  const Site* longest_ = nullptr;

  // Libraries are loaded by programs that run already; it is small enough for what those keep free.
  [[gnu::tls_model("initial-exec")]] static thread_local constinit TurnPlace here_;
};

inline thread_local constinit TurnPlace TurnPlace::here_;

}  // namespace kintsugi::runtime
