/// All scores of one process, over all its channels. Pure.
#pragma once

#include <vector>

#include "monitoring/metrics/rams/scores.h"

namespace kintsugi::rams {

struct KeyedScore {
  ScoreKey key;
  Answer<double> value;
};

class Node {
 public:
  Node(const std::vector<std::string>& channels, const ScoreOptions& options) {
    for (const std::string& channel : channels)
      scorers_.emplace_back(channel, options);
  }

  /// REQUIRES: `os` has a value for each channel.
  void add(double app, const Eigen::Ref<const Eigen::VectorXd>& os, bool healthy) {
    for (size_t i = 0; i < scorers_.size(); ++i)
      scorers_[i].add(app, os[static_cast<Eigen::Index>(i)], healthy);
  }
  void begin_segment() {
    for (Scorer& scorer : scorers_)
      scorer.begin_segment();
  }
  void forget_past() {
    for (Scorer& scorer : scorers_)
      scorer.forget_past();
  }

  std::vector<KeyedScore> scores() const {
    std::vector<KeyedScore> out;
    for (const Scorer& scorer : scorers_) {
      const auto keys = scorer.keys();
      const auto values = scorer.scores();
      for (size_t i = 0; i < keys.size(); ++i)
        out.push_back({keys[i], values[i]});
    }
    return out;
  }
  const std::vector<Scorer>& scorers() const { return scorers_; }

 private:
  std::vector<Scorer> scorers_;
};

}  // namespace kintsugi::rams
