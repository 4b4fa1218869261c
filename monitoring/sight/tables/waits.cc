#include "monitoring/sight/tables/waits.h"

#include "common/base/assert.h"

namespace kintsugi::sight {

WaitTable::WaitTable(uint32_t limit) : waits_(limit), index_(limit) {
  KINTSUGI_ASSERT(limit < UINT16_MAX);
}

[[gnu::noinline]] uint16_t WaitTable::create(uint16_t state, uint64_t target) {
  const uint32_t used = used_.load(std::memory_order_relaxed);
  if (used >= waits_.size()) {
    dropped_.increment();
    return 0;
  }
  waits_[used].target = target;
  waits_[used].state = state;
  const auto number = static_cast<uint16_t>(used + 1);
  index_.free_place(hash_of(state, target)) = number;
  used_.store(used + 1, std::memory_order_release);
  return number;
}

std::vector<WaitTotals> WaitTable::read() const {
  const uint32_t used = used_.load(std::memory_order_acquire);
  std::vector<WaitTotals> waits(used);
  for (uint32_t i = 0; i < used; ++i)
    waits[i] = {waits_[i].target, waits_[i].state, get(waits_[i].count), get(waits_[i].ns)};
  return waits;
}

void EndedWaits::add(const LiveRecord& record, int64_t now_ns, Code outcome) {
  EndedWait& ended = waits_[next_++ % waits_.size()];
  const Writing<EndedWait> writing(ended);
  put(ended.outcome, outcome);
  put(ended.ended_ns, now_ns);
  put_words(ended.record, record);
}

std::vector<EndedWait> EndedWaits::read() const {
  std::vector<EndedWait> waits;
  for (size_t i = 0; i < waits_.size(); ++i) {
    EndedWait wait{};
    if (copy_whole(waits_[i], wait) && wait.ended_ns != 0) waits.push_back(wait);
  }
  return waits;
}

}  // namespace kintsugi::sight
