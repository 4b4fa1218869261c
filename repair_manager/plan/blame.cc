// Who is to blame for a failed repair (make_plan.h).
#include <algorithm>

#include "repair_manager/plan/make_plan.h"

namespace kintsugi::repair_manager {

Blame find_blame(const Status& status, const RepairPlan& plan) {
  const ServerId culprit = status.culprit().server;
  // A destination that is not the root is named by the tree it is a part of, though it may help there as well: what failed
  // was its own.
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
    case Code::kCancelled: break;
    default: blame.destination = true;
  }
  return blame;
}

}  // namespace kintsugi::repair_manager
