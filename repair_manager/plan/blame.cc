#include "repair_manager/plan/blame.h"

#include <algorithm>

namespace kintsugi::repair_manager {

Blame find_blame(const Status& status, const RepairPlan& plan) {
  const ServerId culprit = status.culprit().server;
  // A destination that is not the root may help in the tree as well; what it is blamed for is its own chunk.
  const auto targets = std::span(plan.targets).subspan(1);
  if (culprit && std::ranges::find(targets, culprit, &RepairTarget::destination) != targets.end())
    return {.other_destination = culprit};
  const auto helper = std::ranges::find(plan.helpers, culprit);
  if (culprit && helper != plan.helpers.end())
    return {.helper = culprit, .helper_chunk = plan.helper_chunks[helper - plan.helpers.begin()]};
  Blame blame;
  switch (status.code()) {
    case Code::kCorrupt: blame.unknown_helper = true; break;
    case Code::kDeadlineExceeded: blame.unknown_helper = blame.destination = true; break;
    case Code::kCancelled:
    case Code::kConflict: break;
    default: blame.destination = true;
  }
  return blame;
}

}  // namespace kintsugi::repair_manager
