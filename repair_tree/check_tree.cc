#include "repair_tree/check_tree.h"

#include <set>

#include "common/runtime/network.h"
#include "repair_tree/sum_range.h"

namespace kintsugi::repair_tree {
namespace {

using Children = google::protobuf::RepeatedPtrField<proto::RepairNode>;

Status invalid(std::string why) {
  return {Code::kInvalidArgument, "repair tree: " + std::move(why)};
}

// Recursion is bounded: a node is counted before its children are looked at.
Status check_node(const proto::RepairNode& node, uint32_t sums, std::set<uint32_t>& seen) {
  if (seen.size() >= kMaxTreeNodes) return invalid(fmt::format("more than {} nodes", kMaxTreeNodes));
  if (!seen.insert(node.index()).second) return invalid(fmt::format("chunk {} helps twice", node.index()));
  if (node.coefficients().size() != sums) {
    return invalid(fmt::format("{} coefficients for {} sums", node.coefficients().size(), sums));
  }
  if (node.chunk_length() > kMaxSumBytes) return invalid("impossible chunk length");
  for (const proto::RepairNode& child : node.children()) {
    auto address = runtime::Endpoint::parse(child.address());
    if (!address) return invalid(fmt::format("'{}' is no address", child.address()));
    KINTSUGI_TRY(check_node(child, sums, seen));
  }
  return {};
}

void collect(StripeId stripe, const Children& children, std::string& text) {
  for (const proto::RepairNode& child : children) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{}", ChunkId{stripe, child.index()});
    collect(stripe, child.children(), text);
  }
}

}  // namespace

Status check_children(const Children& children, uint32_t sums) {
  std::set<uint32_t> seen;
  for (const proto::RepairNode& child : children) {
    auto address = runtime::Endpoint::parse(child.address());
    if (!address) return invalid(fmt::format("'{}' is no address", child.address()));
    KINTSUGI_TRY(check_node(child, sums, seen));
  }
  return {};
}

Status check_tree(const proto::RepairNode& node, uint32_t sums) {
  std::set<uint32_t> seen;
  return check_node(node, sums, seen);
}

std::string describe_helpers(StripeId stripe, const Children& children) {
  std::string text;
  collect(stripe, children, text);
  return text;
}

}  // namespace kintsugi::repair_tree
