/// Chunks of any lengths on simulated chunkservers, any matrix between them, and trees of any form over it:
/// what a tree gives is compared with what the matrix says.
#pragma once

#include <random>

#include "erasure/layout.h"
#include "partial_sum/check_tree.h"
#include "partial_sum/sum_receiver.h"
#include "tests/chunkserver/cluster_rig.h"

namespace kintsugi::chunkserver {

/// sums[s] = XOR over helpers h and rows r of coefficient(s, h, r) * sub-chunk (h, r). Helper h is chunk h on
/// server h, the lost chunk i is number kFirstLost + i and comes back on server kFirstLost + i.
struct Equation {
  static constexpr uint32_t kFirstLost = 8;
  uint64_t stripe = 1;
  uint32_t rows = 1;
  uint64_t cell_bytes = 0;
  std::vector<std::vector<std::byte>> helpers;
  std::vector<uint64_t> lost_lengths;
  std::vector<uint8_t> numbers;

  uint32_t sums() const { return static_cast<uint32_t>(lost_lengths.size()) * rows; }
  uint8_t coefficient(uint32_t sum, uint32_t helper, uint32_t row) const {
    return numbers[(sum * helpers.size() + helper) * rows + row];
  }
  uint64_t longest() const {
    uint64_t bytes = 0;
    for (const auto& helper : helpers)
      bytes = std::max<uint64_t>(bytes, helper.size());
    for (uint64_t lost : lost_lengths)
      bytes = std::max(bytes, lost);
    return bytes;
  }
  uint64_t sub_chunk_bytes() const { return erasure::sub_chunk_bytes(longest(), rows, cell_bytes); }

  std::vector<std::byte> sub_chunk(uint32_t helper, uint32_t row) const {
    std::vector<std::byte> bytes(sub_chunk_bytes());
    const uint64_t sub_cell = rows > 1 ? cell_bytes / rows : bytes.size();
    for (uint64_t at = 0; at < bytes.size(); ++at) {
      const uint64_t from = rows > 1 ? at / sub_cell * cell_bytes + row * sub_cell + at % sub_cell : at;
      if (from < helpers[helper].size()) bytes[at] = helpers[helper][from];
    }
    return bytes;
  }
  std::vector<std::vector<std::byte>> expected_sums() const {
    std::vector<std::vector<std::byte>> result(sums(), std::vector<std::byte>(sub_chunk_bytes()));
    for (uint32_t helper = 0; helper < helpers.size(); ++helper) {
      for (uint32_t row = 0; row < rows; ++row) {
        const std::vector<std::byte> in = sub_chunk(helper, row);
        for (uint32_t sum = 0; sum < sums(); ++sum) {
          const std::array<uint8_t, 1> factor{coefficient(sum, helper, row)};
          const std::span<std::byte> to(result[sum]);
          erasure::multiply_add(factor, in, std::span(&to, 1));
        }
      }
    }
    return result;
  }
  /// The bytes of a lost chunk, made from the sums.
  std::vector<std::byte> lost(uint32_t number, const std::vector<std::vector<std::byte>>& all) const {
    std::vector<std::byte> bytes(lost_lengths[number]);
    const uint64_t sub_cell = rows > 1 ? cell_bytes / rows : sub_chunk_bytes();
    for (uint64_t at = 0; at < bytes.size(); ++at) {
      const uint64_t cell = rows > 1 ? at / cell_bytes : 0, row = rows > 1 ? at % cell_bytes / sub_cell : 0;
      const uint64_t from = rows > 1 ? cell * sub_cell + at % sub_cell : at;
      bytes[at] = all[number * rows + row][from];
    }
    return bytes;
  }
};

inline Equation random_equation(std::mt19937_64& random, uint64_t stripe) {
  Equation equation;
  equation.stripe = stripe;
  if (random() % 3 == 0) {
    equation.rows = 2 + 2 * (random() % 2);
    equation.cell_bytes = equation.rows * kBlockBytes * (1 + random() % 2);
  }
  const size_t helpers = 1 + random() % Equation::kFirstLost;
  const uint64_t longest = 1 + random() % (1200 * 1024);
  for (size_t i = 0; i < helpers; ++i) {
    const uint64_t length = i == 0 ? longest : random() % 3 == 0 ? random() % (longest + 1) : longest;
    equation.helpers.push_back(chunk_bytes(length, random()));
  }
  const size_t lost = 1 + random() % 3;
  for (size_t i = 0; i < lost; ++i)
    equation.lost_lengths.push_back(i == 0 || random() % 2 == 0 ? longest : 1 + random() % longest);
  equation.numbers.resize(equation.sums() * helpers * equation.rows);
  for (uint8_t& number : equation.numbers)
    number = random() % 4 == 0 ? random() % 2 : random();
  return equation;
}

class TreeRig : public ClusterRig {
 public:
  explicit TreeRig(uint64_t seed = 1) : ClusterRig(Equation::kFirstLost + 3, seed) {}

  void store_helpers(const Equation& equation) {
    for (uint32_t i = 0; i < equation.helpers.size(); ++i) {
      Status stored = put(i, {StripeId(equation.stripe), i}, equation.helpers[i]);
      KINTSUGI_ASSERT(stored.ok());
    }
  }

  proto::RepairNode node_on(size_t server) {
    proto::RepairNode node;
    node.set_server_id(id(server).value);
    node.set_address(endpoint(server).to_string());
    return node;
  }

  /// The helper with all its rows, for the equation's first `sums` sums.
  proto::RepairNode helper_node(const Equation& equation, uint32_t helper, uint32_t sums) {
    proto::RepairNode node = node_on(helper);
    node.set_index(helper);
    node.set_chunk_length(equation.helpers[helper].size());
    std::string coefficients;
    for (uint32_t sum = 0; sum < sums; ++sum) {
      for (uint32_t row = 0; row < equation.rows; ++row)
        coefficients.push_back(static_cast<char>(equation.coefficient(sum, helper, row)));
    }
    node.set_coefficients(coefficients);
    if (equation.rows > 1) node.set_sums(sums);
    node.set_capability(capability({StripeId(equation.stripe), helper}, rpc::kOpRepair));
    return node;
  }

  /// The helper as a leaf that sends its rows as they are; the parent multiplies.
  proto::RepairNode raw_leaf(const Equation& equation, uint32_t helper, uint32_t sums) {
    proto::RepairNode node = helper_node(equation, helper, sums);
    node.set_combine(node.coefficients());
    node.set_sums(equation.rows);
    std::string identity(equation.rows * equation.rows, '\0');
    for (uint32_t row = 0; row < equation.rows; ++row)
      identity[row * equation.rows + row] = 1;
    node.set_coefficients(identity);
    return node;
  }

  /// All helpers in a random forest that hangs below somebody who keeps `sums` sums.
  std::vector<proto::RepairNode> random_forest(const Equation& equation, uint32_t sums,
                                               std::mt19937_64& random) {
    std::vector<uint32_t> order(equation.helpers.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const int style = random() % 3;  // anything, chain, star
    std::vector<std::vector<size_t>> below(order.size() + 1);
    for (size_t i = 0; i < order.size(); ++i)
      below[style == 0 ? random() % (i + 1) : style == 1 ? i : 0].push_back(i + 1);
    return forest_of(equation, sums, order, below, 0, random);
  }

  proto::RepairChunkRequest request_for(const Equation& equation,
                                        const std::vector<std::vector<std::byte>>& lost) {
    proto::RepairChunkRequest request;
    request.set_stripe_id(equation.stripe);
    request.set_index(Equation::kFirstLost);
    request.set_policy(kTestPolicy);
    request.set_length(lost[0].size());
    request.set_crc(crc32c(lost[0]));
    if (equation.rows > 1) request.set_rows(equation.rows);
    request.set_cell_bytes(equation.cell_bytes);
    request.set_capability(capability({StripeId(equation.stripe), Equation::kFirstLost}, rpc::kOpWrite));
    return request;
  }

  /// The destination of lost chunk `number`, which passes on the sums of those before it.
  proto::RepairNode destination(const Equation& equation, uint32_t number,
                                const std::vector<std::byte>& lost) {
    proto::RepairNode node = node_on(Equation::kFirstLost + number);
    node.set_sums((number + 1) * equation.rows);
    for (uint32_t sum = 0; sum < number * equation.rows; ++sum)
      node.add_outputs(sum);
    proto::RebuiltChunk& store = *node.add_stores();
    store.set_index(Equation::kFirstLost + number);
    store.set_policy(kTestPolicy);
    store.set_length(lost.size());
    store.set_crc(crc32c(lost));
    store.set_first_sum(number * equation.rows);
    store.set_capability(
        capability({StripeId(equation.stripe), Equation::kFirstLost + number}, rpc::kOpWrite));
    return node;
  }

  /// The memory that a node may take, as WindowSize promises.
  static uint64_t memory_bound(const proto::RepairNode& node, uint32_t rows, uint64_t slice_bytes) {
    return (std::max(node.children_size(), 1) + 2) * std::max<uint64_t>(slice_bytes, kBlockBytes) *
           partial_sum::sums_of(node, rows);
  }

 private:
  std::vector<proto::RepairNode> forest_of(const Equation& equation, uint32_t sums,
                                           const std::vector<uint32_t>& order,
                                           const std::vector<std::vector<size_t>>& below, size_t at,
                                           std::mt19937_64& random) {
    std::vector<proto::RepairNode> nodes;
    for (size_t child : below[at]) {
      const bool raw = below[child].empty() && random() % 3 == 0;
      proto::RepairNode node =
          raw ? raw_leaf(equation, order[child - 1], sums) : helper_node(equation, order[child - 1], sums);
      for (proto::RepairNode& deeper : forest_of(equation, sums, order, below, child, random))
        *node.add_children() = std::move(deeper);
      nodes.push_back(std::move(node));
    }
    return nodes;
  }
};

}  // namespace kintsugi::chunkserver
