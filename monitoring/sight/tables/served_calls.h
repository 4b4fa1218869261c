/// The calls of other processes that were handled to their end last: whether a caller that waits in vain was ever served
/// is what tells an answer that was lost from a request that was.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "monitoring/sight/tables/records.h"

namespace kintsugi::sight {

struct ServedCall {
  uint32_t sequence;  ///< odd while the entry is being written
  Code outcome;
  uint64_t call;  ///< span of the caller's call; 0: none yet
  const Site* site;
  int64_t ended_ns;
};
static_assert(std::is_trivially_copyable_v<ServedCall> && sizeof(ServedCall) == 32);

/// The newest `limit` of them. One thread writes; any may read.
class ServedCalls {
 public:
  explicit ServedCalls(uint32_t limit) : calls_(limit) {}

  /// For the writer.
  [[gnu::always_inline]] void add(uint64_t call, const Site& site, Code outcome, int64_t now_ns) {
    ServedCall& served = calls_[next_];
    next_ = next_ + 1 == calls_.size() ? 0 : next_ + 1;
    const Writing<ServedCall> writing(served);
    put(served.outcome, outcome);
    put(served.call, call);
    put(served.site, &site);
    put(served.ended_ns, now_ns);
  }
  /// Those of `wanted` that are among them. Looks at all, so it is for few questions a second.
  std::vector<ServedCall> find(std::span<const uint64_t> wanted) const;

 private:
  ZeroedArray<ServedCall> calls_;
  uint32_t next_ = 0;
};

}  // namespace kintsugi::sight
