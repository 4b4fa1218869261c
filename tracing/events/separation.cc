#include "tracing/events/separation.h"

#include <array>

#include "common/rpc/method.h"
#include "tracing/events/process_events.h"
#include "tracing/flow/directives.h"

namespace kintsugi::tracing {
namespace {

/// Here a thread waits for anybody's work.
const std::array<std::string, 3> kIdle{kElsewhere, "boost::asio::detail::scheduler::do_run_one",
                                       "boost::asio::detail::scheduler::do_poll_one"};

flow::Flows flows_of(const flow::Trace& trace, const flow::Matching& matching,
                     std::span<const flow::EventId> starts) {
  const std::vector<flow::FunctionId> idle = flow::functions_named(trace.functions(), kIdle);
  return flow::build_flows(trace, matching, {.starts = starts, .idle = idle});
}

}  // namespace

void Separation::add(const NamedTrace& trace) {
  ProcessEvents(trace, writer_).run();
}

Result<Separated> Separation::finish() {
  KINTSUGI_ASSIGN(flow::Trace trace, flow::Trace::from(writer_.take()));
  flow::Flows flows = flows_of(trace, flow::match_messages(trace), {});
  return Separated{std::move(trace), std::move(flows)};
}

bool is_client(const flow::Process& process) {
  return process.binary == kCommand || process.binary == kMount;
}

flow::Flows flows_by_call(const flow::Trace& trace) {
  const flow::Matching matching = flow::match_messages(trace);
  const auto is_of_client = [&](flow::EventId id) {
    return id != flow::kNone && is_client(trace.processes()[trace.event(id).process]);
  };
  std::vector<flow::EventId> starts;
  for (const flow::Unit& unit : matching.units)
    // Frames that follow the first one of a call are called otherwise, and continue with it.
    if (is_of_client(unit.send) && unit.recv != flow::kNone &&
        rpc::method_named(trace.name_of(trace.event(unit.recv).function)))
      starts.push_back(unit.recv);
  return flows_of(trace, matching, starts);
}

flow::Recorded events_of(std::span<const NamedTrace> traces) {
  EventWriter writer;
  for (const NamedTrace& trace : traces)
    ProcessEvents(trace, writer).run();
  return writer.take();
}

}  // namespace kintsugi::tracing
