#include "common/proto/names.h"

#include <fmt/format.h>

namespace kintsugi::proto {
namespace {

// A newer peer may send values for which this one has no name.
constexpr std::string_view kUnknown = "unknown";

}  // namespace

std::string_view shape_name(RepairShape shape) {
  switch (shape) {
    case RepairShape::AUTO: return "auto";
    case RepairShape::STAR: return "star";
    case RepairShape::STAGGERED: return "staggered";
    case RepairShape::PPR: return "ppr";
    case RepairShape::CHAIN: return "chain";
    case RepairShape::WEIGHTED: return "weighted";
    default: return kUnknown;
  }
}

Result<RepairShape> parse_shape(std::string_view name) {
  if (name.empty()) return RepairShape::AUTO;
  for (RepairShape shape : {RepairShape::STAR, RepairShape::STAGGERED, RepairShape::PPR, RepairShape::CHAIN,
                            RepairShape::WEIGHTED, RepairShape::AUTO})
    if (name == shape_name(shape)) return shape;
  return Status{
      Code::kInvalidArgument,
      fmt::format("no such repair shape: {} (star, staggered, ppr, chain, weighted or auto)", name)};
}

std::string_view outcome_name(RepairRecord::Outcome outcome) {
  switch (outcome) {
    case RepairRecord::RUNNING: return "running";
    case RepairRecord::DONE: return "done";
    case RepairRecord::FAILED: return "failed";
    default: return kUnknown;
  }
}

std::string_view kind_name(RepairRecord::Kind kind) {
  switch (kind) {
    case RepairRecord::REPAIR: return "repair";
    case RepairRecord::READ: return "read";
    case RepairRecord::MOVE: return "move";
    default: return kUnknown;
  }
}

std::string_view role_name(ServerTiming::Role role) {
  switch (role) {
    case ServerTiming::HELPER: return "helper";
    case ServerTiming::AGGREGATOR: return "aggregator";
    case ServerTiming::DESTINATION: return "destination";
    default: return kUnknown;
  }
}

std::string_view liveness_name(ServerState::Liveness liveness) {
  switch (liveness) {
    case ServerState::ALIVE: return "alive";
    case ServerState::SUSPECT: return "suspect";
    default: return "dead";
  }
}

std::string_view health_name(DiskState::Health health) {
  switch (health) {
    case DiskState::WELL: return "well";
    case DiskState::SLOW: return "slow";
    case DiskState::HUNG: return "hung";
    case DiskState::READ_ONLY: return "read-only";
    case DiskState::FAILED: return "failed";
    default: return kUnknown;
  }
}

}  // namespace kintsugi::proto
