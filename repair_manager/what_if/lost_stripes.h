/// The stripes that lose chunks with servers: those of the cluster where they are known, or else stripes whose places are
/// drawn by the rule of placement.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "erasure/policy.h"
#include "repair_manager/view/cluster_view.h"
#include "repair_manager/what_if/cluster.h"
#include "repair_manager/what_if/placement_bound.h"
#include "repair_manager/what_if/virtual_world.h"

namespace kintsugi::what_if {

class LostStripes {
 public:
  /// `lost`: by position in Cluster::servers. The cluster outlives it.
  LostStripes(const Cluster& cluster, const std::vector<bool>& lost, uint64_t seed);

  bool known() const { return cluster_.stripes.has_value(); }
  double chunks() const { return chunks_; }
  double bytes() const { return bytes_; }
  /// That of most lost chunks.
  const erasure::Policy& policy() const { return policy_; }
  bool of_one_policy() const { return of_one_policy_; }
  /// No stripe loses two chunks.
  bool one_chunk_each() const { return one_chunk_each_; }
  /// Servers that hold chunks suffice for a stripe to lie on.
  bool can_be() const { return known() || chunks_ < 1 || holders() >= policy_.chunks(); }
  size_t holders() const;

  /// Stripes that lack so many chunks together, or nearly: all, or a part of them that stands for all. Their ids, and those
  /// of servers, are 1, 2, 3, ... in their order. REQUIRES: can_be().
  std::vector<repair_manager::StripeView> take(double chunks);

  /// Positions of the servers that are left of each stripe.
  static std::vector<PlacementBound::Holders> left_of(const std::vector<repair_manager::StripeView>& stripes);
  /// Chunks with bytes that are lost.
  static size_t lacking(const repair_manager::StripeView& stripe);

 private:
  void count_drawn();
  void count_known();
  bool in_one_rack() const;
  repair_manager::StripeView after_the_loss(repair_manager::StripeView stripe) const;
  repair_manager::StripeView drawn_stripe(const std::vector<uint32_t>& places) const;
  std::vector<repair_manager::StripeView> draw(double chunks);

  const Cluster& cluster_;
  const std::vector<bool> lost_;
  SeededRandom random_;
  std::unordered_map<ServerId, uint32_t> positions_;
  std::vector<repair_manager::StripeView> known_;  // all that lack chunks after the loss
  erasure::Policy policy_;
  double chunks_ = 0, bytes_ = 0;
  bool of_one_policy_ = true, one_chunk_each_ = false;
};

}  // namespace kintsugi::what_if
