/// Groups of workers by how much they differ: single linkage, and what two groupings have in common (Laguna 2012, section 3.3.3). Pure.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace kintsugi::similarity {

/// Differences of all pairs, symmetric, 0 of a thing and itself.
class Distances {
 public:
  explicit Distances(size_t size) : size_(size), values_(size * size, 0) {}
  size_t size() const { return size_; }
  double operator()(size_t a, size_t b) const { return values_[a * size_ + b]; }
  void set(size_t a, size_t b, double value) { values_[a * size_ + b] = values_[b * size_ + a] = value; }

 private:
  size_t size_;
  std::vector<double> values_;
};

/// The number of the group of each: groups are merged while the smallest difference between members of two of them is at most `threshold`. Groups are numbered by
/// their first members.
std::vector<size_t> single_linkage(const Distances& distances, double threshold);

/// The threshold at which there are `groups` groups: between the last merge that is to be made and the first that is not.
double threshold_for(const Distances& distances, size_t groups);

/// The share of pairs that are together in one grouping and apart in the other. REQUIRES: both of one length. 0 for fewer than two.
double mirkin(const std::vector<size_t>& a, const std::vector<size_t>& b);
/// The same, of the pairs with both in `members`.
double mirkin_within(const std::vector<size_t>& a, const std::vector<size_t>& b,
                     const std::vector<size_t>& members);

}  // namespace kintsugi::similarity
