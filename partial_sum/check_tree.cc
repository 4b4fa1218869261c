#include "partial_sum/check_tree.h"

#include <map>
#include <set>

#include "common/base/quote.h"
#include "common/runtime/network.h"
#include "erasure/layout.h"

namespace kintsugi::partial_sum {
namespace {

using Children = google::protobuf::RepeatedPtrField<proto::RepairNode>;

/// Bytes of a malformed address that an error quotes, at most.
constexpr size_t kQuotedBytes = 64;

Status invalid_tree(std::string why) {
  return {Code::kInvalidArgument, "repair tree: " + std::move(why)};
}

std::string name_of(const proto::RepairNode& node) {
  return has_chunk(node) ? fmt::format("chunk {}", node.index())
                         : "server " + shown_server(node.name(), node.server_id());
}

class Checker {
 public:
  explicit Checker(const SumRange& range) : range_(range) {}

  /// Nodes are counted for each tree of its own when it has a mask.
  void begin_tree(SliceMask mask) {
    if (!mask.all()) nodes_ = 0;
  }
  void rebuild(uint32_t index) { rebuilt_.insert(index); }

  // The recursion is bounded: a node is counted before its children are looked at.
  Status check(const proto::RepairNode& node, SliceMask mask) {
    if (++nodes_ > kMaxTreeNodes) return invalid_tree(fmt::format("more than {} nodes", kMaxTreeNodes));
    KINTSUGI_TRY(check_own(node, mask));
    const uint32_t sums = sums_of(node, range_.rows);
    if (sums == 0 || sums > kMaxSums)
      return invalid_tree(fmt::format("{} with {} sums", name_of(node), sums));
    if (sums * range_.slice_bytes > kMaxSliceMemoryBytes) {
      return {Code::kLimitExceeded,
              fmt::format("repair tree: {} needs too much memory for {} sums of {} bytes", name_of(node),
                          sums, range_.slice_bytes)};
    }
    KINTSUGI_TRY(check_outputs(node, sums));
    KINTSUGI_TRY(check_stores(node, sums, mask));
    if (!has_chunk(node) && node.children().empty()) {
      return invalid_tree(fmt::format("{} has neither a chunk nor children", name_of(node)));
    }
    for (const proto::RepairNode& child : node.children()) {
      if (child.slice_period() != 0 && SliceMask{child.slice_period(), child.slice_mask()} != mask) {
        return invalid_tree(fmt::format("{} has a slice mask of its own below the root", name_of(child)));
      }
      KINTSUGI_TRY(check_child(child, sums, mask));
    }
    return {};
  }

  Status check_child(const proto::RepairNode& child, uint32_t sums, SliceMask mask) {
    auto address = runtime::Endpoint::parse(child.address());
    if (!address) return invalid_tree(fmt::format("{} is no address", quoted(child.address(), kQuotedBytes)));
    const uint32_t outputs = outputs_of(child, range_.rows);
    if (child.combine().empty() && outputs > sums) {
      return invalid_tree(fmt::format("{} sends {} sums to one who keeps {}", name_of(child), outputs, sums));
    }
    if (!child.combine().empty() && child.combine().size() != size_t{sums} * outputs) {
      return invalid_tree(fmt::format("{} combines {} numbers instead of {} x {}", name_of(child),
                                      child.combine().size(), sums, outputs));
    }
    return check(child, mask);
  }

  /// After all nodes: a chunk that is rebuilt cannot help, unless it is copied.
  Status finish() const {
    if (helpers_.size() == 1 && rebuilt_.size() == 1) return {};
    for (uint32_t index : rebuilt_) {
      if (helpers_.contains(index))
        return invalid_tree(fmt::format("chunk {} is both rebuilt and a helper", index));
    }
    return {};
  }

 private:
  Status check_own(const proto::RepairNode& node, SliceMask mask) {
    if (!has_chunk(node)) {
      if (!node.own_rows().empty())
        return invalid_tree(fmt::format("{} reads rows of no chunk", name_of(node)));
      return {};
    }
    if (node.index() >= erasure::kMaxChunks)
      return invalid_tree(fmt::format("no chunk has number {}", node.index()));
    // A tree that carries other slices may use the same chunk.
    const uint64_t slices = mask.all() ? ~uint64_t{0} : mask.bits;
    if ((helpers_[node.index()] & slices) != 0) {
      return invalid_tree(fmt::format("chunk {} helps twice", node.index()));
    }
    helpers_[node.index()] |= slices;
    if (node.chunk_length() > kMaxSumBytes) return invalid_tree("impossible chunk length");
    for (int i = 0; i < node.own_rows_size(); ++i) {
      if (node.own_rows(i) >= range_.rows || (i > 0 && node.own_rows(i) <= node.own_rows(i - 1))) {
        return invalid_tree(fmt::format("{} reads rows out of order or that are not there", name_of(node)));
      }
    }
    const size_t own = own_rows_of(node, range_.rows);
    const size_t expected = node.sums() == 0 ? node.coefficients().size() / own * own : node.sums() * own;
    if (node.coefficients().size() != expected || expected == 0) {
      return invalid_tree(fmt::format("{} has {} coefficients for {} sums of {} rows", name_of(node),
                                      node.coefficients().size(), sums_of(node, range_.rows), own));
    }
    return {};
  }

  Status check_outputs(const proto::RepairNode& node, uint32_t sums) const {
    std::set<uint32_t> seen;
    for (uint32_t output : node.outputs()) {
      if (output >= sums || !seen.insert(output).second) {
        return invalid_tree(
            fmt::format("{} sends sum {} of {}, or sends it twice", name_of(node), output, sums));
      }
    }
    return {};
  }

  Status check_stores(const proto::RepairNode& node, uint32_t sums, SliceMask mask) {
    if (node.stores().empty()) return {};
    if (!mask.all())
      return invalid_tree(fmt::format("{} stores a chunk, but sees only some slices", name_of(node)));
    for (const proto::RebuiltChunk& store : node.stores()) {
      if (store.index() >= erasure::kMaxChunks || store.policy().size() > kMaxPolicyBytes ||
          store.length() > kMaxSumBytes) {
        return invalid_tree(fmt::format("impossible chunk {} to store", store.index()));
      }
      if (!rebuilt_.insert(store.index()).second) {
        return invalid_tree(fmt::format("chunk {} is rebuilt twice", store.index()));
      }
      if (store.first_sum() >= sums || range_.rows > sums - store.first_sum()) {
        return invalid_tree(fmt::format("chunk {} is to be made of sums that are not there", store.index()));
      }
      if (range_.offset != 0 ||
          range_.length < erasure::sub_chunk_bytes(store.length(), range_.rows, range_.cell_bytes)) {
        return invalid_tree(
            fmt::format("chunk {} is to be stored, but not all of it is summed up", store.index()));
      }
    }
    return {};
  }

  const SumRange& range_;
  size_t nodes_ = 0;
  std::map<uint32_t, uint64_t> helpers_;  ///< key: chunk; value: slices of a period for which it helps
  std::set<uint32_t> rebuilt_;
};

void collect(StripeId stripe, const Children& children, std::string& text) {
  for (const proto::RepairNode& child : children) {
    if (has_chunk(child)) {
      if (!text.empty()) text += ", ";
      text += fmt::format("{}", ChunkId{stripe, child.index()});
    }
    collect(stripe, child.children(), text);
  }
}

}  // namespace

uint32_t own_rows_of(const proto::RepairNode& node, uint32_t rows) {
  return node.own_rows().empty() ? rows : static_cast<uint32_t>(node.own_rows_size());
}

uint32_t sums_of(const proto::RepairNode& node, uint32_t rows) {
  if (node.sums() != 0) return node.sums();
  return static_cast<uint32_t>(node.coefficients().size() / own_rows_of(node, rows));
}

uint32_t outputs_of(const proto::RepairNode& node, uint32_t rows) {
  return node.outputs().empty() ? sums_of(node, rows) : static_cast<uint32_t>(node.outputs_size());
}

Status check_tree(const proto::PartialSumRequest& request) {
  // The node's sums are checked with it; here only the range's own rules count.
  auto range = SumRange::make(request, 1);
  if (!range) return range.error();
  Checker checker(*range);
  KINTSUGI_TRY(checker.check(request.node(), range->mask));
  return checker.finish();
}

Status check_children(const SumRange& range, const Children& children, uint32_t rebuilt) {
  if (children.size() > static_cast<int>(kMaxTreeNodes))
    return invalid_tree(fmt::format("{} children of the root, more than {}", children.size(), kMaxTreeNodes));
  Checker checker(range);
  checker.rebuild(rebuilt);
  uint32_t period = 0;
  uint64_t carried = 0;
  bool all = false;
  for (const proto::RepairNode& child : children) {
    SliceMask mask{child.slice_period(), child.slice_mask()};
    proto::PartialSumRequest masked;
    masked.set_slice_bytes(1);
    masked.set_slice_period(mask.period);
    masked.set_slice_mask(mask.bits);
    auto checked = SumRange::make(masked, 1);
    if (!checked) return checked.error().with_context("repair tree");
    checker.begin_tree(mask);
    KINTSUGI_TRY(checker.check_child(child, range.sums, mask));
    all = all || mask.all();
    carried |= mask.bits;
    if (mask.all()) continue;
    if (period != 0 && mask.period != period) return invalid_tree("slice masks of different periods");
    period = mask.period;
  }
  KINTSUGI_TRY(checker.finish());
  if (range.length == 0 || all) return {};
  if (children.empty()) return invalid_tree("no helpers");
  for (uint32_t slice = 0; slice < period; ++slice) {
    if ((carried >> slice & 1) == 0) {
      return invalid_tree(fmt::format("slice {} of every {} is carried by no tree", slice, period));
    }
  }
  return {};
}

std::string describe_helpers(StripeId stripe, const Children& children) {
  std::string text;
  collect(stripe, children, text);
  return text;
}

}  // namespace kintsugi::partial_sum
