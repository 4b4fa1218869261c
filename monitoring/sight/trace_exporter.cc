#include "monitoring/sight/trace_exporter.h"

#include <algorithm>

#include "common/base/hash.h"
#include "common/log/log.h"
#include "monitoring/sight/otlp.h"

namespace kintsugi::sight {

bool is_chosen(uint64_t trace_id, double share) {
  return static_cast<double>(mix_bits(trace_id)) < share * 0x1p64;
}

asio::awaitable<void> TraceExporter::send(asio::any_io_executor executor, TraceExport wanted, Reporting who,
                                          WallTime wall) {
  const TimePoint now = recorder_.now();
  const TimePoint from = std::exchange(sent_until_, now);
  recorder_.live().keep_traces(wanted.collector.empty() ? 0 : wanted.share);
  // Spans that ended before anybody asked for traces are not sent.
  if (wanted.collector.empty() || from == TimePoint{} || now < not_before_) co_return;
  const Result<http::Url> url = http::Url::parse(wanted.collector);
  if (!url) co_return;
  std::vector<Event> events = recorder_.recent_events(SIZE_MAX);
  std::erase_if(events, [&](const Event& event) {
    const TimePoint ended = event.entered + event.duration;
    return ended <= from || ended > now || !is_chosen(event.trace_id, wanted.share);
  });
  if (events.empty()) co_return;
  if (events.size() > kMostSpans) events.resize(kMostSpans);
  const int64_t difference = wall.time_since_epoch().count() - now.time_since_epoch().count();
  const Result<int> answered =
      co_await http::post(executor, *url, "application/json", otlp_request(events, who, difference), kLimit);
  const bool failed = !answered || *answered < 200 || *answered > 299;
  if (failed) not_before_ = now + kPauseAfterFailure;
  if (std::exchange(failing_, failed) || !failed) co_return;
  log::warning("traces cannot be sent: {}", answered
                                                ? fmt::format("{} answered {}", wanted.collector, *answered)
                                                : answered.error().message());
}

}  // namespace kintsugi::sight
