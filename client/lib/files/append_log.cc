#include "client/lib/files/append_log.h"

#include <algorithm>
#include <vector>

#include "common/base/assert.h"
#include "common/base/sealed_record.h"

namespace kintsugi::client {

struct AppendLog::Slot : SealedRecord<Record> {};

AppendLog::AppendLog(std::span<std::byte> region) : region_(region) {
  if (region_.empty()) return;
  constexpr size_t kSlots = kBytes / sizeof(Slot);
  static_assert(kSlots >= 4 * kAtOnce);
  KINTSUGI_ASSERT(region_.size() == kBytes);
  std::vector<std::pair<uint64_t, uint32_t>> by_age;
  for (uint32_t i = 0; i < kSlots; ++i) {
    const Slot& slot = slots()[i];
    const uint64_t number = slot.whole() ? slot.body.number : 0;
    by_age.emplace_back(number, i);
    if (number == 0) continue;
    // One that was begun again has two notes.
    Record& known = before_[slot.body.request];
    if (known.number < number) known = slot.body;
    last_number_ = std::max(last_number_, number);
  }
  // What was noted last may still be asked for again.
  std::ranges::sort(by_age);
  for (const auto& [number, slot] : by_age)
    free_.push_back(slot);
}

AppendLog::Slot* AppendLog::slots() const {
  return reinterpret_cast<Slot*>(region_.data());
}

std::optional<uint64_t> AppendLog::begun(uint64_t inode, uint64_t request) const {
  const auto found = before_.find(request);
  if (found == before_.end() || found->second.inode != inode) return std::nullopt;
  return found->second.offset;
}

AppendLog::Note::Note(AppendLog& log, uint64_t inode, uint64_t request, uint64_t offset) : log_(log) {
  // More are never under way for a kernel; others repeat nothing.
  if (log_.free_.empty() || request == 0) return;
  slot_ = log_.free_.front();
  log_.free_.pop_front();
  log_.slots()[*slot_].seal({inode, request, offset, ++log_.last_number_});
}

AppendLog::Note::~Note() {
  if (slot_) log_.free_.push_back(*slot_);
}

}  // namespace kintsugi::client
