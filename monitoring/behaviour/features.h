/// Which inputs of a module say something about its observations (Mitra 2016, section 3.3.2). Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kintsugi::behaviour {

struct FeatureSettings {
  double duplicate = 0.95;  ///< MIC of two inputs from which one of them is enough
  double least_noise =
      0.2;  ///< an input or observation below this says nothing; raised to the threshold for that many points
  size_t mic_samples = 256;  ///< at most so many executions, spread evenly, are compared
};

struct Features {
  struct Duplicate {
    size_t dropped, kept;  ///< numbers of inputs
    double score;
  };
  std::vector<size_t> kept;  ///< numbers of inputs, in ascending order
  std::vector<Duplicate> duplicates;
  std::vector<size_t> noise;  ///< inputs that say nothing about any observation
  std::vector<size_t>
      needs_more_inputs;  ///< observations about which no input says anything: no model is made of them
  std::vector<std::vector<double>> scores;  ///< MIC by input, then by observation
};

/// Of two inputs that say the same, the one that says more about the observations stays; of two that are equal in that, the one whose name
/// comes first. `inputs` and `observations` by column; `names` of the inputs. REQUIRES: columns of one length, no NaN.
Features select_features(const std::vector<std::string>& names,
                         const std::vector<std::vector<double>>& inputs,
                         const std::vector<std::vector<double>>& observations,
                         const FeatureSettings& settings = {});

}  // namespace kintsugi::behaviour
