/// Shapes of a repair: which helper sends its partial sum to whom. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/chunk.pb.h"
#include "common/runtime/network.h"

namespace kintsugi::repair_manager {

enum class Shape {
  kStar,   ///< every helper sends to the repair site: the traditional repair
  kPpr,    ///< binomial reduction tree: ceil(log2(k+1)) timesteps
  kChain,  ///< a path through all helpers: repair pipelining
  kAuto,   ///< whichever the cost model finds cheapest
};

/// "star", "ppr", "chain", "auto".
std::string_view shape_name(Shape shape);
/// The inverse; "" is auto. kInvalidArgument otherwise.
Result<Shape> parse_shape(std::string_view name);

/// A helper and what hangs below it. `helper` is its position in the list of helpers, best first.
struct TreeNode {
  size_t helper = 0;
  std::vector<TreeNode> children;  ///< in the order in which their sums are complete: leaves first
};

/// The children of the repair site for `helpers` helpers. The first helpers get the places with the most
/// children, since they are the least busy. `shape` must not be kAuto.
std::vector<TreeNode> plan_tree(size_t helpers, Shape shape);

/// Logical timesteps of an unsliced repair: in each, a server sends one sum or receives one.
uint32_t timesteps(std::span<const TreeNode> children_of_root);
/// The most sums that any participant receives, the repair site included.
uint32_t max_fan_in(std::span<const TreeNode> children_of_root);
/// Hops from the farthest leaf to the repair site.
uint32_t depth(std::span<const TreeNode> children_of_root);

/// One helper as its RepairNode will name it.
struct HelperNode {
  ServerId server;
  runtime::Endpoint address;
  uint32_t index = 0;                 ///< chunk of the stripe
  uint64_t chunk_length = 0;          ///< bytes
  std::vector<uint8_t> coefficients;  ///< one for each lost chunk
  std::string capability;
};

/// Appends the tree's nodes to a RepairChunkRequest or RepairNode's children.
void write_tree(std::span<const TreeNode> tree, std::span<const HelperNode> helpers,
                google::protobuf::RepeatedPtrField<proto::RepairNode>* out);

}  // namespace kintsugi::repair_manager
