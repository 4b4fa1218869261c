/// The repair trees that a server takes part in now, and the memory that they may need.
#pragma once

#include <list>

#include "common/base/status.h"
#include "partial_sum/sum_receiver.h"

namespace kintsugi::chunkserver {

/// Outlives every tree.
class RunningTrees {
 public:
  /// The repair manager keeps to a few dozen trees at a server; the rest is for degraded reads.
  static constexpr size_t kMaxTrees = 256;

  /// The windows of all trees together may need so much memory, if all of them were full.
  explicit RunningTrees(uint64_t most_window_bytes) : most_window_bytes_(most_window_bytes) {}

  /// A tree's place among those that run, which it has until this is destroyed.
  class Admission {
   public:
    Admission(RunningTrees& trees, partial_sum::SumReceiver& receiver);
    ~Admission();
    Admission(const Admission&) = delete;

   private:
    RunningTrees& trees_;
    const uint64_t window_bytes_;
    const std::list<partial_sum::SumReceiver*>::iterator registered_;
  };

  /// Registers the receiver, so that stop() reaches it, and charges what its window may take. kLimitExceeded:
  /// kMaxTrees, or too little memory is left beside the trees that run; kCancelled: the server is stopping. The
  /// receiver outlives the admission.
  Result<std::unique_ptr<Admission>> admit(partial_sum::SumReceiver& receiver);

  /// Makes all trees that run end soon with kCancelled, and refuses those that begin later.
  void stop();

 private:
  const uint64_t most_window_bytes_;
  std::list<partial_sum::SumReceiver*> running_;  ///< oldest first
  uint64_t window_bytes_ = 0;                     ///< sum of the window memory of the admitted trees
  bool stopping_ = false;
};

}  // namespace kintsugi::chunkserver
