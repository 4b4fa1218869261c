#include "repair_manager/plan/options.h"

namespace kintsugi::repair_manager {

Result<Schedule> parse_schedule(std::string_view name) {
  if (name == "greedy") return Schedule::kGreedy;
  if (name == "joint") return Schedule::kJoint;
  return Status{Code::kInvalidArgument, fmt::format("no such schedule: '{}' (greedy, joint)", name)};
}

}  // namespace kintsugi::repair_manager
