#include "repair_manager/plan/make_plan.h"

#include <algorithm>

#include "common/base/crc32c.h"
#include "common/rpc/secret.h"
#include "erasure/layout.h"
#include "erasure/repair_equation.h"
#include "repair_manager/plan/destination.h"
#include "repair_manager/plan/helper_pool.h"
#include "repair_manager/plan/plan_writer.h"
#include "repair_manager/trees/tree_choice.h"

namespace kintsugi::repair_manager {
namespace {

/// The arguments of make_plan and its like.
struct PlanSetting {
  const SelectionInput& input;
  const PlanWishes& wishes;
  const PlanBasis& basis;

  const ChunkView& chunk(uint32_t index) const { return input.stripe.chunks[index]; }
  LinkRate link_of(const ServerView& server) const {
    return input.servers.link(server, basis.link.bytes_per_second);
  }
  const std::string& address_of(ServerId server) const {
    return input.servers.address_text(*input.servers.position(server));
  }
};

void collect(std::span<const TreeNode> tree, std::vector<size_t>& members) {
  for (const TreeNode& node : tree) {
    members.push_back(node.helper);
    collect(node.children, members);
  }
}

/// Writes the trees, and who takes part in them, into the plan.
Status write_trees(const PlanSetting& setting, const std::vector<uint32_t>& lost, const HelperPool& helpers,
                   const TreeSet& trees, RepairNodes* out, RepairPlan& plan) {
  std::vector<HelperNode> nodes(helpers.pool.size());
  std::vector<double> shares(helpers.pool.size());
  std::vector<size_t> in_plan;
  const StripeId stripe = setting.input.stripe.id;
  for (const SliceTree& tree : trees.trees) {
    std::vector<size_t> members;
    collect(tree.children, members);
    std::sort(members.begin(), members.end());  // best first
    for (size_t member : members) {
      shares[member] += trees.share(tree);
      if (nodes[member].server) continue;
      const ChunkView& chunk = *helpers.pool[member];
      nodes[member] = {.server = chunk.server,
                       .name = setting.input.servers.name_of(chunk.server),
                       .address = setting.address_of(chunk.server),
                       .index = chunk.index,
                       .chunk_length = chunk.length,
                       .capability = setting.basis.view.capability(
                           {stripe, chunk.index}, rpc::kOpRead | rpc::kOpRepair, setting.basis.expiry)};
      in_plan.push_back(member);
      plan.helpers.push_back(chunk.server);
      plan.helper_chunks.push_back(chunk.index);
    }
    const int first = out->size();
    if (helpers.equation) {
      write_tree(tree.children, nodes, *helpers.equation, out);
    } else {
      std::vector<uint32_t> indices = helpers.free;
      for (size_t member : members)
        indices.push_back(helpers.pool[member]->index);
      const auto code = erasure::Code::get(setting.input.policy);
      KINTSUGI_ASSIGN(const erasure::RepairEquation equation, erasure::repair_equation(*code, lost, indices));
      write_tree(tree.children, nodes, equation, out);
    }
    if (trees.period > 0) set_slices(trees.period, tree.slice_mask, first, out);
  }
  for (size_t member : in_plan)
    plan.helper_shares.push_back(shares[member]);
  plan.trees = trees.trees.size();
  return {};
}

TreeChoice choose(const PlanSetting& setting, const HelperPool& helpers, double root_down, uint64_t sum_bytes,
                  uint32_t sums, bool read) {
  const erasure::Policy& policy = setting.input.policy;
  const uint64_t unit = sums > 1 && policy.rows() > 1 ? policy.cell_bytes / policy.rows() : kMinSliceBytes;
  return choose_trees(
      {.helpers = helpers.links,
       .needed = helpers.needed,
       .root_down = root_down,
       .load = {.sum_bytes = sum_bytes, .sums = sums, .rows_read = helpers.rows_read, .slice_unit = unit},
       .wanted = setting.wishes.shape,
       .trees = setting.wishes.trees,
       .slice_bytes = setting.wishes.slice_bytes,
       .read = read},
      setting.basis.link);
}

/// Picks the best destination that is not about to delete an older copy of the chunk: the new one would go with it.
Result<ServerId> pick_destination(const PlanSetting& setting, uint32_t lost,
                                  std::span<const ServerId> taken) {
  const ChunkId chunk{setting.input.stripe.id, lost};
  const ServerId wanted = lost == setting.input.lost.front() ? setting.wishes.destination : ServerId{};
  if (wanted) {
    KINTSUGI_TRY(check_destination(setting.input, lost, wanted, taken, setting.wishes.keep_racks));
    if (setting.basis.view.deletion_pending(chunk, wanted))
      return Status{Code::kLimitExceeded, fmt::format("server {} is about to delete an older copy",
                                                      setting.input.servers.name_of(wanted))};
    return wanted;
  }
  std::vector<ServerId> barred;
  for (;;) {
    KINTSUGI_ASSIGN(const ServerId destination, select_destination(setting.input, lost, taken, barred));
    if (!setting.basis.view.deletion_pending(chunk, destination)) return destination;
    barred.push_back(destination);
  }
}

/// Picks a place for every lost chunk: first for the first one, since that may be wished. Then the longest becomes the
/// root, whose length the trees have.
Status pick_destinations(const PlanSetting& setting, RepairPlan& plan) {
  std::vector<ServerId> taken;
  for (uint32_t index : setting.input.lost) {
    KINTSUGI_ASSIGN(const ServerId destination, pick_destination(setting, index, taken));
    taken.push_back(destination);
    plan.targets.push_back({.index = index,
                            .old_server = setting.chunk(index).server,
                            .destination = destination,
                            .address = setting.input.servers.find(destination)->address,
                            .bytes = setting.chunk(index).length});
  }
  std::stable_sort(plan.targets.begin(), plan.targets.end(),
                   [](const RepairTarget& a, const RepairTarget& b) { return a.bytes > b.bytes; });
  return {};
}

RepairPlan begin_plan(const PlanSetting& setting, PlanKind kind) {
  RepairPlan plan;
  plan.id = setting.basis.id;
  plan.stripe = setting.input.stripe.id;
  plan.kind = kind;
  plan.policy = setting.input.stripe.policy;
  return plan;
}

uint64_t sub_chunk_bytes(const erasure::Policy& policy, uint64_t chunk_bytes) {
  return erasure::sub_chunk_bytes(chunk_bytes, policy.rows(), policy.cell_bytes);
}

void set_request(const PlanSetting& setting, RepairPlan& plan) {
  const ChunkView& root = setting.chunk(plan.targets.front().index);
  proto::RepairChunkRequest& request = plan.request;
  request.set_name(setting.input.servers.name_of(plan.targets.front().destination));
  request.set_server_id(plan.targets.front().destination.value);
  request.set_stripe_id(plan.stripe.value);
  request.set_index(root.index);
  request.set_policy(plan.policy);
  request.set_repair_id(plan.id.value);
  request.set_length(root.length);
  request.set_crc(root.crc);
  request.set_slice_bytes(plan.choice.slice_bytes);
  request.set_capability(
      setting.basis.view.capability(plan.chunk(), rpc::kOpWrite | rpc::kOpRepair, setting.basis.expiry));
  request.set_staggered(plan.choice.shape == Shape::STAGGERED);
  if (setting.input.policy.rows() == 1 || plan.kind == proto::RepairRecord::MOVE) return;
  request.set_rows(setting.input.policy.rows());
  request.set_cell_bytes(setting.input.policy.cell_bytes);
}

std::vector<StoringNode> storing_path(const PlanSetting& setting, const RepairPlan& plan) {
  std::vector<StoringNode> path;
  for (size_t i = 1; i < plan.targets.size(); ++i) {
    const RepairTarget& target = plan.targets[i];
    StoringNode& node = path.emplace_back();
    node.server = target.destination;
    node.name = setting.input.servers.name_of(target.destination);
    node.address = setting.address_of(target.destination);
    node.chunk.set_index(target.index);
    node.chunk.set_policy(plan.policy);
    node.chunk.set_length(target.bytes);
    node.chunk.set_crc(setting.chunk(target.index).crc);
    node.chunk.set_capability(setting.basis.view.capability(
        {plan.stripe, target.index}, rpc::kOpWrite | rpc::kOpRepair, setting.basis.expiry));
  }
  return path;
}

Status check_lost(const SelectionInput& input) {
  for (uint32_t index : input.lost)
    if (index >= input.stripe.chunks.size())
      return {Code::kInvalidArgument, fmt::format("no such chunk: {}", index)};
  if (input.lost.empty()) return {Code::kInvalidArgument, "no chunk to repair"};
  return {};
}

}  // namespace

Result<RepairPlan> make_plan(const SelectionInput& input, const PlanWishes& wishes, const PlanBasis& basis) {
  KINTSUGI_TRY(check_lost(input));
  const PlanSetting setting{input, wishes, basis};
  RepairPlan plan = begin_plan(setting, proto::RepairRecord::REPAIR);
  // Helpers come before destinations, though these are cheaper to find missing: a stripe that cannot be repaired is to
  // be called that (kUnavailable), not short of space.
  std::vector<uint32_t> lost = input.lost;
  std::stable_sort(lost.begin(), lost.end(), [&](uint32_t a, uint32_t b) {
    return input.stripe.chunks[a].length > input.stripe.chunks[b].length;
  });
  KINTSUGI_ASSIGN(const HelperPool helpers, pick_helpers(input, wishes, basis.link, lost, Busy::kRefuse));
  KINTSUGI_TRY(pick_destinations(setting, plan));

  double root_down = std::numeric_limits<double>::max();
  for (const RepairTarget& target : plan.targets)
    root_down = std::min(root_down, setting.link_of(*input.servers.find(target.destination)).down);
  const uint32_t rows = input.policy.rows();
  const TreeChoice choice =
      choose(setting, helpers, root_down, sub_chunk_bytes(input.policy, plan.targets.front().bytes),
             static_cast<uint32_t>(lost.size()) * rows, /*read=*/false);
  plan.choice = choice.choice;
  set_request(setting, plan);
  RepairNodes* children =
      write_storing_path(storing_path(setting, plan), rows, plan.request.mutable_children());
  KINTSUGI_TRY(write_trees(setting, lost, helpers, choice.trees, children, plan));
  return plan;
}

Result<RepairPlan> make_move_plan(const SelectionInput& input, const PlanWishes& wishes,
                                  const PlanBasis& basis) {
  KINTSUGI_TRY(check_lost(input));
  const PlanSetting setting{input, wishes, basis};
  const ChunkView& chunk = setting.chunk(input.lost.front());
  const ServerView* source = input.servers.find(chunk.server);
  if (!chunk.available || source == nullptr)
    return Status{Code::kUnavailable,
                  fmt::format("chunk {}:{} is not available", input.stripe.id, chunk.index)};
  if (!source->alive || !input.slots.can_help(chunk.server))
    return Status{Code::kLimitExceeded,
                  fmt::format("server {} is busy or suspect", input.servers.name_of(chunk.server))};
  RepairPlan plan = begin_plan(setting, proto::RepairRecord::MOVE);
  KINTSUGI_TRY(pick_destinations(setting, plan));

  // A copy has one row, whatever the code.
  HelperPool helpers{.pool = {&chunk}, .links = {setting.link_of(*source)}, .rows_read = {1}, .needed = 1};
  helpers.equation = erasure::RepairEquation{
      .lost = {chunk.index}, .terms = {{.helper = chunk.index, .own_rows = {0}, .coefficients = {1}}}};
  const double down = setting.link_of(*input.servers.find(plan.targets.front().destination)).down;
  const TreeChoice choice = choose(setting, helpers, down, chunk.length, 1, /*read=*/false);
  plan.choice = choice.choice;
  set_request(setting, plan);
  KINTSUGI_TRY(
      write_trees(setting, input.lost, helpers, choice.trees, plan.request.mutable_children(), plan));
  return plan;
}

Result<RepairPlan> make_read_plan(const SelectionInput& input, const PlanWishes& wishes, ByteRange range,
                                  const PlanBasis& basis) {
  const auto [offset, length] = range;
  KINTSUGI_TRY(check_lost(input));
  const PlanSetting setting{input, wishes, basis};
  const ChunkView& lost = setting.chunk(input.lost.front());
  if (offset > lost.length || length > lost.length - offset)
    return Status{Code::kInvalidArgument,
                  fmt::format("no bytes {} to {} in a chunk of {}", offset, offset + length, lost.length)};
  // Helpers read and check whole blocks; rows are cut from whole cells.
  const uint32_t rows = input.policy.rows();
  const uint64_t unit = rows == 1 ? kBlockBytes : input.policy.cell_bytes;
  const uint64_t begin = offset / unit * unit;
  const uint64_t end = std::min((offset + length + unit - 1) / unit * unit, lost.length);
  const uint64_t sum_bytes = sub_chunk_bytes(input.policy, end - begin);

  RepairPlan plan = begin_plan(setting, proto::RepairRecord::READ);
  plan.targets.push_back({.index = lost.index, .old_server = lost.server, .bytes = end - begin});
  KINTSUGI_ASSIGN(const HelperPool helpers, pick_helpers(input, wishes, basis.link, input.lost, Busy::kTake));
  const LinkRate usual = input.servers.usual_link();
  const double root_down = usual.down > 0 ? usual.down : basis.link.bytes_per_second;
  const TreeChoice choice = choose(setting, helpers, root_down, sum_bytes, rows, /*read=*/true);
  plan.choice = choice.choice;

  proto::SumPlan& sum = plan.sum_plan;
  sum.set_stripe_id(plan.stripe.value);
  sum.set_repair_id(basis.id.value);
  sum.set_offset(begin / rows);
  sum.set_length(sum_bytes);
  sum.set_slice_bytes(plan.choice.slice_bytes);
  sum.set_rows(rows);
  sum.set_cell_bytes(input.policy.cell_bytes);
  sum.set_shape(plan.choice.shape);
  sum.set_chunk_length(lost.length);
  KINTSUGI_TRY(write_trees(setting, input.lost, helpers, choice.trees, sum.mutable_children(), plan));
  return plan;
}

}  // namespace kintsugi::repair_manager
