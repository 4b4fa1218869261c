#include "client/lib/files/locations.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kintsugi::client {
namespace {

constexpr size_t kBytesOfExtent = 256;  ///< approximate memory for one extent

size_t weight_of(const LocatedExtent& extent) {
  return 1 + (extent.stripe->is_inline() ? extent.stripe->inline_data().size() / kBytesOfExtent : 0);
}

}  // namespace

Locations::Pin::Pin(Locations& of, uint64_t begin, uint64_t end)
    : of_(of), at_(of.pinned_.emplace(begin, end)) {}

uint64_t Locations::known_from(uint64_t offset, TimePoint now) {
  if (!known_.empty() && now - oldest_ > kLifetime) forget_all();
  if (!known_.empty()) note_read();
  const auto after = known_.upper_bound(offset);
  if (after == known_.begin()) return offset;
  return std::max(offset, std::prev(after)->second);
}

std::vector<LocatedExtent> Locations::find(uint64_t begin, uint64_t end) const {
  std::vector<LocatedExtent> found;
  auto at = extents_.upper_bound(begin);
  if (at != extents_.begin() && std::prev(at)->second.end() > begin) --at;
  for (; at != extents_.end() && at->first < end; ++at)
    found.push_back(at->second);
  return found;
}

uint64_t Locations::next_data(uint64_t offset, uint64_t end) const {
  const auto after = extents_.upper_bound(offset);
  if (after != extents_.begin() && std::prev(after)->second.end() > offset) return offset;
  return after == extents_.end() ? end : std::min(end, after->first);
}

uint64_t Locations::next_hole(uint64_t offset, uint64_t end) const {
  auto at = extents_.upper_bound(offset);
  if (at != extents_.begin()) --at;
  for (; at != extents_.end() && at->first <= offset && offset < end; ++at)
    offset = std::max(offset, at->second.end());
  return std::min(offset, end);
}

void Locations::learn(uint64_t begin, uint64_t end, const std::vector<LocatedExtent>& extents,
                      TimePoint now) {
  if (begin >= end) return;
  size_t weight = 0;
  for (const LocatedExtent& extent : extents)
    weight += weight_of(extent);
  make_room(weight);
  drop(begin, end);
  if (known_.empty()) oldest_ = now;
  for (const LocatedExtent& extent : extents) {
    if (extent.end() <= begin || extent.offset >= end) continue;
    const LocatedExtent clipped = extent.clipped(begin, end);
    extents_.insert_or_assign(clipped.offset, clipped);
    budget_.used += weight_of(clipped);
  }
  auto next = known_.lower_bound(begin);
  if (next != known_.begin() && std::prev(next)->second == begin) {
    --next;
    begin = next->first;
    next = known_.erase(next);
  }
  if (next != known_.end() && next->first == end) {
    end = next->second;
    known_.erase(next);
  }
  known_[begin] = end;
  note_read();
}

void Locations::note_read() {
  if (!in_budget_) in_budget_ = budget_.known.insert(budget_.known.end(), this);
  budget_.known.splice(budget_.known.end(), budget_.known, *in_budget_);
}

void Locations::make_room(size_t weight) {
  if (in_budget_) note_read();
  for (auto at = budget_.known.begin(); at != budget_.known.end() && budget_.used + weight > budget_.limit;) {
    Locations& file = **at++;  // it may leave the list
    file.drop_unpinned();
  }
}

void Locations::drop_unpinned() {
  uint64_t from = 0;
  for (const auto& [begin, end] : pinned_) {
    if (begin > from) drop(from, begin);
    from = std::max(from, end);
  }
  drop(from, UINT64_MAX);
}

void Locations::drop(uint64_t begin, uint64_t end) {
  // Extents that reach out of the range keep their other parts.
  auto at = extents_.upper_bound(begin);
  if (at != extents_.begin() && std::prev(at)->second.end() > begin) --at;
  while (at != extents_.end() && at->first < end) {
    const LocatedExtent extent = at->second;
    at = extents_.erase(at);
    budget_.used -= weight_of(extent);
    for (const auto& [from, to] : {std::pair(extent.offset, begin), std::pair(end, extent.end())}) {
      if (from >= to) continue;
      extents_.emplace(from, extent.clipped(from, to));
      budget_.used += weight_of(extent);
    }
    at = extents_.lower_bound(std::min(end, extent.end()));
    if (extent.end() > end) break;
  }
  auto known = known_.upper_bound(begin);
  if (known != known_.begin() && std::prev(known)->second > begin) --known;
  while (known != known_.end() && known->first < end) {
    const auto [from, to] = *known;
    known = known_.erase(known);
    if (from < begin) known_[from] = begin;
    if (to > end) known_[end] = to;
    if (to > end) break;
  }
  if (known_.empty() && in_budget_) budget_.known.erase(*std::exchange(in_budget_, std::nullopt));
}

void Locations::forget(uint64_t begin, uint64_t end) {
  ++epoch_;
  forgotten_.push_back({begin, end});
  if (forgotten_.size() > kRemembered) forgotten_.pop_front();
  drop(begin, end);
}

void Locations::forget_all() {
  ++epoch_;
  forgotten_.clear();  // results of earlier requests are no longer current
  for (const auto& [offset, extent] : extents_)
    budget_.used -= weight_of(extent);
  extents_.clear();
  known_.clear();
  if (in_budget_) budget_.known.erase(*std::exchange(in_budget_, std::nullopt));
}

bool Locations::still_fresh(uint64_t epoch, uint64_t begin, uint64_t end, uint64_t& from,
                            uint64_t& to) const {
  const uint64_t since = epoch_ - epoch;
  if (since > forgotten_.size()) return false;
  for (auto at = forgotten_.end() - static_cast<ptrdiff_t>(since); at != forgotten_.end(); ++at) {
    if (at->begin < end && at->end > begin) return false;
    if (at->end <= begin) from = std::max(from, at->end);
    if (at->begin >= end) to = std::min(to, at->begin);
  }
  return true;
}

}  // namespace kintsugi::client
