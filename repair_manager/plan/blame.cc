// Who is to blame for a failed repair (planner.h).
#include <cctype>

#include "repair_manager/planner.h"

namespace kintsugi::repair_manager {
namespace {

// Position of the last mention of `name` as a whole word; npos: none.
size_t last_mention(const std::string& text, const std::string& name) {
  for (size_t at = text.rfind(name); at != std::string::npos;
       at = at == 0 ? std::string::npos : text.rfind(name, at - 1)) {
    const size_t end = at + name.size();
    if (end == text.size() || !std::isalnum(static_cast<unsigned char>(text[end]))) return at;
  }
  return std::string::npos;
}

}  // namespace

Blame find_blame(const Status& status, const RepairPlan& plan) {
  // Context is added in front on the way up: the last server mentioned is nearest to the cause.
  Blame blame;
  size_t nearest = 0;
  bool anyone = false;
  const auto mentioned = [&](ServerId server) {
    const size_t at = last_mention(status.message(), fmt::format("server {}", server));
    if (at == std::string::npos || (anyone && at < nearest)) return false;
    nearest = at;
    return anyone = true;
  };
  for (size_t i = 0; i < plan.helpers.size(); ++i) {
    if (!mentioned(plan.helpers[i])) continue;
    blame.helper = plan.helpers[i];
    blame.helper_chunk = plan.helper_chunks[i];
  }
  // The root's own name stands in front of everything; that of another destination means itself.
  for (size_t i = 1; i < plan.targets.size(); ++i) {
    if (!mentioned(plan.targets[i].destination)) continue;
    blame = {.other_destination = plan.targets[i].destination};
  }
  if (anyone) return blame;
  switch (status.code()) {
    case Code::kCorrupt:
      blame.unknown_helper = true;
      break;
    case Code::kDeadlineExceeded:
      blame.unknown_helper = blame.destination = true;
      break;
    case Code::kCancelled:
      break;
    default:
      blame.destination = true;
  }
  return blame;
}

}  // namespace kintsugi::repair_manager
