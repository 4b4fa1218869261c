#include "monitoring/sight/tables/edges.h"

#include "common/base/assert.h"
#include "common/base/hash.h"

namespace kintsugi::sight {

EdgeTable::EdgeTable(uint32_t limit, uint32_t states) : edges_(limit), index_(limit), next_(states) {
  KINTSUGI_ASSERT(limit < UINT16_MAX);
}

[[gnu::noinline]] uint16_t EdgeTable::find(uint16_t from, uint16_t to) {
  const uint64_t hash = ((uint64_t{from} << 16 | to) * kGoldenRatio) >> 40;
  uint16_t& number = index_.place_of(
      hash, [&](uint16_t each) { return edges_[each - 1].from == from && edges_[each - 1].to == to; });
  if (number == 0) {
    const uint32_t used = used_.load(std::memory_order_relaxed);
    if (used >= edges_.size()) {
      dropped_.increment();
      return 0;
    }
    edges_[used].from = from;
    edges_[used].to = to;
    number = static_cast<uint16_t>(used + 1);
    used_.store(used + 1, std::memory_order_release);
  }
  next_[from] = {to, number};
  return number;
}

std::vector<EdgeTotals> EdgeTable::read() const {
  const uint32_t used = used_.load(std::memory_order_acquire);
  std::vector<EdgeTotals> edges(used);
  for (uint32_t i = 0; i < used; ++i) {
    const EdgeTotals& edge = edges_[i];
    edges[i] = {edge.from, edge.to, 0, get(edge.count), get(edge.sum_q8), get(edge.sum_sq_q16), {}};
    for (size_t bucket = 0; bucket < 32; ++bucket)
      edges[i].histogram[bucket] = get(edge.histogram[bucket]);
  }
  return edges;
}

}  // namespace kintsugi::sight
