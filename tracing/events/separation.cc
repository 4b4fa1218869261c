#include "tracing/events/separation.h"

#include <span>

#include "common/rpc/method.h"
#include "tracing/events/process_events.h"
#include "tracing/flow/directives.h"

namespace kintsugi::tracing {
namespace {

flow::Flows flows_of(const flow::Trace& trace, const SeparationSettings& settings,
                     const flow::Matching& matching, std::span<const flow::EventId> starts) {
  std::vector<flow::Idle> idle = settings.directives.idle;
  if (settings.rules_only) idle.clear();
  // A thread that runs coroutines is there meanwhile, and they have lanes of their own.
  idle.push_back({kElsewhere});
  const std::vector<flow::FunctionId> functions = flow::idle_functions(trace.functions(), idle);
  return flow::build_flows(trace, matching,
                           {.starts = starts, .idle = functions, .directives = !settings.rules_only});
}

}  // namespace

anomaly::WaitNames wait_names(const SeparationSettings& settings) {
  anomaly::WaitNames names{.waits = {kWaits, kElsewhere}};
  for (const flow::Idle& idle : settings.directives.idle)
    names.waits.push_back(idle.function);
  for (const flow::Idle& others : settings.directives.others)
    names.others.push_back(others.function);
  for (const flow::Idle& aside : settings.directives.aside)
    names.aside.push_back(aside.function);
  return names;
}

Separation::Separation(SeparationSettings settings)
    : rules_only_(settings.rules_only),
      sites_(std::move(settings.directives)),
      writer_(sites_.directives().attributes) {}

void Separation::add(const NamedTrace& trace) {
  ProcessEvents(trace, sites_, writer_).run();
}

Result<Separated> Separation::finish() {
  KINTSUGI_ASSIGN(flow::Trace trace, flow::Trace::from(writer_.take()));
  SeparationSettings settings{sites_.directives(), rules_only_};
  flow::Flows flows = flows_of(trace, settings, flow::match_messages(trace), {});
  std::vector<std::string> remarks = sites_.remarks(trace.functions());
  return Separated{std::move(trace), std::move(flows), std::move(settings), std::move(remarks)};
}

bool is_client(const flow::Process& process) {
  return process.binary == kCommand || process.binary == kMount;
}

flow::Flows flows_by_call(const flow::Trace& trace, const SeparationSettings& settings) {
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
  return flows_of(trace, settings, matching, starts);
}

}  // namespace kintsugi::tracing
