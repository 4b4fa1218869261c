/// The verdict on a server whose executions of a module behave unlike what their inputs say, in words.
#pragma once

#include "common/proto/sight.pb.h"
#include "monitoring/behaviour/judged.h"
#include "monitoring/behaviour/module_fit.h"

namespace kintsugi::behaviour {

/// From so many servers on, a change that most of them show is none of one server's.
inline constexpr size_t kComparable = 3;

/// An alarm that stands: `judged` is what was found of the observation, of the module as `fitted`, which so many
/// servers run.
struct StandingAlarm {
  const Module& about;
  const Fitted& fitted;
  size_t observation;
  size_t servers;
  const Origin& origin;
  const Judged& judged;
};

/// REQUIRES: the alarm has a `since`, and its observation a model.
proto::Verdict behaviour_verdict(const StandingAlarm& alarm, TimePoint now);

}  // namespace kintsugi::behaviour
