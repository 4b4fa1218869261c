#include "tests/simulation/cluster/replay.h"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "common/log/log.h"

namespace kintsugi::simulation {
namespace {

std::string command(const Simulation& simulation) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  if (test == nullptr) return simulation.replay_hint();
  return fmt::format("{} build/test/bin/simulation_test --gtest_filter={}.{}", simulation.replay_hint(),
                     test->test_suite_name(), test->name());
}

int failures() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return test == nullptr ? 0 : test->result()->total_part_count();
}

}  // namespace

std::vector<uint64_t> seeds(std::initializer_list<uint64_t> usual) {
  if (std::getenv("KINTSUGI_SIM_SEED") != nullptr) return {Simulation::seed_from_environment(0)};
  return usual;
}

Replay::Replay(Simulation& simulation)
    : simulation_(simulation),
      trace_(__FILE__, __LINE__, "replay: " + command(simulation)),
      failures_before_(failures()) {
  const bool print = std::getenv("KINTSUGI_SIM_LOG") != nullptr;
  log::set_sink([this, print](log::Level, std::string_view line) {
    const double seconds = std::chrono::duration<double>(simulation_.clock().elapsed()).count();
    lines_.push_back(fmt::format("{:12.6f} {}", seconds, line));
    if (print) std::fprintf(stderr, "%s\n", lines_.back().c_str());
    if (lines_.size() > kLinesKept) lines_.pop_front();
  });
}

Replay::~Replay() {
  log::set_sink({});
  if (failures() == failures_before_) return;
  std::fprintf(stderr, "Last lines of the logs (all of them with KINTSUGI_SIM_LOG=1), by virtual time:\n");
  for (const std::string& line : lines_)
    std::fprintf(stderr, "%s\n", line.c_str());
  std::fprintf(stderr, "Replay with: %s\n", command(simulation_).c_str());
}

}  // namespace kintsugi::simulation
