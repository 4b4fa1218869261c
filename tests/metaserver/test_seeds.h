/// The seeds of a random test: those that it always runs, or KINTSUGI_TEST_ROUNDS seeds from KINTSUGI_TEST_SEED on.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace kintsugi::metaserver {

class TestSeeds {
 public:
  explicit TestSeeds(uint64_t usual_rounds) {
    const char* seed = std::getenv("KINTSUGI_TEST_SEED");
    const char* rounds = std::getenv("KINTSUGI_TEST_ROUNDS");
    if (seed != nullptr) first_ = std::strtoull(seed, nullptr, 10);
    rounds_ = rounds != nullptr ? std::strtoull(rounds, nullptr, 10) : seed != nullptr ? 1 : usual_rounds;
  }

  uint64_t first() const { return first_; }
  /// The first seed after the last one.
  uint64_t end() const { return first_ + rounds_; }
  /// So many that what happens in some histories has happened.
  bool many() const { return rounds_ >= 8; }
  static std::string replay(uint64_t seed) { return fmt::format("replay with KINTSUGI_TEST_SEED={}", seed); }

 private:
  uint64_t first_ = 1, rounds_ = 0;
};

}  // namespace kintsugi::metaserver
