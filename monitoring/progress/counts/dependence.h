/// Which of two tasks depends on the other: the one that is ahead waits for the one that is behind.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "monitoring/progress/counts/loop_order.h"

namespace kintsugi::progress {

/// Calls `compare`, which returns the Dependence of two elements, for all pairs. Of very many elements, it compares
/// each only with those that nothing before it is behind of: progress is transitive but for odd cases, and the least
/// progressed are what is looked for.
template <class Compare>
void compare_all(const std::vector<uint32_t>& elements, const Compare& compare) {
  constexpr size_t kMost = 1'024;
  const bool all = elements.size() <= kMost;
  std::vector<uint32_t> least;
  for (const uint32_t element : elements) {
    bool is_least = true;
    std::erase_if(least, [&](uint32_t other) {
      const Dependence found = compare(other, element);
      if (found == kSecondOnFirst) is_least = false;
      return !all && found == kFirstOnSecond;
    });
    if (is_least || all) least.push_back(element);
  }
}

/// The numbers 0 to count - 1.
inline std::vector<uint32_t> numbers_to(size_t count) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace kintsugi::progress
