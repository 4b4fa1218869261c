#include "monitoring/behaviour/reservoir.h"

#include <algorithm>

namespace kintsugi::behaviour {
namespace {

constexpr uint64_t kRemembered = 4;

}  // namespace

void Reservoir::add(double size, Execution execution) {
  const int octave = size >= 1 ? std::min(63, std::ilogb(size)) : -1;
  Octave& own = octaves_[octave];
  ++own.seen;
  if (executions_.size() < places_) {
    own.members.push_back(executions_.size());
    executions_.push_back(std::move(execution));
    return;
  }
  Octave* fullest = &own;
  for (auto& [number, other] : octaves_)
    if (other.members.size() > fullest->members.size()) fullest = &other;
  if (fullest == &own) {
    const uint64_t held = own.members.size(), of = std::min(own.seen, held * kRemembered);
    if (held == 0 || draws_.below(of) >= held) return;
    executions_[own.members[draws_.below(held)]] = std::move(execution);
    return;
  }
  const size_t victim = draws_.below(fullest->members.size());
  const size_t place = fullest->members[victim];
  fullest->members[victim] = fullest->members.back();
  fullest->members.pop_back();
  own.members.push_back(place);
  executions_[place] = std::move(execution);
}

}  // namespace kintsugi::behaviour
