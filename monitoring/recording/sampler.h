/// A thread that samples processes at a fixed rate, and keeps what it finds as a trace of metrics.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "monitoring/recording/recording.h"

namespace kintsugi::recording {

struct SamplerState {
  RecordingState recording;
  Duration processor_time{};  ///< processor time of the sampler's thread
};

/// Its thread waits for disks and for other processes; whoever has a Sampler never waits for them. What fails there by an
/// exception, such as memory or descriptors that are not to be had, is told once, and the thread begins anew after kAgain.
/// May be used from any thread.
class Sampler {
 public:
  /// stop() waits for a disk that hangs no longer than this, and leaves the thread to itself then.
  static constexpr Duration kStopLimit = std::chrono::seconds(2);
  static constexpr Duration kAgain = std::chrono::seconds(5);

  explicit Sampler(RecordingOptions options);
  ~Sampler();  ///< stops it
  Sampler(const Sampler&) = delete;

  /// kUnavailable: there is no thread to be had.
  Status start();
  void set_targets(std::vector<Target> targets);
  SamplerState state() const;
  /// Idempotent.
  void stop();

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace kintsugi::recording
