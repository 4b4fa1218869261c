#include "common/config/nearest.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kintsugi::config {
namespace {

/// With so many changes a word is another one.
constexpr size_t kTooFar = 3;

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j < row.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest(std::string_view unknown, std::span<const std::string_view> known) {
  std::string_view best;
  size_t best_distance = kTooFar;
  for (const std::string_view word : known) {
    const size_t distance = edit_distance(unknown, word);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = word;
  }
  return best;
}

}  // namespace kintsugi::config
