/// What begins a recording later than it is asked for: a time, or a request that takes long.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/rpc/method.h"
#include "common/runtime/clock.h"

namespace kintsugi::tracing {

struct StartEvent {
  enum class Kind : uint8_t {
    kAfter,  ///< "after:30s": the time is over
    kSlow,  ///< "slow:ReadChunk:50ms": a request takes longer; "slow:ReadChunk": longer than 99.9 % of those before
  };
  Kind kind{};
  std::optional<Duration> time;  ///< none: see SlowCalls::begin
  rpc::Method method{};
};

/// The start event that `start` says; none: it says something else, a function or all. kInvalidArgument.
Result<std::optional<StartEvent>> parse_start_event(std::string_view start);

}  // namespace kintsugi::tracing
