#include "tests/texts/clustering.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kintsugi::similarity {
namespace {

struct Link {
  double length;
  size_t a, b;
};

/// The minimum spanning tree (Prim), shortest link first: the merges of single linkage in their order.
std::vector<Link> merges(const Distances& distances) {
  const size_t n = distances.size();
  std::vector<double> nearest(n, std::numeric_limits<double>::infinity());
  std::vector<size_t> neighbour(n, 0);
  std::vector<bool> in(n, false);
  std::vector<Link> out;
  size_t last = 0;
  for (size_t step = 1; step < n; ++step) {
    in[last] = true;
    size_t next = n;
    for (size_t i = 0; i < n; ++i) {
      if (in[i]) continue;
      if (distances(last, i) < nearest[i]) {
        nearest[i] = distances(last, i);
        neighbour[i] = last;
      }
      if (next == n || nearest[i] < nearest[next]) next = i;
    }
    out.push_back({nearest[next], neighbour[next], next});
    last = next;
  }
  std::sort(out.begin(), out.end(), [](const Link& x, const Link& y) { return x.length < y.length; });
  return out;
}

}  // namespace

std::vector<size_t> single_linkage(const Distances& distances, double threshold) {
  std::vector<size_t> parent(distances.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto root = [&](size_t i) {
    while (parent[i] != i)
      i = parent[i] = parent[parent[i]];
    return i;
  };
  for (const Link& link : merges(distances))
    if (link.length <= threshold) {
      const size_t a = root(link.a), b = root(link.b);
      parent[std::max(a, b)] = std::min(a, b);
    }
  std::vector<size_t> groups(distances.size()), number(distances.size(), distances.size());
  size_t next = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const size_t of = root(i);
    if (number[of] == distances.size()) number[of] = next++;
    groups[i] = number[of];
  }
  return groups;
}

double threshold_for(const Distances& distances, size_t groups) {
  const auto links = merges(distances);
  if (links.empty() || groups == 0) return 0;
  if (groups > links.size()) return links.front().length / 2;
  const size_t made = links.size() + 1 - groups;  // merges that leave so many groups
  if (made == links.size()) return links.back().length;
  const double last = made == 0 ? 0 : links[made - 1].length;
  return (last + links[made].length) / 2;
}

double mirkin(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  std::vector<size_t> all(a.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return mirkin_within(a, b, all);
}

double mirkin_within(const std::vector<size_t>& a, const std::vector<size_t>& b,
                     const std::vector<size_t>& members) {
  size_t pairs = 0, differ = 0;
  for (size_t i = 0; i < members.size(); ++i)
    for (size_t j = i + 1; j < members.size(); ++j) {
      ++pairs;
      differ += (a[members[i]] == a[members[j]]) != (b[members[i]] == b[members[j]]) ? 1 : 0;
    }
  return pairs == 0 ? 0 : static_cast<double>(differ) / static_cast<double>(pairs);
}

}  // namespace kintsugi::similarity
