// trace attach, status, detach, show.

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "client/cli/trace_explain.h"
#include "client/cli/trace_export.h"
#include "client/cli/trace_otlp.h"
#include "client/cli/trace_text.h"
#include "client/cli/traced_daemon.h"
#include "common/config/units.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using proto::TraceRequest;
using proto::TraceResponse;

/// A daemon is asked so often whether its recording has ended.
constexpr auto kAskInterval = std::chrono::milliseconds(50);

struct TraceArguments {
  std::string where, start = "all", lasts = "10s", out, file, binary;
  std::vector<std::string> files, normal;
  size_t format = 0;
  uint64_t bytes = 64 << 20;
  bool circular = false, follow = false;
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

void show(Session& session, const TraceResponse& answer, const std::vector<FollowedProcess>& followed = {}) {
  const double left = static_cast<double>(answer.left_ms()) / 1000;
  if (session.json)
    return print_json({{"phase", name_of(answer.phase())},
                       {"path", answer.path()},
                       {"failure", answer.failure()},
                       {"seconds_left", left},
                       {"functions", answer.functions()},
                       {"patched", answer.patched()},
                       {"met", answer.met()},
                       {"requests", answer.requests()},
                       {"followed", to_json(followed)}});
  fmt::print("{}{}{}\n", name_of(answer.phase()), answer.failure().empty() ? "" : ": ",
             shown_message(answer.failure()));
  if (!answer.path().empty())
    fmt::print("{} of {} functions patched, {} met; trace on its machine: {}\n", answer.patched(),
               answer.functions(), answer.met(), shown_name(answer.path()));
  if (answer.requests() > 0) fmt::print("{} requests were followed\n", answer.requests());
  fmt::print("{}", to_text(followed));
}

/// Has the daemon give its code back now rather than at the deadline. The client of a session that was interrupted is
/// of no more use, so another one asks.
Status give_back(const TraceArguments& arguments) {
  KINTSUGI_ASSIGN(const auto client, Session::connect_to(std::getenv(kMetaVariable),
                                                         CredentialFiles::of_environment(), kGiveBackLimit));
  KINTSUGI_ASSIGN(const TracedDaemon daemon, TracedDaemon::find(*client, arguments.where));
  const auto detached = daemon.ask(TraceRequest::DETACH);
  if (arguments.follow) {
    // Its recording may have ended already; those of others have not.
    KINTSUGI_ASSIGN(const TraceResponse answer, daemon.ask(TraceRequest::STATUS));
    (void)end_followed(*client, answer, "");
  }
  return detached ? Status{} : detached.error();
}

Status attach_trace(Session& session, BlockingClient& client, const TraceArguments& arguments) {
  const auto lasts = config::parse_duration(arguments.lasts);
  if (!lasts) return lasts.error().with_context("--for");
  KINTSUGI_ASSIGN(const TracedDaemon daemon, TracedDaemon::find(client, arguments.where));
  TraceRequest request;
  request.set_action(TraceRequest::ATTACH);
  request.set_start(arguments.start);
  request.set_limit_ms(static_cast<uint64_t>(std::max<int64_t>(*lasts / std::chrono::milliseconds(1), 1)));
  request.set_circular(arguments.circular);
  request.set_bytes(arguments.bytes);
  request.set_follow(arguments.follow);
  const uint64_t owner = arguments.follow ? new_owner() : 0;
  request.set_owner(owner);
  request.set_hops(kMostHops);
  KINTSUGI_ASSIGN(TraceResponse answer, daemon.ask(std::move(request)));
  const auto is_busy = [&] {
    return answer.phase() != TraceResponse::ENDED && answer.phase() != TraceResponse::FAILED;
  };
  while (is_busy()) {
    std::this_thread::sleep_for(kAskInterval);
    auto asked = daemon.ask(TraceRequest::STATUS);
    if (asked && asked->owner() != owner)
      asked = daemon.named({Code::kConflict, "its recording was ended, and somebody else has begun another"});
    if (session.interrupted()) return give_back(arguments);
    // When the first server dies the others are ended all the same.
    if (!asked && arguments.follow) {
      const std::vector<FollowedProcess> ended = end_followed(client, answer, arguments.out);
      if (!session.json) fmt::print("{}", to_text(ended));
    }
    KINTSUGI_ASSIGN(answer, std::move(asked));
  }
  std::vector<FollowedProcess> followed;
  if (arguments.follow) followed = end_followed(client, answer, arguments.out);
  if (answer.phase() == TraceResponse::FAILED)
    return daemon.named({static_cast<Code>(answer.code()), answer.failure()});
  if (!arguments.out.empty()) KINTSUGI_TRY(daemon.copy_trace(arguments.out));
  show(session, answer, followed);
  if (!session.json && !arguments.follow && arguments.start != "all" && answer.met() == 0)
    fmt::print("Nothing was recorded: {} was not called meanwhile.\n", shown_message(arguments.start));
  if (!session.json && arguments.follow && answer.requests() == 0)
    fmt::print("No request was followed: none came of {}.\n", shown_message(arguments.start));
  return {};
}

Status trace_status(Session& session, BlockingClient& client, const TraceArguments& arguments) {
  KINTSUGI_ASSIGN(const TracedDaemon daemon, TracedDaemon::find(client, arguments.where));
  KINTSUGI_ASSIGN(const TraceResponse answer, daemon.ask(TraceRequest::STATUS));
  show(session, answer);
  return {};
}

Status detach_trace(Session& session, BlockingClient& client, const TraceArguments& arguments) {
  KINTSUGI_ASSIGN(const TracedDaemon daemon, TracedDaemon::find(client, arguments.where));
  KINTSUGI_ASSIGN(const TraceResponse answer, daemon.ask(TraceRequest::DETACH));
  show(session, answer);
  return {};
}

Status show_file(Session& session, const TraceArguments& arguments) {
  KINTSUGI_ASSIGN(const tracing::NamedTrace named,
                  tracing::read_named_trace(arguments.file, arguments.binary));
  if (session.json) {
    print_trace_json(named);
  } else {
    print_trace(named);
  }
  return {};
}

/// What was recorded at the same time, separated by request. What is missing is said on stderr.
Result<tracing::Separated> separated(const std::vector<std::string>& files, const std::string& binary) {
  tracing::Separation separation;
  for (const std::string& file : files) {
    KINTSUGI_ASSIGN(const tracing::NamedTrace named, tracing::read_named_trace(file, binary));
    if (const uint64_t lost = named.trace.lost; lost > 0)
      fmt::print(stderr, "{}: {} records found no room, so some requests are incomplete\n", shown_name(file),
                 lost);
    if (named.trace.end == tracing::End::kFull)
      fmt::print(stderr, "{}: its memory was full, so what came later is missing\n", shown_name(file));
    separation.add(named);
  }
  return separation.finish();
}

Status explain(Session& session, const TraceArguments& arguments) {
  KINTSUGI_ASSIGN(const tracing::Separated odd, separated(arguments.files, arguments.binary));
  std::optional<tracing::Separated> normal;
  if (!arguments.normal.empty()) {
    KINTSUGI_ASSIGN(normal, separated(arguments.normal, arguments.binary));
  }
  KINTSUGI_ASSIGN(const std::vector<TraceAnswer> answers, explain_traces(odd, normal ? &*normal : nullptr));
  if (session.json) {
    print_json(to_json(answers));
    return {};
  }
  for (const TraceAnswer& answer : answers)
    fmt::print("{}, {} compared. {}", answer.about, answer.compared, answer.text);
  if (answers.empty()) fmt::print("No request is in these traces.\n");
  return {};
}

Status export_traces(const TraceArguments& arguments) {
  KINTSUGI_ASSIGN(const tracing::Separated all, separated(arguments.files, arguments.binary));
  std::ofstream file;
  if (!arguments.out.empty()) {
    file.open(arguments.out, std::ios::binary | std::ios::trunc);
    if (!file) return status_from_errno(errno, arguments.out);
  }
  std::ostream& out = arguments.out.empty() ? std::cout : file;
  // In the order of the choices of --format.
  using Writer = void (*)(std::ostream&, const tracing::Separated&);
  constexpr Writer kWriters[] = {write_chrome, write_folded, write_otlp};
  kWriters[arguments.format](out, all);
  if (!out.flush()) return {Code::kIoError, "what is exported cannot be written"};
  return {};
}

std::vector<Option> attach_options(const std::shared_ptr<TraceArguments>& a, const Option& where) {
  return {where,
          {"--start", &a->start,
           "What begins the recording: a function, method:NAME, or all for every function "
           "from now on; default: all"},
          {"--for", &a->lasts, "How long; the daemon ends by itself then. Default: 10s"},
          {"--out", &a->out,
           "File that the trace is copied to; those of servers that were followed to get "
           "their address behind the name"},
          {"--follow", &a->follow,
           "Follow requests into the servers that they reach, which record meanwhile, too: "
           "those of the method, or with --start all every one that comes; of a mount "
           "what applications ask it for"},
          {"--circular", &a->circular,
           "Keep the newest records when the memory is full; without it that ends "
           "the recording"},
          {"--memory", Bytes{&a->bytes}, "Memory for records, 1m to 1g; default: 64m"}};
}

}  // namespace

std::vector<Command> trace_commands() {
  const auto a = std::make_shared<TraceArguments>();
  const Option binary{
      "--binary", &a->binary,
      "The binary that was traced, or the directory that it is in; default: where the trace says"};
  const Option files{"FILE", &a->files, "Traces that were recorded at the same time", kRequired};
  const Choice format{{"chrome", "folded", "otlp"}, [a](size_t chosen) { a->format = chosen; }};
  const Option where{"WHERE", &a->where,
                     "A server's name, number or host:port, 'metaserver', or a mount of this host: its "
                     "directory or pid:NUMBER",
                     kRequired};
  return {{.name = "trace",
           .help = "Record which functions of a daemon run, and when",
           .commands = {
               {.name = "attach",
                .help = "Trace a daemon, and wait until the recording has ended",
                .options = attach_options(a, where),
                .prints_json = true,
                .run = connected(a, attach_trace)},
               {.name = "status",
                .help = "Say whether a daemon is being traced",
                .options = {where},
                .prints_json = true,
                .run = connected(a, trace_status)},
               {.name = "detach",
                .help = "End the recording of a daemon",
                .options = {where},
                .prints_json = true,
                .run = connected(a, detach_trace)},
               {.name = "show",
                .help = "Print the records of a trace",
                .options = {{"FILE", &a->file, "The trace", kRequired}, binary},
                .prints_json = true,
                .run = [a](Session& session) { return show_file(session, *a); }},
               {.name = "explain",
                .help = "Say which request was unlike the others, and which function made it so",
                .options = {files, {"--normal", &a->normal, "Traces of runs that were well"}, binary},
                .prints_json = true,
                .run = [a](Session& session) { return explain(session, *a); }},
               {.name = "export",
                .help = "Write traces as other tools read them",
                .options = {files,
                            {"--format", format,
                             "chrome: Perfetto; folded: flame graphs; otlp: OpenTelemetry. Default: chrome"},
                            {"--out", &a->out, "File to write to; default: standard output"},
                            binary},
                .prints_bytes = true,
                .run = [a](Session&) { return export_traces(*a); }}}}};
}

}  // namespace kintsugi::cli
