/// Has the processors of a virtual machine stay awake while applications use a mount.
#pragma once

#include <string>

#include "common/runtime/clock.h"

namespace kintsugi::mount {

/// Waking a virtual processor that has halted goes through the hypervisor, which takes longer than most requests of a
/// mount; each request wakes several. A guest that decides by itself when to halt (cpuidle's governor "haltpoll") can
/// be asked not to: Linux calls it PM QoS, and a process asks through a descriptor of /dev/cpu_dma_latency. What is
/// asked for ends with the descriptor, so also with the process. Without that device, or the right to open it
/// (root's), nothing happens. Single-threaded.
class KeepAwake {
 public:
  /// Processors halt again when no request came for so long.
  static constexpr Duration kAwakeFor = std::chrono::milliseconds(2);

  /// Empty: nothing is ever asked for. `device` is opened here and for as long as the object lives.
  KeepAwake(runtime::Clock& clock, const std::string& device);
  ~KeepAwake();
  KeepAwake(const KeepAwake&) = delete;
  KeepAwake& operator=(const KeepAwake&) = delete;

  /// A request came or was answered just now.
  void touch(TimePoint now) {
    last_ = now;
    if (device_ >= 0 && !asked_) ask();
  }

 private:
  void ask();
  void look();
  bool write_bound(int32_t microseconds);

  runtime::Clock& clock_;
  int device_ = -1;
  TimePoint last_{};
  bool asked_ = false;
  runtime::TimerId next_look_ = runtime::TimerId::kNone;
};

/// The device for KeepAwake on this machine: empty where its processors do not halt by that governor.
std::string device_to_keep_awake();

}  // namespace kintsugi::mount
