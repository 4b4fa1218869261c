#include "tracing/events/separation.h"

#include <array>

#include "tracing/events/process_events.h"
#include "tracing/flow/directives.h"

namespace kintsugi::tracing {
namespace {

/// Here a thread waits for anybody's work.
const std::array<std::string, 3> kIdle{kElsewhere, "boost::asio::detail::scheduler::do_run_one",
                                       "boost::asio::detail::scheduler::do_poll_one"};

}  // namespace

void Separation::add(const NamedTrace& trace) {
  ProcessEvents(trace, writer_).run();
}

Result<Separated> Separation::finish() {
  KINTSUGI_ASSIGN(flow::Trace trace, flow::Trace::from(writer_.take()));
  const std::vector<flow::FunctionId> idle = flow::functions_named(trace.functions(), kIdle);
  flow::Flows flows = flow::build_flows(trace, flow::match_messages(trace), {.idle = idle});
  return Separated{std::move(trace), std::move(flows)};
}

flow::Recorded events_of(std::span<const NamedTrace> traces) {
  EventWriter writer;
  for (const NamedTrace& trace : traces)
    ProcessEvents(trace, writer).run();
  return writer.take();
}

}  // namespace kintsugi::tracing
