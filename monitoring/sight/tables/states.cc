#include "monitoring/sight/tables/states.h"

#include "common/base/assert.h"

namespace kintsugi::sight {

StateTable::StateTable(uint32_t limit)
    : states_(limit), index_(limit), last_waits_(limit), last_children_(limit), last_backs_(limit) {
  KINTSUGI_ASSERT(limit <= UINT16_MAX);
}

[[gnu::noinline]] uint16_t StateTable::create(const StateRecord& record) {
  const uint32_t state = used_.load(std::memory_order_relaxed);
  if (state >= states_.size()) {
    dropped_.increment();
    return 0;
  }
  states_[state] = record;
  index_.free_place(record.key >> 20) = static_cast<uint16_t>(state);
  used_.store(state + 1, std::memory_order_release);
  return static_cast<uint16_t>(state);
}

[[gnu::noinline]] uint16_t StateTable::find_wait(const LiveRecord& under, WaitKind wait) {
  const uint16_t state = of(under.role_path, states_[under.state].last_child, wait, under.role);
  if (under.state != 0) last_waits_[under.state] = {state, wait};
  return state;
}

[[gnu::noinline]] StateTable::Child StateTable::find_child(const LiveRecord& under, const Site& site,
                                                           WaitKind wait) {
  const uint64_t role_path = runtime::child_path(under.role_path, site);
  return {&site, role_path, under.role_path, of(role_path, nullptr, wait, under.role), wait};
}

[[gnu::noinline]] uint16_t StateTable::find_back(const LiveRecord& under, const Site& site, uint16_t state) {
  const uint16_t back = of(under.role_path, &site, under.wait, under.role);
  if (state != 0) last_backs_[state] = {under.role_path, back, under.wait};
  return back;
}

std::vector<StateRecord> StateTable::read(uint32_t from) const {
  std::vector<StateRecord> states;
  const uint32_t used = used_.load(std::memory_order_acquire);
  // A published state never changes.
  for (uint32_t state = from; state < used; ++state)
    states.push_back(states_[state]);
  return states;
}

}  // namespace kintsugi::sight
