// trace attach, status, detach, show.

#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include "client/cli/commands.h"
#include "client/cli/daemon_address.h"
#include "client/cli/format.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "client/cli/trace_text.h"
#include "common/config/units.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using proto::TraceRequest;
using proto::TraceResponse;

/// A daemon is asked so often whether its recording has ended.
constexpr auto kAskInterval = std::chrono::milliseconds(50);

struct Arguments {
  std::string where, start = "all", lasts = "10s", out, file, binary;
  uint64_t bytes = 64 << 20;
  bool circular = false;
};

/// A daemon that is asked again and again.
class TracedDaemon {
 public:
  static Result<TracedDaemon> find(BlockingClient& client, const std::string& where) {
    KINTSUGI_ASSIGN(const std::optional<runtime::Endpoint> at, find_daemon(client, where));
    return TracedDaemon(client, at);
  }
  Result<TraceResponse> ask(TraceRequest request) const {
    return client_->run(client_->async().trace(at_, std::move(request)));
  }
  Result<TraceResponse> ask(TraceRequest::Action action) const {
    TraceRequest request;
    request.set_action(action);
    return ask(std::move(request));
  }

 private:
  TracedDaemon(BlockingClient& client, std::optional<runtime::Endpoint> at) : client_(&client), at_(at) {}

  BlockingClient* client_;
  std::optional<runtime::Endpoint> at_;
};

std::string_view name_of(TraceResponse::Phase phase) {
  switch (phase) {
    case TraceResponse::IDLE: return "not traced yet";
    case TraceResponse::PREPARING: return "preparing";
    case TraceResponse::WAITING: return "waiting for the start event";
    case TraceResponse::RECORDING: return "recording";
    case TraceResponse::ENDED: return "ended";
    case TraceResponse::FAILED: return "failed";
    default: return "unknown";
  }
}

void show(Session& session, const TraceResponse& answer) {
  const double left = static_cast<double>(answer.left_ms()) / 1000;
  if (session.json)
    return print_json({{"phase", name_of(answer.phase())},
                       {"path", answer.path()},
                       {"failure", answer.failure()},
                       {"seconds_left", left},
                       {"functions", answer.functions()},
                       {"patched", answer.patched()},
                       {"met", answer.met()}});
  fmt::print("{}{}{}\n", name_of(answer.phase()), answer.failure().empty() ? "" : ": ",
             shown_message(answer.failure()));
  if (!answer.path().empty())
    fmt::print("{} of {} functions patched, {} met; trace on its machine: {}\n", answer.patched(),
               answer.functions(), answer.met(), shown_name(answer.path()));
}

Status write_trace(const TracedDaemon& daemon, const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out) return status_from_errno(errno, path);
  TraceRequest request;
  request.set_action(TraceRequest::READ);
  while (true) {
    KINTSUGI_ASSIGN(const TraceResponse answer, daemon.ask(request));
    if (answer.data().empty()) break;
    out.write(answer.data().data(), static_cast<std::streamsize>(answer.data().size()));
    request.set_offset(request.offset() + answer.data().size());
  }
  if (!out.flush()) return {Code::kIoError, fmt::format("{} cannot be written", path)};
  return {};
}

Status attach(Session& session, BlockingClient& client, const Arguments& arguments) {
  const auto lasts = config::parse_duration(arguments.lasts);
  if (!lasts) return lasts.error().with_context("--for");
  KINTSUGI_ASSIGN(const TracedDaemon daemon, TracedDaemon::find(client, arguments.where));
  TraceRequest request;
  request.set_action(TraceRequest::ATTACH);
  request.set_start(arguments.start);
  request.set_limit_ms(static_cast<uint64_t>(std::max<int64_t>(*lasts / std::chrono::milliseconds(1), 1)));
  request.set_circular(arguments.circular);
  request.set_bytes(arguments.bytes);
  KINTSUGI_ASSIGN(TraceResponse answer, daemon.ask(std::move(request)));
  const auto is_busy = [&] {
    return answer.phase() != TraceResponse::ENDED && answer.phase() != TraceResponse::FAILED;
  };
  // Whoever interrupts the command wants the code given back at once; the daemon does it by itself at the deadline.
  while (is_busy() && !session.interrupted()) {
    std::this_thread::sleep_for(kAskInterval);
    KINTSUGI_ASSIGN(answer, daemon.ask(TraceRequest::STATUS));
  }
  if (answer.phase() == TraceResponse::FAILED) return {static_cast<Code>(answer.code()), answer.failure()};
  if (!arguments.out.empty()) KINTSUGI_TRY(write_trace(daemon, arguments.out));
  show(session, answer);
  if (!session.json && arguments.start != "all" && answer.met() == 0)
    fmt::print("Nothing was recorded: {} was not called meanwhile.\n", shown_message(arguments.start));
  return {};
}

Status status(Session& session, BlockingClient& client, const Arguments& arguments) {
  KINTSUGI_ASSIGN(const TracedDaemon daemon, TracedDaemon::find(client, arguments.where));
  KINTSUGI_ASSIGN(const TraceResponse answer, daemon.ask(TraceRequest::STATUS));
  show(session, answer);
  return {};
}

Status detach(Session& session, BlockingClient& client, const Arguments& arguments) {
  KINTSUGI_ASSIGN(const TracedDaemon daemon, TracedDaemon::find(client, arguments.where));
  KINTSUGI_ASSIGN(const TraceResponse answer, daemon.ask(TraceRequest::DETACH));
  show(session, answer);
  return {};
}

Status show_file(Session& session, const Arguments& arguments) {
  KINTSUGI_ASSIGN(const tracing::Trace trace, tracing::read_trace(arguments.file));
  KINTSUGI_ASSIGN(const std::vector<std::string> names, function_names(trace, arguments.binary));
  if (session.json) {
    print_json(to_json(trace, names));
  } else {
    print_trace(trace, names);
  }
  return {};
}

}  // namespace

std::vector<Command> trace_commands() {
  const auto a = std::make_shared<Arguments>();
  const Option where{"WHERE", &a->where, "A server's name, number or host:port, or 'metaserver'", kRequired};
  return {{.name = "trace",
           .help = "Record which functions of a daemon run, and when",
           .commands = {
               {.name = "attach",
                .help = "Trace a daemon, and wait until the recording has ended",
                .options = {where,
                            {"--start", &a->start,
                             "What begins the recording: a function, method:NAME, or all for every function "
                             "from now on; default: "
                             "all"},
                            {"--for", &a->lasts, "How long; the daemon ends by itself then. Default: 10s"},
                            {"--out", &a->out, "File that the trace is copied to"},
                            {"--circular", &a->circular,
                             "Keep the newest records when the memory is full; without it that ends "
                             "the recording"},
                            {"--memory", Bytes{&a->bytes}, "Memory for records, 1m to 1g; default: 64m"}},
                .prints_json = true,
                .run = connected(a, attach)},
               {.name = "status",
                .help = "Say whether a daemon is being traced",
                .options = {where},
                .prints_json = true,
                .run = connected(a, status)},
               {.name = "detach",
                .help = "End the recording of a daemon",
                .options = {where},
                .prints_json = true,
                .run = connected(a, detach)},
               {.name = "show",
                .help = "Print the records of a trace",
                .options = {{"FILE", &a->file, "The trace", kRequired},
                            {"--binary", &a->binary,
                             "The binary that was traced; default: where the trace says it was"}},
                .prints_json = true,
                .run = [a](Session& session) { return show_file(session, *a); }}}}};
}

}  // namespace kintsugi::cli
