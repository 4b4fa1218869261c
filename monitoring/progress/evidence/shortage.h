/// Tells whether a lack of processor explains what a process did late. Most of its machine may lack it, or the process
/// alone, in a control group that has too little. A kernel sends again what nobody takes, threads wake up late, and
/// steps take longer: while there is a shortage, none of that is a fault of its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "monitoring/progress/evidence/processor_shares.h"

namespace kintsugi::progress {

enum class Shortage : uint8_t {
  kNone,
  kOfProcess,  ///< it suffers, and most of its machine does not
  kOfMachine,  ///< half of the machine's other processes suffer: whoever waits for one of them is late, too
};

/// Who lacked a processor in a stretch of time. Nothing is remembered from one to the next: the shares say it.
class Shortages {
 public:
  /// From about `from` until the newest reports. Processes that do not tell how long they wait lack nothing.
  Shortages(const ProcessorShares& shares, TimePoint from);

  Shortage explains(uint64_t process) const;

 private:
  struct Machine {
    size_t processes = 0, suffering = 0;
  };
  const ProcessorShares& shares_;
  std::map<std::string, Machine> machines_;
  std::map<uint64_t, bool> suffers_;  ///< key: process that tells how long it waits
};

}  // namespace kintsugi::progress
