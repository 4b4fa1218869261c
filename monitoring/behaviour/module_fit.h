/// Makes the models of one module from its executions on all servers: what is common to them, and how much slower each
/// server is as a rule.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "monitoring/behaviour/features.h"
#include "monitoring/behaviour/observation_model.h"
#include "monitoring/behaviour/observed_module.h"

namespace kintsugi::behaviour {

/// Executions of one module on all servers, of which a model is to be made.
struct FitJob {
  uint64_t module = 0;
  Module about;
  std::vector<std::vector<double>> inputs, observed;  ///< index: column, then execution
  std::vector<std::string> servers;
  std::vector<size_t> server_of;  ///< index: execution; position of its server in `servers`
  LearningSettings learning;
  FeatureSettings features;
};

/// What was learnt of one module.
struct Fitted {
  uint64_t module = 0;
  Features features;
  struct Observation {
    std::optional<ObservationModel> model;  ///< none: no input says anything about the observation
    std::map<std::string, double> factors;  ///< key: server; how much slower than the model it usually is
    double deviation = 0;                   ///< standard deviation of log2(actual / predicted)
  };
  std::vector<Observation> observations;
};

/// Takes seconds for many executions of many inputs. Depends on its parameter only.
Fitted fit(const FitJob& job);

/// The logarithm to base 2 of actual / predicted; 0 where there is none.
double log_ratio(double actual, double predicted);

}  // namespace kintsugi::behaviour
