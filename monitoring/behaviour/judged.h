/// What was found of one observation of a module on one server.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "common/runtime/clock.h"
#include "monitoring/behaviour/observation_model.h"

namespace kintsugi::behaviour {

/// An execution that had more than its inputs say.
struct Odd {
  double actual, predicted, probability;
  std::vector<double> inputs;
  std::vector<ExtrapolationErrors::At::Beyond> beyond;
};

struct Judged {
  RecentExecutions recent;
  std::deque<Odd> odd;             ///< most recent entries only
  std::optional<TimePoint> since;  ///< when the current alarm was raised; none: there is no alarm
  TimePoint first_odd{};

  /// How much more than expected the odd ones have, in the middle.
  double factor() const;
};

}  // namespace kintsugi::behaviour
