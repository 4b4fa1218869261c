#include "repair_manager/planner.h"

#include <cctype>

#include "common/rpc/secret.h"
#include "erasure/policy.h"
#include "erasure/repair_equation.h"

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

Result<std::vector<HelperNode>> helper_nodes(const SelectionInput& input,
                                             const std::vector<uint32_t>& helpers, const ClusterView& view,
                                             WallTime expiry) {
  KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(input.stripe.policy));
  const uint32_t lost[] = {input.lost};
  const auto code = erasure::Code::get(policy);
  KINTSUGI_ASSIGN(const erasure::RepairEquation equation, erasure::repair_equation(*code, lost, helpers));
  std::vector<HelperNode> nodes;
  for (const erasure::RepairEquation::Term& term : equation.terms) {
    const ChunkView& chunk = input.stripe.chunks[term.helper];
    if (is_empty_data_chunk(chunk, policy.k)) continue;
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

/// The best destination that is not about to delete an older copy.
Result<ServerId> pick_destination(SelectionInput input, ServerId wanted, const ClusterView& view) {
  const ChunkId chunk{input.stripe.id, input.lost};
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

}  // namespace

Result<RepairPlan> make_plan(const SelectionInput& input, const PlanWishes& wishes, const LinkModel& link,
                             const ClusterView& view, WallTime expiry, RepairId id) {
  const ChunkView& lost = input.stripe.chunks[input.lost];
  KINTSUGI_ASSIGN(const std::vector<uint32_t> helpers, select_helpers(input));
  RepairPlan plan;
  KINTSUGI_ASSIGN(plan.destination, pick_destination(input, wishes.destination, view));
  KINTSUGI_ASSIGN(const std::vector<HelperNode> nodes, helper_nodes(input, helpers, view, expiry));

  plan.id = id;
  plan.chunk = {input.stripe.id, input.lost};
  plan.policy = input.stripe.policy;
  plan.old_server = lost.server;
  plan.destination_address = input.servers.find(plan.destination)->address;
  plan.chunk_bytes = lost.length;
  plan.choice =
      choose_shape(wishes.shape, static_cast<uint32_t>(nodes.size()), lost.length, wishes.slice_bytes, link);
  for (const HelperNode& node : nodes) {
    plan.helpers.push_back(node.server);
    plan.helper_chunks.push_back(node.index);
  }

  proto::RepairChunkRequest& request = plan.request;
  request.set_stripe_id(plan.chunk.stripe.value);
  request.set_index(plan.chunk.index);
  request.set_policy(plan.policy);
  request.set_repair_id(id.value);
  request.set_length(lost.length);
  request.set_crc(lost.crc);
  request.set_slice_bytes(plan.choice.slice_bytes);
  request.set_capability(view.capability(plan.chunk, rpc::kOpWrite | rpc::kOpRepair, expiry));
  write_tree(plan_tree(nodes.size(), plan.choice.shape), nodes, request.mutable_children());
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
