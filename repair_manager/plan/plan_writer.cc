#include "repair_manager/plan/plan_writer.h"

#include <algorithm>

namespace kintsugi::repair_manager {
namespace {

using Term = erasure::RepairEquation::Term;

void write_node(const HelperNode& helper, const Term& term, const erasure::RepairEquation& equation,
                bool leaf, proto::RepairNode* out) {
  const size_t sums = equation.lost.size() * equation.rows;
  const size_t own = term.own_rows.size();
  out->set_server_id(helper.server.value);
  out->set_name(helper.name);
  out->set_address(helper.address);
  out->set_index(helper.index);
  out->set_chunk_length(helper.chunk_length);
  out->set_capability(helper.capability);
  if (equation.rows > 1) out->mutable_own_rows()->Add(term.own_rows.begin(), term.own_rows.end());
  if (!leaf || own >= sums) {
    out->set_coefficients(term.coefficients.data(), term.coefficients.size());
    if (sums > 1) out->set_sums(static_cast<uint32_t>(sums));
    return;
  }
  std::string identity(own * own, '\0');
  for (size_t row = 0; row < own; ++row)
    identity[row * own + row] = 1;
  out->set_coefficients(std::move(identity));
  out->set_sums(static_cast<uint32_t>(own));
  out->set_combine(term.coefficients.data(), term.coefficients.size());
}

}  // namespace

void write_tree(std::span<const TreeNode> tree, std::span<const HelperNode> helpers,
                const erasure::RepairEquation& equation, RepairNodes* out) {
  for (const TreeNode& node : tree) {
    const HelperNode& helper = helpers[node.helper];
    const auto term = std::find_if(equation.terms.begin(), equation.terms.end(),
                                   [&](const Term& candidate) { return candidate.helper == helper.index; });
    if (term == equation.terms.end()) {
      write_tree(node.children, helpers, equation, out);
      continue;
    }
    proto::RepairNode* written = out->Add();
    write_tree(node.children, helpers, equation, written->mutable_children());
    write_node(helper, *term, equation, written->children().empty(), written);
  }
}

RepairNodes* write_storing_path(std::span<const StoringNode> path, uint32_t rows, RepairNodes* out) {
  uint32_t below = rows;  // number of sums that are forwarded
  for (const StoringNode& node : path) {
    proto::RepairNode* written = out->Add();
    written->set_server_id(node.server.value);
    written->set_name(node.name);
    written->set_address(node.address);
    written->set_index(node.chunk.index());
    written->set_sums(below + rows);
    for (uint32_t sum = 0; sum < below; ++sum)
      written->add_outputs(sum);
    proto::RebuiltChunk* stored = written->add_stores();
    *stored = node.chunk;
    stored->set_first_sum(below);
    below += rows;
    out = written->mutable_children();
  }
  return out;
}

void set_slices(uint32_t period, uint64_t mask, int first, RepairNodes* nodes) {
  for (int i = first; i < nodes->size(); ++i) {
    nodes->Mutable(i)->set_slice_period(period);
    nodes->Mutable(i)->set_slice_mask(mask);
  }
}

}  // namespace kintsugi::repair_manager
