#include "monitoring/sight/tables/targets.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/assert.h"

namespace kintsugi::sight {

namespace {

/// A reader that sees the field also sees all that was written before it.
uint64_t acquire(const uint64_t& field) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(field)).load(std::memory_order_acquire);
}
void release(uint64_t& field, uint64_t value) {
  std::atomic_ref<uint64_t>(field).store(value, std::memory_order_release);
}

}  // namespace

TargetTable::TargetTable(uint32_t limit) : targets_(limit) {
  KINTSUGI_ASSERT(std::has_single_bit(limit));
}

TargetTotals* TargetTable::find(uint64_t id) {
  // Entries lie where their id says, or behind; those of one process are far fewer than the places.
  for (size_t steps = 0; steps < targets_.size(); ++steps) {
    TargetTotals& target = targets_[place_of(id, steps)];
    if (target.id == id) return &target;
    if (target.id == 0) return nullptr;
  }
  return nullptr;
}

void TargetTable::name(uint64_t id, std::string_view name, bool device) {
  if (id == 0 || find(id) != nullptr) return;
  // Half of the places stay free, so that a search is short.
  if (used_ >= targets_.size() / 2) return dropped_.increment();
  size_t steps = 0;
  while (targets_[place_of(id, steps)].id != 0)
    ++steps;
  TargetTotals& target = targets_[place_of(id, steps)];
  const size_t bytes = std::min(name.size(), TargetTotals::kNameBytes);
  std::memcpy(target.name, name.data(), bytes);
  target.device = device;
  release(target.id, id);  // a reader that sees the id also sees the name
  ++used_;
}

void TargetTable::complain(uint64_t id, uint16_t method) {
  TargetTotals* const target = find(id);
  if (target == nullptr) return;
  put(target->complained_of, uint64_t{method});
  add(target->complaints, uint64_t{1});
}

void TargetTable::count_submitted(uint64_t id) {
  if (TargetTotals* const target = find(id)) add(target->submitted, uint64_t{1});
}

void TargetTable::count_completed(uint64_t id, int64_t ns) {
  TargetTotals* const target = find(id);
  if (target == nullptr) return;
  add(target->busy_ns, static_cast<uint64_t>(std::max<int64_t>(ns, 0)));
  if (ns >= kStall) add(target->stalls, uint64_t{1});
  release(target->completed, target->completed + 1);
}

void TargetTable::count_unanswered(uint64_t id) {
  if (TargetTotals* const target = find(id)) release(target->unanswered, target->unanswered + 1);
}

void TargetTable::count_bytes(uint64_t id, uint64_t in, uint64_t out) {
  TargetTotals* const target = find(id);
  if (target == nullptr) return;
  add(target->bytes_in, in);
  add(target->bytes_out, out);
}

std::vector<TargetTotals> TargetTable::read() const {
  std::vector<TargetTotals> targets;
  for (size_t i = 0; i < targets_.size(); ++i) {
    const TargetTotals& target = targets_[i];
    if (acquire(target.id) == 0) continue;
    TargetTotals copy{};
    copy.id = target.id;
    std::memcpy(copy.name, target.name, sizeof(copy.name));
    copy.device = target.device;
    // The other way round than they are written: what is part of another is never more.
    copy.unanswered = acquire(target.unanswered);
    copy.completed = acquire(target.completed);
    copy.submitted = get(target.submitted);
    copy.busy_ns = get(target.busy_ns);
    copy.bytes_in = get(target.bytes_in);
    copy.bytes_out = get(target.bytes_out);
    copy.complaints = get(target.complaints);
    copy.complained_of = get(target.complained_of);
    copy.stalls = get(target.stalls);
    targets.push_back(copy);
  }
  return targets;
}

std::string TargetTable::name_of(uint64_t id) const {
  if (id == 0) return {};
  for (size_t steps = 0; steps < targets_.size(); ++steps) {
    const TargetTotals& target = targets_[place_of(id, steps)];
    const uint64_t found = acquire(target.id);
    if (found == id) return target.name;
    if (found == 0) break;
  }
  return {};
}

}  // namespace kintsugi::sight
