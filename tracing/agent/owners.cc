#include "tracing/agent/owners.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace kintsugi::tracing {
namespace {

bool is_active(const Owner& owner) {
  return !owner.ended;
}

}  // namespace

Status Owners::join(Owner owner) {
  if (active() >= kMost) {
    if (departure(std::chrono::steady_clock::now()))
      return {Code::kUnavailable, "somebody for whom this process records is about to leave"};
    return {Code::kLimitExceeded,
            fmt::format("{} commands have this process record already: wait until one of them ends", kMost)};
  }
  owners_.push_back(std::move(owner));
  return {};
}

const Owner* Owners::find(uint64_t number) const {
  const auto found = std::ranges::find(owners_, number, &Owner::number);
  return number != 0 && found != owners_.end() ? &*found : nullptr;
}

size_t Owners::active() const {
  return static_cast<size_t>(std::ranges::count_if(owners_, is_active));
}

bool Owners::leave(uint64_t number) {
  bool found = false;
  for (Owner& each : owners_) {
    if (!is_active(each) || (number != 0 && each.number != number)) continue;
    found = true;
    if (!each.leaves) each.leaves = number == 0 ? End::kDetachedByOther : End::kDetached;
  }
  return found;
}

void Owners::began(TimePoint now) {
  for (Owner& each : owners_)
    if (each.recorded_for) each.deadline = std::min(each.deadline, now + *each.recorded_for);
}

Owners::TimePoint Owners::last_deadline() const {
  TimePoint last{};
  for (const Owner& each : owners_)
    if (is_active(each)) last = std::max(last, each.deadline);
  return last;
}

std::optional<Owners::Departure> Owners::departure(TimePoint now) const {
  const auto leaves = [&](const Owner& each) { return is_active(each) && each.is_leaving(now); };
  const auto first = std::ranges::find_if(owners_, leaves);
  if (first == owners_.end()) return std::nullopt;
  const bool anybody_stays =
      std::ranges::any_of(owners_, [&](const Owner& each) { return is_active(each) && !leaves(each); });
  return Departure{.number = first->number, .why = first->why(), .last = !anybody_stays};
}

void Owners::end(uint64_t number, AgentStatus told) {
  const auto found = std::ranges::find(owners_, number, &Owner::number);
  told.owner = number;
  found->ended = std::move(told);
  owners_.splice(owners_.end(), owners_, found);
  forget_earliest();
}

void Owners::end_all(const AgentStatus& told) {
  std::erase_if(owners_, [](const Owner& each) { return each.number == 0; });
  while (true) {
    const auto next = std::ranges::find_if(owners_, is_active);
    if (next == owners_.end()) return;
    AgentStatus own = told;
    // The reason of the recording is that of one of those who left as the last ones, unless it had no room or failed.
    if (told.end != End::kNone && told.end != End::kFull) own.end = next->why();
    end(next->number, std::move(own));
  }
}

void Owners::forget_earliest() {
  while (owners_.size() - active() > kMostEnded)
    owners_.erase(std::ranges::find_if(owners_, [](const Owner& each) { return !is_active(each); }));
}

}  // namespace kintsugi::tracing
