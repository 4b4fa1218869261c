#include "tracing/agent/start_event.h"

#include <fmt/format.h>

#include "common/base/quote.h"
#include "common/config/units.h"

namespace kintsugi::tracing {
namespace {

constexpr std::string_view kAfter = "after:", kSlow = "slow:";
constexpr size_t kMostOfAName = 40;

Result<Duration> time_of(std::string_view text) {
  KINTSUGI_ASSIGN(const Duration time, config::parse_duration(text));
  if (time <= Duration{}) return Status{Code::kInvalidArgument, "it is more than nothing"};
  return time;
}

}  // namespace

Result<std::optional<StartEvent>> parse_start_event(std::string_view start) {
  StartEvent event;
  if (start.starts_with(kAfter)) {
    auto time = time_of(start.substr(kAfter.size()));
    if (!time) return time.error().with_context("after:TIME");
    return std::optional(StartEvent{.kind = StartEvent::Kind::kAfter, .time = *time});
  }
  // Names of functions have two colons.
  if (!start.starts_with(kSlow) || start.substr(kSlow.size()).starts_with(':'))
    return std::optional<StartEvent>();
  std::string_view name = start.substr(kSlow.size());
  event.kind = StartEvent::Kind::kSlow;
  if (const size_t colon = name.find(':'); colon != std::string_view::npos) {
    auto time = time_of(name.substr(colon + 1));
    if (!time) return time.error().with_context("slow:METHOD:TIME");
    event.time = *time;
    name = name.substr(0, colon);
  }
  const auto method = rpc::method_named(name);
  if (!method)
    return Status{Code::kInvalidArgument, fmt::format("{} is no method", quoted(name, kMostOfAName))};
  event.method = *method;
  return std::optional(event);
}

}  // namespace kintsugi::tracing
