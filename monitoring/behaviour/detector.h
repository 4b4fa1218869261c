/// Watches the executions that are reported of all servers, and says which module behaves on which server unlike what
/// its inputs say. Not thread-safe; fit() of what due() gives may run in another thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"
#include "monitoring/behaviour/judged.h"
#include "monitoring/behaviour/module_fit.h"
#include "monitoring/behaviour/region_watch.h"
#include "monitoring/behaviour/reservoir.h"

namespace kintsugi::behaviour {

struct DetectorSettings {
  LearningSettings learning;
  FeatureSettings features;
  size_t reservoir = 512;      ///< executions of one module on one server that are kept
  size_t least_samples = 200;  ///< executions on all servers that are needed before a model is made
  size_t most_samples = 4096;  ///< executions that one model is made of, at most
  Duration refit_every = std::chrono::minutes(10);
  /// What is not seen for so long is forgotten, and so are alarms about it.
  Duration forget_after = std::chrono::minutes(5);
  double least_factor = 1.3;   ///< shorter executions, relative to the expectation, raise no alarm
  double wrong_alarms = 0.01;  ///< tolerated share of false alarms among those of one evaluation
  size_t most_modules = 256;   ///< further modules are ignored
  size_t most_servers = 1024;  ///< further servers of a module are ignored
};

class Detector {
 public:
  /// What was learnt of one observation, for people.
  struct Learnt {
    std::string process_kind, region, observation;
    double r2 = 0;
    /// If false there is no detector, because R² is too low or no input says anything about the observation.
    bool usable = false;
    bool needs_more_inputs = false;
    size_t samples = 0, sections = 0;
    std::vector<std::string> inputs;  ///< inputs that the model uses
    std::vector<std::string> duplicates, noise;
  };

  explicit Detector(DetectorSettings settings = {}) : settings_(settings) {}

  /// Takes in executions of a module on a server. Failed ones and those that have another number of inputs or outputs
  /// than the module, or numbers that are none, are left out. Each is judged when there is a model.
  void add(const Origin& origin, const Module& module, std::span<const proto::SightSample* const> samples,
           TimePoint now);

  /// The module whose model is missing or oldest, when one is due.
  std::optional<FitJob> due(TimePoint now);
  void install(Fitted fitted, TimePoint now);
  /// due(), fit() and install() of all that are due.
  void refit(TimePoint now);

  /// The alarms that stand: raised, kept and cleared by what was added until now.
  std::vector<proto::Verdict> alarms(TimePoint now);
  std::vector<Learnt> learnt() const;
  /// How many of the executions judged so far had a probability of being an anomaly in each tenth.
  const std::array<uint64_t, 10>& probabilities() const { return probabilities_; }
  /// For tests.
  size_t modules() const { return modules_.size(); }

 private:
  struct OnServer {
    Origin origin;
    Reservoir reservoir;
    TimePoint seen{};
    std::vector<Judged> judged;
    bool alarmed() const;
  };
  struct Known {
    Module about;
    std::map<uint64_t, OnServer> servers;  ///< key: process id
    std::optional<Fitted> fitted;
    TimePoint fitted_at{};
    bool fitting = false;
    std::vector<std::optional<RegionWatch>> watches;  ///< index: observation
  };

  void judge(Known& known, OnServer& server, const Execution& execution, TimePoint now);
  void forget(TimePoint now);
  std::vector<double> kept_inputs(const Known& known, const Execution& execution) const;

  DetectorSettings settings_;
  std::map<uint64_t, Known> modules_;
  std::array<uint64_t, 10> probabilities_{};
};

}  // namespace kintsugi::behaviour
