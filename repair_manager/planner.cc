#include "repair_manager/planner.h"

#include <algorithm>
#include <cctype>

#include "common/rpc/secret.h"
#include "erasure/policy.h"
#include "erasure/repair_equation.h"

namespace kintsugi::repair_manager {
namespace {

constexpr uint64_t kReadUnitBytes = 64 << 10;  // a checksum block: what a helper reads at least

// Position of the last mention of `name` as a whole word; npos: none.
size_t last_mention(const std::string& text, const std::string& name) {
  for (size_t at = text.rfind(name); at != std::string::npos;
       at = at == 0 ? std::string::npos : text.rfind(name, at - 1)) {
    const size_t end = at + name.size();
    if (end == text.size() || !std::isalnum(static_cast<unsigned char>(text[end]))) return at;
  }
  return std::string::npos;
}

Result<std::vector<HelperNode>> helper_nodes(const SelectionInput& input,
                                             const std::vector<uint32_t>& helpers, const ClusterView& view,
                                             WallTime expiry) {
  const auto code = erasure::Code::get(input.policy);
  KINTSUGI_ASSIGN(const erasure::RepairEquation equation,
                  erasure::repair_equation(*code, input.lost, helpers));
  std::vector<HelperNode> nodes;
  for (const erasure::RepairEquation::Term& term : equation.terms) {
    const ChunkView& chunk = input.stripe.chunks[term.helper];
    if (is_empty_data_chunk(chunk, input.policy.k)) continue;
    nodes.push_back({.server = chunk.server,
                     .address = input.servers.find(chunk.server)->address,
                     .index = chunk.index,
                     .chunk_length = chunk.length,
                     .coefficients = term.coefficients,
                     .capability = view.capability({input.stripe.id, chunk.index},
                                                   rpc::kOpRead | rpc::kOpRepair, expiry)});
  }
  return nodes;
}

/// The best destination of the first lost chunk that is not about to delete an older copy.
Result<ServerId> pick_destination(SelectionInput input, ServerId wanted, const ClusterView& view) {
  const ChunkId chunk{input.stripe.id, input.lost.front()};
  if (wanted) {
    KINTSUGI_TRY(check_destination(input, wanted));
    if (view.deletion_pending(chunk, wanted))
      return Status{Code::kLimitExceeded, fmt::format("server {} is about to delete an older copy", wanted)};
    return wanted;
  }
  std::vector<ServerId> barred;
  for (;;) {
    input.barred = barred;
    KINTSUGI_ASSIGN(const ServerId destination, select_destination(input));
    if (!view.deletion_pending(chunk, destination)) return destination;
    barred.push_back(destination);
  }
}

RepairPlan begin_plan(const SelectionInput& input, PlanKind kind, RepairId id) {
  RepairPlan plan;
  plan.id = id;
  plan.stripe = input.stripe.id;
  plan.kind = kind;
  plan.policy = input.stripe.policy;
  return plan;
}

void set_target(const SelectionInput& input, ServerId destination, RepairPlan& plan) {
  const ChunkView& lost = input.stripe.chunks[input.lost.front()];
  plan.targets.push_back({.index = lost.index,
                          .old_server = lost.server,
                          .destination = destination,
                          .address = input.servers.find(destination)->address,
                          .bytes = lost.length});
}

void set_helpers(const std::vector<HelperNode>& nodes, RepairPlan& plan) {
  for (const HelperNode& node : nodes) {
    plan.helpers.push_back(node.server);
    plan.helper_chunks.push_back(node.index);
  }
}

void set_request(const ChunkView& lost, const std::vector<HelperNode>& nodes, const ClusterView& view,
                 WallTime expiry, RepairPlan& plan) {
  proto::RepairChunkRequest& request = plan.request;
  request.set_stripe_id(plan.stripe.value);
  request.set_index(lost.index);
  request.set_policy(plan.policy);
  request.set_repair_id(plan.id.value);
  request.set_length(lost.length);
  request.set_crc(lost.crc);
  request.set_slice_bytes(plan.choice.slice_bytes);
  request.set_capability(view.capability(plan.chunk(), rpc::kOpWrite | rpc::kOpRepair, expiry));
  write_tree(plan_tree(nodes.size(), plan.choice.shape), nodes, request.mutable_children());
}

}  // namespace

std::string_view kind_name(PlanKind kind) {
  switch (kind) {
    case PlanKind::kRepair:
      return "repair";
    case PlanKind::kMove:
      return "move";
    case PlanKind::kRead:
      return "read";
  }
  return "repair";
}

Result<RepairPlan> make_plan(const SelectionInput& input, const PlanWishes& wishes, const LinkModel& link,
                             const ClusterView& view, WallTime expiry, RepairId id) {
  if (input.lost.size() != 1) return Status{Code::kInvalidArgument, "one chunk a plan"};
  const ChunkView& lost = input.stripe.chunks[input.lost.front()];
  KINTSUGI_ASSIGN(const std::vector<uint32_t> helpers, select_helpers(input));
  KINTSUGI_ASSIGN(const ServerId destination, pick_destination(input, wishes.destination, view));
  KINTSUGI_ASSIGN(const std::vector<HelperNode> nodes, helper_nodes(input, helpers, view, expiry));
  RepairPlan plan = begin_plan(input, PlanKind::kRepair, id);
  set_target(input, destination, plan);
  set_helpers(nodes, plan);
  plan.choice =
      choose_shape(wishes.shape, static_cast<uint32_t>(nodes.size()), lost.length, wishes.slice_bytes, link);
  set_request(lost, nodes, view, expiry, plan);
  return plan;
}

Result<RepairPlan> make_move_plan(const SelectionInput& input, const PlanWishes& wishes,
                                  const LinkModel& link, const ClusterView& view, WallTime expiry,
                                  RepairId id) {
  const ChunkView& chunk = input.stripe.chunks[input.lost.front()];
  const ServerView* source = input.servers.find(chunk.server);
  if (!chunk.available || source == nullptr)
    return Status{Code::kUnavailable,
                  fmt::format("chunk {}:{} is not available", input.stripe.id, chunk.index)};
  if (!source->alive || !input.slots.can_help(chunk.server))
    return Status{Code::kLimitExceeded, fmt::format("server {} is busy or suspect", chunk.server)};
  KINTSUGI_ASSIGN(const ServerId destination, pick_destination(input, wishes.destination, view));
  const ChunkId chunk_id{input.stripe.id, chunk.index};
  const std::vector<HelperNode> nodes{
      {.server = chunk.server,
       .address = source->address,
       .index = chunk.index,
       .chunk_length = chunk.length,
       .coefficients = {1},
       .capability = view.capability(chunk_id, rpc::kOpRead | rpc::kOpRepair, expiry)}};
  RepairPlan plan = begin_plan(input, PlanKind::kMove, id);
  set_target(input, destination, plan);
  set_helpers(nodes, plan);
  plan.choice = choose_shape(wishes.shape, 1, chunk.length, wishes.slice_bytes, link);
  set_request(chunk, nodes, view, expiry, plan);
  return plan;
}

Result<RepairPlan> make_read_plan(const SelectionInput& input, const PlanWishes& wishes, uint64_t offset,
                                  uint64_t length, const LinkModel& link, const ClusterView& view,
                                  WallTime expiry, RepairId id) {
  const ChunkView& lost = input.stripe.chunks[input.lost.front()];
  if (offset > lost.length || length > lost.length - offset)
    return Status{Code::kInvalidArgument,
                  fmt::format("no bytes {}+{} in a chunk of {}", offset, length, lost.length)};
  KINTSUGI_ASSIGN(const std::vector<uint32_t> helpers, select_helpers(input));
  KINTSUGI_ASSIGN(const std::vector<HelperNode> nodes, helper_nodes(input, helpers, view, expiry));
  const uint64_t first = offset / kReadUnitBytes * kReadUnitBytes;
  const uint64_t end =
      std::min(lost.length, (offset + length + kReadUnitBytes - 1) / kReadUnitBytes * kReadUnitBytes);
  RepairPlan plan = begin_plan(input, PlanKind::kRead, id);
  plan.targets.push_back({.index = lost.index, .old_server = lost.server, .bytes = end - first});
  set_helpers(nodes, plan);
  plan.choice =
      choose_shape(wishes.shape, static_cast<uint32_t>(nodes.size()), end - first, wishes.slice_bytes, link);
  proto::SumPlan& sum = plan.sum_plan;
  sum.set_stripe_id(plan.stripe.value);
  sum.set_repair_id(id.value);
  sum.set_offset(first);
  sum.set_length(end - first);
  sum.set_slice_bytes(plan.choice.slice_bytes);
  sum.set_rows(1);
  sum.set_cell_bytes(input.policy.cell_bytes);
  sum.set_shape(std::string(shape_name(plan.choice.shape)));
  sum.set_chunk_length(lost.length);
  write_tree(plan_tree(nodes.size(), plan.choice.shape), nodes, sum.mutable_children());
  return plan;
}

Blame find_blame(const Status& status, const RepairPlan& plan) {
  // Context is added in front on the way up: the last helper mentioned is nearest to the cause.
  Blame blame;
  size_t nearest = 0;
  for (size_t i = 0; i < plan.helpers.size(); ++i) {
    const size_t at = last_mention(status.message(), fmt::format("server {}", plan.helpers[i]));
    if (at == std::string::npos || (blame.helper && at < nearest)) continue;
    nearest = at;
    blame.helper = plan.helpers[i];
    blame.helper_chunk = plan.helper_chunks[i];
  }
  if (blame.helper) return blame;
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
