/// Names that a key space confuses most easily, for random tests.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace kintsugi::metaserver {

/// Names that begin each other, differ in the last byte or in case, and are 1 to 255 bytes long.
inline std::vector<std::string> mean_names(char letter) {
  const std::string one(1, letter), longest(255, letter);
  std::vector<std::string> names{one,          one + letter,           one + "~",
                                 one + "\x01", one + "\xff",           one + letter + letter,
                                 longest,      longest.substr(0, 254), longest.substr(0, 254) + "~"};
  names.emplace_back(1, static_cast<char>(letter ^ 0x20));  // the other case
  return names;
}

/// A few of them, so that a random history meets each often.
inline std::vector<std::string> some_mean_names(char letter, size_t count, uint64_t seed) {
  std::vector<std::string> names = mean_names(letter);
  std::shuffle(names.begin(), names.end(), std::mt19937_64(seed));
  names.resize(std::min(count, names.size()));
  return names;
}

}  // namespace kintsugi::metaserver
