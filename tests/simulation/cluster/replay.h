/// How a simulated test is run again: which seeds it takes, and what a failure prints.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/expect_ok.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::simulation {

/// `usual`, or only KINTSUGI_SIM_SEED when that is set.
std::vector<uint64_t> seeds(std::initializer_list<uint64_t> usual);

/// While it lives, every failed expectation of the test tells the seed and the one command that replays it.
/// The last lines of the daemons' logs are printed when the test failed meanwhile; with KINTSUGI_SIM_LOG set,
/// all of them as they come.
class Replay {
 public:
  explicit Replay(Simulation& simulation);
  ~Replay();
  Replay(const Replay&) = delete;

 private:
  static constexpr size_t kLinesKept = 60;

  Simulation& simulation_;
  std::deque<std::string> lines_;
  testing::ScopedTrace trace_;
  int failures_before_;
};

}  // namespace kintsugi::simulation
