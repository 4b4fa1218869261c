// fault set, list, clear.

#include "client/cli/commands.h"
#include "client/cli/daemon_address.h"
#include "client/cli/json.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

constexpr double kLongestDelay = 1e9;  ///< seconds that fit into a request; daemons accept less

struct FaultArguments {
  std::string where, point, action, detail, code;
  uint64_t skip = 0, times = 0, bytes = 0, number = 0;
  double delay = 0;
};

void show(Session& session, const proto::ChangeFaultsResponse& answer) {
  Json faults = Json::array(), passes = Json::array();
  for (const proto::InjectedFault& fault : answer.faults()) {
    faults.push_back({{"number", fault.number()},
                      {"point", fault.point()},
                      {"action", fault.action()},
                      {"detail", fault.detail()},
                      {"passed", fault.passed()},
                      {"happened", fault.happened()},
                      {"file", fault.file()},
                      {"line", fault.line()},
                      {"function", fault.function()},
                      {"region", fault.region()}});
    if (session.json) continue;
    fmt::print("{:>4}  {} at {}{}{}: reached {} times, happened {} times\n", fault.number(), fault.action(),
               fault.point(), fault.detail().empty() ? "" : ", only ", fault.detail(), fault.passed(),
               fault.happened());
  }
  for (const proto::FaultPasses& each : answer.passes())
    passes.push_back({{"point", each.point()}, {"method", each.method()}, {"passes", each.passes()}});
  if (session.json) {
    print_json({{"faults", std::move(faults)}, {"points", std::move(passes)}});
  } else if (answer.faults().empty()) {
    fmt::print("no faults are set\n");
  }
}

Status change(Session& session, BlockingClient& client, const std::string& where,
              proto::ChangeFaultsRequest request) {
  KINTSUGI_ASSIGN(const std::optional<runtime::Endpoint> at, find_daemon(client, where));
  KINTSUGI_ASSIGN(const proto::ChangeFaultsResponse answer,
                  client.run(client.async().change_faults(at, std::move(request))));
  show(session, answer);
  return {};
}

Status set_fault(Session& session, BlockingClient& client, const FaultArguments& arguments) {
  if (!(arguments.delay >= 0 && arguments.delay <= kLongestDelay))
    return {Code::kInvalidArgument, fmt::format("--delay: a fault cannot last {} s", arguments.delay)};
  proto::ChangeFaultsRequest request;
  proto::InjectedFault& fault = *request.add_set();
  fault.set_point(arguments.point);
  fault.set_action(arguments.action);
  fault.set_detail(arguments.detail);
  fault.set_code(arguments.code);
  fault.set_skip(arguments.skip);
  fault.set_times(arguments.times);
  fault.set_bytes(arguments.bytes);
  fault.set_delay_ms(static_cast<uint64_t>(arguments.delay * 1000));
  return change(session, client, arguments.where, std::move(request));
}

Status list_faults(Session& session, BlockingClient& client, const FaultArguments& arguments) {
  return change(session, client, arguments.where, {});
}

Status clear_fault(Session& session, BlockingClient& client, const FaultArguments& arguments) {
  proto::ChangeFaultsRequest request;
  if (arguments.number != 0) {
    request.add_remove(arguments.number);
  } else {
    request.set_clear(true);
  }
  return change(session, client, arguments.where, std::move(request));
}

}  // namespace

std::vector<Command> fault_commands() {
  const auto a = std::make_shared<FaultArguments>();
  const Option where{"WHERE", &a->where, "A server's name, number or host:port, or 'metaserver'", kRequired};
  return {
      {.name = "fault",
       .help = "Have daemons that were built for it do something wrong, to see what notices",
       .commands = {
           {.name = "set",
            .help = "Set a fault at a place of a daemon's code; an unknown name lists those that there are",
            .options =
                {where,
                 {"POINT", &a->point, "The place: disk-read, own-sum, ...", kRequired},
                 {"ACTION", &a->action,
                  "hang, delay, error, corrupt, drop, repeat, cpu-loop, memory-walk, leak or leak-socket",
                  kRequired},
                 {"--detail", &a->detail, "Only where the path, chunk or method contains this text"},
                 {"--skip", &a->skip, "How often the place is passed before the fault acts"},
                 {"--times", &a->times, "How often the fault acts; default: until it is cleared"},
                 {"--delay", &a->delay, "Seconds of a delay, loop or walk; default 1"},
                 {"--error", &a->code, "The error's name; default: unavailable"},
                 {"--bytes", Bytes{&a->bytes}, "Memory to walk through or to leak"}},
            .prints_json = true,
            .run = connected(a, set_fault)},
           {.name = "list",
            .help = "Show the faults that are set, and how often each place was reached while any was",
            .options = {where},
            .prints_json = true,
            .run = connected(a, list_faults)},
           {.name = "clear",
            .help = "End faults; operations that hang in them continue",
            .options = {where,
                        {"--number", &a->number,
                         "Number of the fault, as `fault list` shows it; default: all"}},
            .prints_json = true,
            .run = connected(a, clear_fault)}}}};
}

}  // namespace kintsugi::cli
