/// The losses that models of approximation are trained on, calibrated with, and tested on. All are drawn from seeds that
/// stand here, so that they are fixed before any of them is run.
///
///   training      27: three numbers of lost chunks, three mixes of links, three codes
///   calibration   10 within the ranges of training
///   test          40 within these ranges, 20 beyond them in one feature
///
/// Where links differ an exact run costs ten times as much: half as many chunks are lost there at most, so that no run of
/// training takes more than two seconds.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/base/draws.h"
#include "repair_manager/what_if/loss.h"

namespace kintsugi::what_if {

struct Input {
  std::string name, policy = "rs-6-3-1024k";
  uint32_t servers = 40;
  uint64_t lost = 1000;       ///< chunks, of each server that is lost
  uint32_t slow_percent = 0;  ///< of the servers
  double slow_factor = 1;     ///< their links have the rate divided by it
  double rack_oversubscribed =
      0;  ///< links of the servers of a rack over its uplink; 0: racks have no uplinks
  uint32_t dead = 1;
  uint64_t seed = 1;
  std::string beyond;  ///< the feature that is beyond the range of training; empty: none
};

inline constexpr uint32_t kServersOfARack = 5;
inline constexpr double kLinkRate = 10e9 / 8, kChunkBytes = 64 << 20;

inline Cluster cluster_of(const Input& input) {
  Description description{.servers = input.servers, .chunk_bytes = kChunkBytes, .link_rate = kLinkRate};
  description.policy = erasure::Policy::parse(input.policy).value();
  description.stripes = input.lost * input.servers / description.policy.chunks();
  if (input.rack_oversubscribed > 0) description.racks = input.servers / kServersOfARack;
  Cluster cluster = described(description).value();
  // Otherwise a wait that is the same in all runs would hide errors of the repair's time.
  cluster.delay_seconds = 0;
  if (input.rack_oversubscribed > 0)
    cluster.rack_rate = kServersOfARack * kLinkRate / input.rack_oversubscribed;
  for (uint32_t i = 0; i < input.servers; ++i) {
    if ((i + 1) * 7919 % 100 >= input.slow_percent) continue;
    cluster.servers[i].up /= input.slow_factor;
    cluster.servers[i].down /= input.slow_factor;
  }
  return cluster;
}

inline Loss loss_of(const Input& input) {
  Loss loss{.budget = 0, .seed = input.seed};
  for (uint32_t i = 0; i < input.dead; ++i)
    loss.servers.push_back(i);
  return loss;
}

inline constexpr double kFewestLost = 400, kMostLost = 2500, kMostLostUneven = 1250;
inline double most_lost(bool even) {
  return even ? kMostLost : kMostLostUneven;
}

inline const std::vector<std::string> kTrainedCodes{"rs-6-3-1024k", "rs-12-4-1024k", "lrc-12-2-2-1024k"};

/// From the fewest to the most chunks, in proportion.
inline uint64_t lost_at(double part, bool even) {
  return static_cast<uint64_t>(kFewestLost * std::pow(most_lost(even) / kFewestLost, part));
}

inline std::vector<Input> training_inputs() {
  Draws draws(1000);
  std::vector<Input> inputs;
  for (const std::string& code : kTrainedCodes)
    for (const auto& [percent, factor] : {std::pair(0u, 1.0), std::pair(20u, 4.0), std::pair(10u, 2.0)})
      for (const double part : {0.0, 0.5, 1.0})
        inputs.push_back({.name = fmt::format("train-{:02}", inputs.size()),
                          .policy = code,
                          .servers = static_cast<uint32_t>(40 + draws.below(61)),
                          .lost = lost_at(part, percent == 0),
                          .slow_percent = percent,
                          .slow_factor = factor,
                          .seed = 1000 + inputs.size()});
  return inputs;
}

/// An input within the ranges of training, at values that are not those of training.
inline Input drawn_input(Draws& draws, std::string name, uint64_t seed) {
  const bool equal = draws.below(3) == 0;
  return {.name = std::move(name),
          .policy = kTrainedCodes[draws.below(3)],
          .servers = static_cast<uint32_t>(40 + draws.below(61)),
          .lost = lost_at(draws.uniform(), equal),
          .slow_percent = equal ? 0 : static_cast<uint32_t>(10 + draws.below(11)),
          .slow_factor = equal ? 1 : 2 + 2 * draws.uniform(),
          .seed = seed};
}

inline std::vector<Input> calibration_inputs() {
  Draws draws(2000);
  std::vector<Input> inputs;
  while (inputs.size() < 10)
    inputs.push_back(drawn_input(draws, fmt::format("calibrate-{:02}", inputs.size()), 2000 + inputs.size()));
  return inputs;
}

inline std::vector<Input> test_inputs() {
  Draws draws(3000);
  std::vector<Input> inputs;
  while (inputs.size() < 60) {
    const size_t i = inputs.size();
    Input input = drawn_input(draws, fmt::format("test-{:02}", i), 3000 + i);
    if (i >= 40) {
      switch ((i - 40) / 4) {
        case 0:
          input.beyond = "servers";
          input.servers = static_cast<uint32_t>(150 + draws.below(151));
          break;
        case 1:
          input.beyond = "lost chunks";
          input.lost = 5000 + draws.below(5001);
          break;
        case 2:
          input.beyond = "code";
          input.policy = i % 2 == 0 ? "rs-8-4-1024k" : "rs-4-2-1024k";
          break;
        case 3:
          input.beyond = "slow links";
          input.slow_percent = static_cast<uint32_t>(30 + draws.below(21));
          input.slow_factor = 5 + 3 * draws.uniform();
          break;
        default:
          input.beyond = i % 2 == 0 ? "uplinks of racks" : "two servers";
          if (i % 2 == 0) {
            input.servers =
                input.servers / 20 * 20 + 20;  // no fewer racks than a stripe has chunks, or nearly
            input.rack_oversubscribed = 4;
          } else {
            input.dead = 2;
          }
      }
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

/// What models know of an input.
inline std::vector<double> features_of(const Input& input) {
  const erasure::Policy policy = erasure::Policy::parse(input.policy).value();
  const double helps = static_cast<double>(policy.k * input.lost * input.dead) / input.servers;
  return {std::log2(helps), std::log2(static_cast<double>(input.servers)), static_cast<double>(policy.k),
          input.slow_percent / 100.0, input.slow_factor};
}

/// What has to be within the range of training, or a model extrapolates: with what models cannot learn from it.
inline std::vector<double> range_of(const Input& input) {
  std::vector<double> range = features_of(input);
  range.push_back(input.dead);
  range.push_back(input.rack_oversubscribed);
  return range;
}

/// How repairs are scheduled: jointly on equal links, jointly on others, or one by one.
inline size_t class_of(const Input& input) {
  const erasure::Policy policy = erasure::Policy::parse(input.policy).value();
  if (policy.family != erasure::Policy::Family::kReedSolomon) return 2;
  return input.slow_percent == 0 ? 0 : 1;
}

}  // namespace kintsugi::what_if
