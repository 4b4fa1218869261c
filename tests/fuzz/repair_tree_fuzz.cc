// Repair trees: recursive messages that chunkservers and clients send each other. What check_tree() accepts can be summed
// up without another check.
#include <numeric>

#include "partial_sum/check_tree.h"
#include "partial_sum/slice_window.h"
#include "partial_sum/sum_matrix.h"
#include "tests/fuzz/subject.h"

namespace kintsugi::fuzz {
namespace {

using namespace partial_sum;
using proto::PartialSumRequest;
using proto::RepairNode;

/// Sums of that few bytes are computed for real.
constexpr size_t kSummedBytes = 33;

RepairNode helper(uint32_t index, uint32_t rows, uint32_t sums) {
  RepairNode node;
  node.set_server_id(100 + index);
  node.set_address(fmt::format("10.0.0.{}:7000", index));
  node.set_index(index);
  node.set_chunk_length(1 << 20);
  node.set_coefficients(std::string(size_t{rows} * sums, static_cast<char>(index + 3)));
  return node;
}

RepairNode destination(uint32_t server, uint32_t index, uint32_t rows, uint32_t first_sum) {
  RepairNode node;
  node.set_server_id(server);
  node.set_address("[::1]:7001");
  proto::RebuiltChunk& store = *node.add_stores();
  store.set_index(index);
  store.set_policy("rs-6-3-1024k");
  store.set_length(1 << 20);
  store.set_first_sum(first_sum);
  node.set_sums(first_sum + rows);
  return node;
}

PartialSumRequest request_of(RepairNode node, uint32_t rows = 1) {
  PartialSumRequest request;
  request.set_stripe_id(81);
  request.set_length((1 << 20) / rows);
  request.set_slice_bytes(128 << 10);
  if (rows > 1) {
    request.set_rows(rows);
    request.set_cell_bytes(1 << 20);
  }
  *request.mutable_node() = std::move(node);
  return request;
}

std::vector<PartialSumRequest> requests() {
  std::vector<PartialSumRequest> all;
  all.push_back(request_of(helper(0, 1, 1)));

  RepairNode chain = helper(5, 1, 1);
  for (uint32_t index = 0; index < 5; ++index) {
    RepairNode above = helper(index, 1, 1);
    *above.add_children() = std::move(chain);
    chain = std::move(above);
  }
  all.push_back(request_of(chain));

  RepairNode star = helper(0, 1, 2);
  for (uint32_t index = 1; index < 6; ++index)
    *star.add_children() = helper(index, 1, 2);
  star.mutable_children(0)->add_outputs(1);
  star.mutable_children(0)->set_combine("\3\7");
  all.push_back(request_of(star));
  all.back().set_slice_period(6);
  all.back().set_slice_mask(0b101);

  RepairNode rotated = helper(0, 4, 4);
  RepairNode some_rows = helper(1, 2, 4);
  some_rows.add_own_rows(1);
  some_rows.add_own_rows(3);
  some_rows.add_outputs(2);
  some_rows.add_outputs(0);
  some_rows.set_combine(std::string("\0\1\2\3\4\5\6\7", 8));
  *rotated.add_children() = some_rows;
  all.push_back(request_of(rotated, 4));

  RepairNode two_lost = destination(9, 7, 1, 1);
  *two_lost.add_children() = helper(1, 1, 2);
  *two_lost.add_children() = helper(2, 1, 2);
  two_lost.add_outputs(0);
  all.push_back(request_of(two_lost));

  RepairNode aggregator;
  aggregator.set_server_id(8);
  aggregator.set_address("storage-8:7000");
  aggregator.set_sums(1);
  *aggregator.add_children() = helper(3, 1, 1);
  *aggregator.add_children() = helper(4, 1, 1);
  for (RepairNode& child : *aggregator.mutable_children()) {
    child.set_slice_period(3);
    child.set_slice_mask(0b110);
  }
  all.push_back(request_of(aggregator));
  all.back().set_slice_period(3);
  all.back().set_slice_mask(0b110);
  return all;
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const PartialSumRequest& request : requests())
    all.push_back(request.SerializeAsString());
  return all;
}

size_t count_nodes(const RepairNode& node) {
  size_t nodes = 1;
  for (const RepairNode& child : node.children())
    nodes += count_nodes(child);
  return nodes;
}

/// Bytes that stand for output `number` of a chunk or child.
std::vector<std::byte> some_input(uint32_t number) {
  std::vector<std::byte> bytes(kSummedBytes);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(number * 29 + i * 7 + 1);
  return bytes;
}

/// Adds all inputs of a node as ChildSum and OwnSum do, and compares with the definition of a matrix product.
void check_matrix(const SumMatrix& matrix, std::string_view coefficients, uint32_t sums, uint32_t inputs) {
  require(matrix.inputs() == inputs, "a matrix has a column for each input");
  require(!matrix.is_identity() || inputs <= sums, "unchanged inputs have sums of their own");
  std::vector<std::vector<std::byte>> got(sums, std::vector<std::byte>(kSummedBytes, std::byte{0xAA})),
      expected(sums);
  std::vector<std::span<std::byte>> views(got.begin(), got.end());
  for (auto& sum : expected)
    sum.resize(kSummedBytes);
  for (uint32_t input = 0; input < inputs; ++input) {
    const auto bytes = some_input(input);
    matrix.add(input, bytes, views, input == 0);
    for (uint32_t sum = 0; sum < sums; ++sum) {
      const auto factor = static_cast<uint8_t>(coefficients[size_t{sum} * inputs + input]);
      const std::array<uint8_t, 1> factors{factor};
      const std::array<std::span<std::byte>, 1> into{expected[sum]};
      erasure::multiply_add(factors, bytes, into);
    }
  }
  require(got == expected, "a matrix adds what its coefficients say");
}

std::string identity(uint32_t sums, uint32_t inputs) {
  std::string coefficients(size_t{sums} * inputs, '\0');
  for (uint32_t i = 0; i < inputs; ++i)
    coefficients[size_t{i} * inputs + i] = 1;
  return coefficients;
}

void check_range(const SumRange& range) {
  require(range.length <= kMaxSumBytes && range.offset <= kMaxSumBytes - range.length,
          "a range lies in a chunk");
  require(range.offset % range.sub_cell_bytes() == 0, "a range begins with a sub-cell");
  require(!range.sliced() || range.slice_bytes % range.sub_cell_bytes() == 0, "slices are whole sub-cells");
  require(range.slice_bytes > 0 && range.slice_bytes * range.sums <= kMaxSliceMemoryBytes,
          "a slice's memory is limited");
  size_t slice = 0, ordinal = 0;
  uint64_t end = 0;
  for (; slice < range.slices(); ++slice) {
    require(range.begin_of(slice) == end && range.bytes_of(slice) > 0, "slices follow each other");
    end += range.bytes_of(slice);
    if (!range.mask.carries(slice)) continue;
    require(range.carried_slice(ordinal) == slice, "carried slices are counted in order");
    ++ordinal;
  }
  require(end == range.length, "slices cover their range");
  require(ordinal == range.carried_slices(), "carried slices are counted");
}

/// The node's own part of the sums, what it would keep in memory, and that it can take in what its children send.
void check_node(const RepairNode& node, const SumRange& range) {
  WindowSize::Node window{.children = static_cast<size_t>(node.children_size()), .own = has_chunk(node)};
  window.whole_cells = range.rows > 1 && !node.stores().empty();
  window.plain_child = node.children_size() == 1 && node.children(0).combine().empty();
  const WindowSize size = WindowSize::choose(range, window);
  require(size.unit_bytes > 0 && size.piece_bytes > 0 && size.own_bytes > 0,
          "a node has memory to work with");

  if (has_chunk(node)) {
    const uint32_t own = own_rows_of(node, range.rows);
    require(own >= 1 && own <= range.rows, "a node reads rows that are there");
    check_matrix(SumMatrix(node.coefficients(), range.sums, own), node.coefficients(), range.sums, own);
  }
  for (const uint32_t output : node.outputs())
    require(output < range.sums, "a node sends sums that it keeps");
  for (const proto::RebuiltChunk& store : node.stores())
    require(uint64_t{store.first_sum()} + range.rows <= range.sums, "a chunk is made of sums that are there");
  for (const RepairNode& child : node.children()) {
    const uint32_t outputs = outputs_of(child, range.rows);
    require(outputs >= 1, "a child sends something");
    if (child.combine().empty()) {
      check_matrix(SumMatrix::identity(range.sums, outputs), identity(range.sums, outputs), range.sums,
                   outputs);
    } else {
      check_matrix(SumMatrix(child.combine(), range.sums, outputs), child.combine(), range.sums, outputs);
    }
  }
}

/// An accepted request can be served, and what is sent on to the children is accepted there.
void check_accepted(const PartialSumRequest& request) {
  const RepairNode& node = request.node();
  const uint32_t rows = std::max<uint32_t>(request.rows(), 1);
  const auto range = SumRange::make(request, sums_of(node, rows));
  require(range.has_value(), "the range of an accepted tree is one for all of its sums");
  check_range(*range);
  check_node(node, *range);
  describe_helpers(StripeId{request.stripe_id()}, node.children());
  for (const RepairNode& child : node.children()) {
    require(!child.address().empty(), "a child has an address");
    PartialSumRequest forwarded = request;  // as ChildSum does
    *forwarded.mutable_node() = child;
    if (child.slice_period() != 0) {
      forwarded.set_slice_period(child.slice_period());
      forwarded.set_slice_mask(child.slice_mask());
    }
    const Status status = check_tree(forwarded);
    require(status.ok(), "a subtree of an accepted tree is accepted: " + status.to_string());
    check_accepted(forwarded);
  }
}

void check_refused(const Status& status) {
  require(status.code() == Code::kInvalidArgument || status.code() == Code::kLimitExceeded,
          "a tree that is no good is an invalid argument, or beyond a limit");
  require_one_line(status.message());
}

/// The children as those of a root that keeps a chunk's rows: what RepairChunk and degraded reads check.
void check_as_root(const PartialSumRequest& request) {
  const auto range = SumRange::make(request, std::max<uint32_t>(request.rows(), 1));
  if (!range) return check_refused(range.error());
  SumRange whole = *range;
  whole.mask = {};
  constexpr uint32_t kRebuilt = 8;
  const Status status = check_children(whole, request.node().children(), kRebuilt);
  if (!status.ok()) return check_refused(status);
  RepairNode root;
  root.set_sums(whole.sums);
  *root.mutable_children() = request.node().children();
  check_node(root, whole);
  for (size_t slice = 0; slice < whole.slices(); ++slice) {
    const auto& children = root.children();
    require(std::any_of(children.begin(), children.end(),
                        [&](const RepairNode& child) {
                          return SliceMask{child.slice_period(), child.slice_mask()}.carries(slice);
                        }),
            "every slice is carried by a tree");
  }
  for (const RepairNode& child : root.children()) {
    PartialSumRequest forwarded = request;
    *forwarded.mutable_node() = child;
    forwarded.set_slice_period(child.slice_period());
    forwarded.set_slice_mask(child.slice_mask());
    const Status accepted = check_tree(forwarded);
    require(accepted.ok(), "a tree of an accepted root is accepted: " + accepted.to_string());
    check_accepted(forwarded);
  }
}

void check(std::string_view input) {
  PartialSumRequest request;
  if (!request.ParseFromArray(input.data(), static_cast<int>(input.size()))) return;
  const Status status = check_tree(request);
  if (status.ok()) {
    require(count_nodes(request.node()) <= kMaxTreeNodes, "a tree has at most kMaxTreeNodes nodes");
    check_accepted(request);
  } else {
    check_refused(status);
  }
  check_as_root(request);
}

// Changes of the message itself ------------------------------------------------------------------------------------------

uint64_t some_number(std::mt19937_64& random) {
  static constexpr std::array<uint64_t, 14> kLimits = {
      0, 1, 2, 4, 8, 32, 64, 127, 128, 129, 256ull << 20, 1ull << 31, UINT32_MAX, UINT64_MAX};
  return random() % 2 == 0 ? random() % 9 : kLimits[random() % kLimits.size()];
}

RepairNode& random_node(RepairNode& root, std::mt19937_64& random) {
  RepairNode* node = &root;
  while (!node->children().empty() && random() % 3 != 0)
    node = node->mutable_children(static_cast<int>(random() % node->children_size()));
  return *node;
}

void change_numbers(google::protobuf::RepeatedField<uint32_t>& numbers, std::mt19937_64& random) {
  if (random() % 4 == 0) {
    numbers.Clear();
  } else if (!numbers.empty() && random() % 2 == 0) {
    numbers.Set(static_cast<int>(random() % numbers.size()), static_cast<uint32_t>(some_number(random)));
  } else {
    numbers.Add(static_cast<uint32_t>(some_number(random)));
  }
}

std::string some_bytes(size_t size, std::mt19937_64& random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes)
    byte = static_cast<char>(random() % 3 == 0 ? random() : random() % 2);
  return bytes;
}

void change_stores(RepairNode& node, std::mt19937_64& random) {
  if (node.stores().empty() || random() % 4 == 0) {
    node.mutable_stores()->MergeFrom(destination(9, random() % 33, 1, random() % 5).stores());
    return;
  }
  proto::RebuiltChunk& store = *node.mutable_stores(static_cast<int>(random() % node.stores_size()));
  switch (random() % 5) {
    case 0: node.clear_stores(); break;
    case 1: store.set_index(static_cast<uint32_t>(some_number(random))); break;
    case 2: store.set_first_sum(static_cast<uint32_t>(some_number(random))); break;
    case 3: store.set_length(some_number(random)); break;
    case 4: store.set_policy(std::string(random() % 70, 'p')); break;
  }
}

void change_node(RepairNode& node, uint32_t rows, std::mt19937_64& random) {
  const uint32_t own = own_rows_of(node, rows), sums = sums_of(node, rows), outputs = outputs_of(node, rows);
  // Sizes that fit are right more often than not.
  const size_t off = random() % 4 == 0 ? random() % 3 : 0;
  switch (random() % 13) {
    case 0: node.set_index(static_cast<uint32_t>(random() % 34)); break;
    case 1: node.set_sums(static_cast<uint32_t>(some_number(random))); break;
    case 2: change_numbers(*node.mutable_outputs(), random); break;
    case 3: change_numbers(*node.mutable_own_rows(), random); break;
    case 4:
      node.set_coefficients(some_bytes(std::min<size_t>(size_t{sums} * own, 2048) + off, random));
      break;
    case 5: node.set_coefficients(some_bytes(random() % 130 * own, random)); break;
    case 6: node.clear_coefficients(); break;
    case 7: node.set_combine(some_bytes(std::min<size_t>(size_t{sums} * outputs, 4096) + off, random)); break;
    case 8: node.clear_combine(); break;
    case 9: change_stores(node, random); break;
    case 10: node.set_chunk_length(some_number(random)); break;
    case 11: node.set_address(random() % 2 == 0 ? "host:1" : some_bytes(random() % 12, random)); break;
    case 12:
      node.set_slice_period(static_cast<uint32_t>(some_number(random)));
      node.set_slice_mask(some_number(random));
      break;
  }
}

void change_shape(RepairNode& root, std::mt19937_64& random) {
  RepairNode& node = random_node(root, random);
  RepairNode other = random_node(root, random);
  switch (random() % 4) {
    case 0: node.clear_children(); break;
    case 1: *node.add_children() = helper(random() % 33, 1, 1); break;
    case 2: *node.add_children() = other; break;
    case 3:  // between the node and its children
      other.clear_children();
      *other.mutable_children() = node.children();
      node.clear_children();
      *node.add_children() = other;
      break;
  }
}

void change_request(PartialSumRequest& request, std::mt19937_64& random) {
  switch (random() % 7) {
    case 0: request.set_offset(random() % 2 == 0 ? some_number(random) : random() % 20 << 16); break;
    case 1: request.set_length(random() % 2 == 0 ? some_number(random) : random() % (4 << 20)); break;
    case 2: request.set_slice_bytes(random() % 2 == 0 ? some_number(random) : random() % (4 << 20)); break;
    case 3: request.set_rows(static_cast<uint32_t>(some_number(random))); break;
    case 4:
      request.set_cell_bytes(random() % 2 == 0 ? some_number(random) : (1 + random() % 16) << 18);
      break;
    case 5:
      request.set_slice_period(static_cast<uint32_t>(some_number(random)));
      request.set_slice_mask(random());
      break;
    case 6:  // the masks of a root's trees
      for (RepairNode& child : *request.mutable_node()->mutable_children()) {
        child.set_slice_period(random() % 8 == 0 ? 0 : 5);
        child.set_slice_mask(random() % 32);
      }
      break;
  }
}

// Messages that grow further would be refused all the same.
constexpr size_t kMaxMessageBytes = 16 << 10;

void mutate(std::string& input, std::mt19937_64& random) {
  PartialSumRequest request;
  if (!request.ParseFromString(input)) {
    const auto all = requests();
    request = all[random() % all.size()];
  }
  const uint32_t rows = std::clamp<uint32_t>(request.rows(), 1, kMaxRows);
  switch (random() % 4) {
    case 0: change_request(request, random); break;
    case 1: change_shape(*request.mutable_node(), random); break;
    default: change_node(random_node(*request.mutable_node(), random), rows, random); break;
  }
  if (request.ByteSizeLong() <= kMaxMessageBytes) input = request.SerializeAsString();
}

const Registration registration{{"repair_tree", seeds, check, mutate}};

}  // namespace
}  // namespace kintsugi::fuzz
