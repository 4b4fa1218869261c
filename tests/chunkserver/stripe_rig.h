/// One RS(6,3) stripe on nine chunkservers, and a tenth that repairs.
#pragma once

#include "tests/chunkserver/cluster_rig.h"
#include "tests/erasure/encode_row.h"

namespace kintsugi::chunkserver {

enum class TestShape { kStar, kChain, kBinomial };

class StripeRig : public ClusterRig {
 public:
  static constexpr uint32_t kData = 6, kParity = 3;
  static constexpr size_t kRoot = 9;
  static constexpr uint64_t kStripe = 81;

  /// Chunk i is on server i. Lengths of the data chunks; the longest one is that of the parity.
  explicit StripeRig(std::vector<size_t> lengths, uint64_t seed = 1) : ClusterRig(10, seed) {
    size_t longest = 0;
    std::vector<std::span<const std::byte>> cells;
    for (uint32_t i = 0; i < kData; ++i) {
      chunks.push_back(chunk_bytes(lengths.at(i), seed * 100 + i));
      longest = std::max(longest, lengths[i]);
    }
    for (uint32_t i = 0; i < kParity; ++i)
      chunks.emplace_back(longest);
    std::vector<std::span<std::byte>> parity;
    for (uint32_t i = 0; i < kData; ++i)
      cells.emplace_back(chunks[i]);
    for (uint32_t i = 0; i < kParity; ++i)
      parity.emplace_back(chunks[kData + i]);
    erasure::encode_row(*code, cells, parity);
    for (uint32_t i = 0; i < chunks.size(); ++i) {
      Status stored = put(i, chunk(i), chunks[i]);
      KINTSUGI_ASSERT(stored.ok());
    }
  }

  ChunkId chunk(uint32_t index) const { return {StripeId(kStripe), index}; }

  /// Nodes of the helpers with their coefficients for the lost chunks, joined to trees; the result hangs
  /// below the root.
  std::vector<proto::RepairNode> tree(std::vector<uint32_t> lost, std::vector<uint32_t> helpers,
                                      TestShape shape) {
    auto equation = erasure::repair_equation(*code, lost, helpers);
    KINTSUGI_ASSERT(equation);
    std::vector<proto::RepairNode> nodes;
    for (const auto& term : equation->terms) {
      proto::RepairNode& node = nodes.emplace_back();
      node.set_server_id(id(term.helper).value);
      node.set_address(endpoint(term.helper).to_string());
      node.set_index(term.helper);
      node.set_chunk_length(chunks[term.helper].size());
      node.set_coefficients(std::string(term.coefficients.begin(), term.coefficients.end()));
      node.set_capability(capability(chunk(term.helper), rpc::kOpRepair));
    }
    if (shape == TestShape::kStar) return nodes;
    // Node i (from 1; 0 is the root) is a child of a lower one; joined from the last one on.
    std::vector<proto::RepairNode> top;
    for (size_t i = nodes.size(); i >= 1; --i) {
      size_t parent = shape == TestShape::kChain ? i - 1 : i & (i - 1);
      if (parent == 0) {
        top.insert(top.begin(), nodes[i - 1]);
      } else {
        *nodes[parent - 1].add_children() = nodes[i - 1];
      }
    }
    return top;
  }

  proto::RepairChunkRequest repair_request(uint32_t lost, TestShape shape, uint64_t slice_bytes) {
    std::vector<uint32_t> helpers;
    for (uint32_t i = 0; i < chunks.size() && helpers.size() < kData; ++i) {
      if (i != lost) helpers.push_back(i);
    }
    proto::RepairChunkRequest request;
    request.set_stripe_id(kStripe);
    request.set_index(lost);
    request.set_policy(kTestPolicy);
    request.set_length(chunks[lost].size());
    request.set_crc(crc32c(chunks[lost]));
    request.set_slice_bytes(slice_bytes);
    request.set_capability(capability(chunk(lost), rpc::kOpWrite));
    for (const proto::RepairNode& node : tree({lost}, helpers, shape))
      *request.add_children() = node;
    return request;
  }

  /// No call runs any more and no buffer is out.
  void expect_all_quiet() {
    simulation.run_for(100ms);
    for (Server& server : servers) {
      if (!server.server) continue;
      EXPECT_EQ(server.server->counters().repairs_running, 0u);
      EXPECT_EQ(server.server->buffers().free(),
                server.server->buffers().region().size() / ChunkServer::kBufferBytes);
      EXPECT_EQ(server.server->store().open_writers(), 0u);
    }
  }

  std::shared_ptr<const erasure::Code> code = erasure::Code::get({.k = kData, .m = kParity});
  std::vector<std::vector<std::byte>> chunks;
};

}  // namespace kintsugi::chunkserver
