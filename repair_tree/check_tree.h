/// Checks of the trees that come over the wire.
#pragma once

#include <string>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/chunk.pb.h"

namespace kintsugi::repair_tree {

inline constexpr size_t kMaxTreeNodes = 32;

/// kInvalidArgument unless all nodes below together are at most kMaxTreeNodes, name different chunks of the
/// stripe, their servers' addresses parse, and each has `sums` coefficients.
Status check_children(const google::protobuf::RepeatedPtrField<proto::RepairNode>& children, uint32_t sums);
/// The same for a tree with its top node.
Status check_tree(const proto::RepairNode& node, uint32_t sums);

/// "81:0, 81:4": the chunks of all helpers below, for messages.
std::string describe_helpers(StripeId stripe,
                             const google::protobuf::RepeatedPtrField<proto::RepairNode>& children);

}  // namespace kintsugi::repair_tree
