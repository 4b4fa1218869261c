#include "repair_manager/tree_plan.h"

#include <algorithm>
#include <numeric>

#include "common/base/assert.h"

namespace kintsugi::repair_manager {
namespace {

// Participants 0..count-1, 0 the repair site. Binomial reduction: in step t every participant whose lowest
// set bit is t sends to the one without that bit.
std::vector<size_t> binomial_children(size_t participant, size_t count) {
  std::vector<size_t> children;
  for (size_t step = 1; participant + step < count; step *= 2) {
    if (participant & step) break;
    children.push_back(participant + step);
  }
  return children;
}

TreeNode binomial_node(size_t participant, size_t count, const std::vector<size_t>& helper_of) {
  TreeNode node{.helper = helper_of[participant]};
  for (size_t child : binomial_children(participant, count))
    node.children.push_back(binomial_node(child, count, helper_of));
  // The last subtree may be cut short and complete before others.
  std::stable_sort(node.children.begin(), node.children.end(), [](const TreeNode& a, const TreeNode& b) {
    return timesteps(a.children) < timesteps(b.children);
  });
  return node;
}

std::vector<TreeNode> binomial_tree(size_t helpers) {
  const size_t count = helpers + 1;
  std::vector<size_t> places(helpers);
  std::iota(places.begin(), places.end(), 1);
  std::stable_sort(places.begin(), places.end(), [count](size_t a, size_t b) {
    return binomial_children(a, count).size() > binomial_children(b, count).size();
  });
  std::vector<size_t> helper_of(count);
  for (size_t i = 0; i < helpers; ++i)
    helper_of[places[i]] = i;
  return binomial_node(0, count, helper_of).children;
}

}  // namespace

std::string_view shape_name(Shape shape) {
  switch (shape) {
    case Shape::kStar:
      return "star";
    case Shape::kPpr:
      return "ppr";
    case Shape::kChain:
      return "chain";
    case Shape::kAuto:
      return "auto";
  }
  return "auto";
}

Result<Shape> parse_shape(std::string_view name) {
  if (name.empty()) return Shape::kAuto;
  for (Shape shape : {Shape::kStar, Shape::kPpr, Shape::kChain, Shape::kAuto})
    if (name == shape_name(shape)) return shape;
  return Status{Code::kInvalidArgument,
                fmt::format("no such repair shape: {} (star, ppr, chain or auto)", name)};
}

std::vector<TreeNode> plan_tree(size_t helpers, Shape shape) {
  KINTSUGI_ASSERT(shape != Shape::kAuto);
  if (shape == Shape::kPpr) return binomial_tree(helpers);
  std::vector<TreeNode> children;
  if (shape == Shape::kStar) {
    for (size_t i = 0; i < helpers; ++i)
      children.push_back({.helper = i});
    return children;
  }
  for (size_t i = helpers; i-- > 0;) {
    TreeNode node{.helper = i, .children = std::move(children)};
    children.clear();
    children.push_back(std::move(node));
  }
  return children;
}

uint32_t timesteps(std::span<const TreeNode> children_of_root) {
  uint32_t now = 0;
  for (const TreeNode& child : children_of_root)
    now = std::max(now, timesteps(child.children)) + 1;
  return now;
}

uint32_t max_fan_in(std::span<const TreeNode> children_of_root) {
  auto most = static_cast<uint32_t>(children_of_root.size());
  for (const TreeNode& child : children_of_root)
    most = std::max(most, max_fan_in(child.children));
  return most;
}

uint32_t depth(std::span<const TreeNode> children_of_root) {
  uint32_t deepest = 0;
  for (const TreeNode& child : children_of_root)
    deepest = std::max(deepest, depth(child.children) + 1);
  return deepest;
}

void write_tree(std::span<const TreeNode> tree, std::span<const HelperNode> helpers,
                google::protobuf::RepeatedPtrField<proto::RepairNode>* out) {
  for (const TreeNode& node : tree) {
    const HelperNode& helper = helpers[node.helper];
    proto::RepairNode* written = out->Add();
    written->set_server_id(helper.server.value);
    written->set_address(helper.address.to_string());
    written->set_index(helper.index);
    written->set_chunk_length(helper.chunk_length);
    written->set_coefficients(helper.coefficients.data(), helper.coefficients.size());
    written->set_capability(helper.capability);
    write_tree(node.children, helpers, written->mutable_children());
  }
}

}  // namespace kintsugi::repair_manager
