/// Names of enums in messages, for people: what the command line and status pages print, and what people type.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/proto/meta.pb.h"
#include "common/proto/repair.pb.h"

namespace kintsugi::proto {

/// "star", "staggered", "ppr", "chain", "weighted", "auto".
std::string_view shape_name(RepairShape shape);
/// The inverse; "" is auto. kInvalidArgument otherwise.
Result<RepairShape> parse_shape(std::string_view name);

/// "running", "done", "failed".
std::string_view outcome_name(RepairRecord::Outcome outcome);
/// "repair", "read", "move".
std::string_view kind_name(RepairRecord::Kind kind);
/// "helper", "aggregator", "destination".
std::string_view role_name(ServerTiming::Role role);

/// "alive", "suspect", "dead".
std::string_view liveness_name(ServerState::Liveness liveness);
/// "well", "slow", "hung", "read-only", "failed".
std::string_view health_name(DiskState::Health health);

}  // namespace kintsugi::proto
