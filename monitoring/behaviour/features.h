/// Which inputs of a module say something about its observations (Mitra 2016, section 3.3.2). Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kintsugi::behaviour {

struct FeatureSettings {
  double duplicate = 0.95;  ///< two inputs with a greater MIC are duplicates: one of them suffices
  /// An input and an observation with a smaller MIC are unrelated. With few points the threshold for their number
  /// applies, if it is greater.
  double least_noise = 0.2;
  size_t mic_samples = 256;  ///< executions that are compared, at most; spread evenly
};

struct Features {
  struct Duplicate {
    size_t dropped, kept;  ///< indexes of inputs
    double score;
  };
  std::vector<size_t> kept;  ///< indexes of inputs, ascending
  std::vector<Duplicate> duplicates;
  std::vector<size_t> noise;  ///< inputs unrelated to every observation
  /// Observations to which no input is related: no model is made of them.
  std::vector<size_t> needs_more_inputs;
  std::vector<std::vector<double>> scores;  ///< MIC by input, then by observation
};

/// Of two inputs that say the same, the one that says more about the observations stays; of two that are equal in
/// that, the one whose name comes first. `inputs` and `observations` by column; `names` of the inputs. REQUIRES:
/// columns of one length, no NaN.
Features select_features(const std::vector<std::string>& names,
                         const std::vector<std::vector<double>>& inputs,
                         const std::vector<std::vector<double>>& observations,
                         const FeatureSettings& settings = {});

}  // namespace kintsugi::behaviour
