#include "repair_manager/manager/records.h"

#include <algorithm>

#include "common/base/assert.h"

namespace kintsugi::repair_manager {
namespace {

void add_edges(const google::protobuf::RepeatedPtrField<proto::RepairNode>& children, uint64_t parent,
               proto::RepairRecord& record) {
  for (const proto::RepairNode& child : children) {
    proto::RepairEdge& edge = *record.add_edges();
    edge.set_from(child.server_id());
    edge.set_to(parent);
    add_edges(child.children(), child.server_id(), record);
  }
}

}  // namespace

proto::RepairRecord describe(const RepairPlan& plan, WallTime now) {
  const RepairTarget& root = plan.targets.front();
  proto::RepairRecord record;
  record.set_repair_id(plan.id.value);
  record.set_kind(plan.kind);
  record.set_stripe_id(plan.stripe.value);
  record.set_index(root.index);
  record.set_policy(plan.policy);
  record.set_shape(plan.choice.shape);
  record.set_slice_bytes(plan.choice.slice_bytes);
  record.set_chunk_bytes(root.bytes);
  record.set_destination(root.destination.value);
  for (const RepairTarget& target : plan.targets) {
    record.add_indexes(target.index);
    record.add_destinations(target.destination.value);
  }
  for (ServerId helper : plan.helpers)
    record.add_helpers(helper.value);
  add_edges(plan.request.children(), root.destination.value, record);
  add_edges(plan.sum_plan.children(), root.destination.value, record);
  record.set_trees(static_cast<uint32_t>(plan.trees));
  record.set_estimated_seconds(plan.choice.seconds);
  record.mutable_timing()->set_plan_seconds(plan.plan_seconds);
  record.set_attempt(1);
  record.set_outcome(proto::RepairRecord::RUNNING);
  record.set_started_ns(now.time_since_epoch().count());
  return record;
}

void RepairRecords::begin(proto::RepairRecord record) {
  const uint64_t id = record.repair_id();
  const bool is_new = running_.emplace(id, std::move(record)).second;
  KINTSUGI_ASSERT(is_new);
}

void RepairRecords::end(proto::RepairRecord record) {
  KINTSUGI_ASSERT(record.outcome() != proto::RepairRecord::RUNNING);
  running_.erase(record.repair_id());
  record.clear_edges();  // edges would make answers about a long history large
  history_.push_front(std::move(record));
  if (history_.size() > limit_) history_.pop_back();
}

std::vector<proto::RepairRecord> RepairRecords::history(size_t limit) const {
  const size_t count = std::min(limit, history_.size());
  return {history_.begin(), history_.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace kintsugi::repair_manager
