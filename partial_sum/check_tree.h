/// Checks repair trees that come over the wire, and says what their nodes mean.
#pragma once

#include <string>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/chunk.pb.h"
#include "partial_sum/sum_range.h"

namespace kintsugi::partial_sum {

/// Nodes of one tree: helpers, and destinations of other chunks that are rebuilt in the same pass. A root has at most
/// as many children; with slice masks each child is a tree of its own, without them all are one.
inline constexpr size_t kMaxTreeNodes = 64;
/// Length of a policy's name.
inline constexpr size_t kMaxPolicyBytes = 64;

/// Bytes of a server's name, which may be an address, and a number behind it.
inline constexpr size_t kMaxShownNameBytes = 400;

/// What an error calls the server of a node, or of a repair: its name, or its id when that is all it came with.
inline std::string shown_server(const std::string& name, uint64_t server_id) {
  return name.empty() ? std::to_string(server_id) : name.substr(0, kMaxShownNameBytes);
}

/// The node adds a chunk of its own.
inline bool has_chunk(const proto::RepairNode& node) {
  return !node.coefficients().empty();
}
/// How many sub-chunks the node reads: its own_rows, or all `rows`.
uint32_t own_rows_of(const proto::RepairNode& node, uint32_t rows);
/// How many running sums the node keeps; 0 when it does not say.
uint32_t sums_of(const proto::RepairNode& node, uint32_t rows);
/// How many of them it sends.
uint32_t outputs_of(const proto::RepairNode& node, uint32_t rows);

/// All below must hold, else kInvalidArgument (kLimitExceeded for memory) with one line that names the chunk
/// or server: at most kMaxTreeNodes nodes; helper chunks are different, and none of them is rebuilt; matrices
/// have the size of sums, rows and outputs; addresses parse; chunks are stored from whole ranges only, by
/// nodes that see every slice; masks stand at the root's children only.
Status check_tree(const proto::PartialSumRequest& request);

/// Checks the children of a root, which keeps `range.sums` sums, by the same rules; together they must carry every
/// slice of its range. `rebuilt` is the chunk that the root stores itself, which cannot help.
Status check_children(const SumRange& range,
                      const google::protobuf::RepeatedPtrField<proto::RepairNode>& children,
                      uint32_t rebuilt);

/// Names the chunks of all helpers below for messages: "81:0, 81:4".
std::string describe_helpers(StripeId stripe,
                             const google::protobuf::RepeatedPtrField<proto::RepairNode>& children);

}  // namespace kintsugi::partial_sum
