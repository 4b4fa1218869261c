/// What came of the latest calls to peers that were made only to see whether they hear.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "common/proto/sight.pb.h"

namespace kintsugi::sight {

/// Thread-safe: the event loop notes them, the observer tells them. A report has the last kKept, so that one that is
/// lost takes nothing with it.
class PeerChecks {
 public:
  static constexpr size_t kKept = 8;  ///< checks that are kept, of about 40 s

  void note(std::string peer, proto::SightCheck::Outcome outcome) {
    proto::SightCheck check;
    check.set_peer(std::move(peer));
    check.set_outcome(outcome);
    const std::lock_guard lock(mutex_);
    check.set_number(++last_);
    latest_.push_back(std::move(check));
    if (latest_.size() > kKept) latest_.pop_front();
  }
  std::deque<proto::SightCheck> latest() const {
    const std::lock_guard lock(mutex_);
    return latest_;
  }

 private:
  mutable std::mutex mutex_;
  uint64_t last_ = 0;  ///< number of the latest check
  std::deque<proto::SightCheck> latest_;
};

}  // namespace kintsugi::sight
