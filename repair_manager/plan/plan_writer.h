/// Writes repair trees as messages: coefficients, rows, chunks to be stored and slices.
#pragma once

#include <string>

#include "common/base/ids.h"
#include "common/proto/repair.pb.h"
#include "erasure/repair_equation.h"
#include "repair_manager/trees/tree_plan.h"

namespace kintsugi::repair_manager {

using RepairNodes = google::protobuf::RepeatedPtrField<proto::RepairNode>;

/// One helper as its RepairNode will name it.
struct HelperNode {
  ServerId server;
  std::string name;
  std::string address;
  uint32_t index = 0;         ///< index of the chunk in its stripe
  uint64_t chunk_length = 0;  ///< bytes
  std::string capability;
};

/// Appends the nodes of a tree that computes `sums` sums (lost chunks x rows) by `equation` to the children
/// of a root, or of a node that stores. Positions in the tree are those in `helpers`; a helper without a term
/// in the equation is left out, and its children take its place. A leaf that reads fewer rows than there are
/// sums sends the rows as they are, and its parent multiplies them.
void write_tree(std::span<const TreeNode> tree, std::span<const HelperNode> helpers,
                const erasure::RepairEquation& equation, RepairNodes* out);

/// A lost chunk that is rebuilt beside the root's own one.
struct StoringNode {
  ServerId server;
  std::string name;
  std::string address;
  proto::RebuiltChunk chunk;  ///< first_sum is filled in here
};

/// Appends a path of nodes that store, first the one next to the root, and returns the children of the last.
/// With the root's chunk first, node i keeps the sums of chunks 0..i, stores the last of these and sends the
/// others on.
RepairNodes* write_storing_path(std::span<const StoringNode> path, uint32_t rows, RepairNodes* out);

/// Has the nodes from number `first` on carry only the slices of the mask.
void set_slices(uint32_t period, uint64_t mask, int first, RepairNodes* nodes);

}  // namespace kintsugi::repair_manager
