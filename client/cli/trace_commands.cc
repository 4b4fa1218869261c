// trace attach, status, detach, show.

#include <cerrno>
#include <fstream>
#include <iostream>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "client/cli/trace_attach.h"
#include "client/cli/trace_directives.h"
#include "client/cli/trace_explain.h"
#include "client/cli/trace_export.h"
#include "client/cli/trace_otlp.h"
#include "client/cli/trace_text.h"
#include "client/cli/traced_daemon.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using proto::TraceRequest;
using proto::TraceResponse;

struct TraceArguments {
  std::string where, out, file, binary, directives;
  std::vector<std::string> files, normal;
  size_t format = 0;
  bool rules_only = false;
  double least_seconds = 0;
  AttachArguments attach;
};

Status trace_status(Session& session, BlockingClient& client, const TraceArguments& arguments) {
  KINTSUGI_ASSIGN(const TracedDaemon daemon, TracedDaemon::find(client, arguments.where));
  KINTSUGI_ASSIGN(const TraceResponse answer, daemon.ask(TraceRequest::STATUS));
  show_recording(session, answer);
  return {};
}

Status detach_trace(Session& session, BlockingClient& client, const TraceArguments& arguments) {
  KINTSUGI_ASSIGN(const TracedDaemon daemon, TracedDaemon::find(client, arguments.where));
  KINTSUGI_ASSIGN(const TraceResponse answer, daemon.ask(TraceRequest::DETACH));
  show_recording(session, answer);
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
Result<tracing::Separated> separated(const std::vector<std::string>& files, const TraceArguments& arguments) {
  KINTSUGI_ASSIGN(tracing::SeparationSettings settings,
                  separation_settings(arguments.directives, arguments.rules_only));
  tracing::Separation separation(std::move(settings));
  for (const std::string& file : files) {
    KINTSUGI_ASSIGN(const tracing::NamedTrace named, tracing::read_named_trace(file, arguments.binary));
    if (const uint64_t lost = named.trace.lost; lost > 0)
      fmt::print(stderr, "{}: {} records found no room, so some requests are incomplete\n", shown_name(file),
                 lost);
    if (named.trace.end == tracing::End::kFull)
      fmt::print(stderr, "{}: its memory was full, so what came later is missing\n", shown_name(file));
    separation.add(named);
  }
  KINTSUGI_ASSIGN(tracing::Separated all, separation.finish());
  // Programs need not have all functions that ours may have.
  if (!arguments.directives.empty())
    for (const std::string& remark : all.remarks)
      fmt::print(stderr, "{}: {}\n", shown_name(arguments.directives), shown_message(remark));
  return all;
}

Status explain(Session& session, const TraceArguments& arguments) {
  if (arguments.least_seconds > 0 && arguments.normal.empty())
    return {Code::kInvalidArgument, "--least needs runs that were well: --normal"};
  KINTSUGI_ASSIGN(const tracing::Separated odd, separated(arguments.files, arguments));
  std::optional<tracing::Separated> normal;
  if (!arguments.normal.empty()) {
    KINTSUGI_ASSIGN(normal, separated(arguments.normal, arguments));
  }
  KINTSUGI_ASSIGN(
      const std::vector<TraceAnswer> answers,
      explain_traces(odd, {.traces = normal ? &*normal : nullptr, .least_seconds = arguments.least_seconds}));
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
  KINTSUGI_ASSIGN(const tracing::Separated all, separated(arguments.files, arguments));
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

using Arguments = std::shared_ptr<TraceArguments>;

/// Returns the commands that read recordings.
std::vector<Command> reading_commands(const Arguments& a) {
  const Option binary{
      "--binary", &a->binary,
      "The binary that was traced, or the directory that it is in; default: where the trace says"};
  const Option files{"FILE", &a->files, "Traces that were recorded at the same time", kRequired};
  const Option directives{"--directives", &a->directives,
                          "File that says where threads turn to another request; default: "
                          "what is known of Kintsugi's processes"};
  const Option rules_only{"--rules-only", &a->rules_only,
                          "Use no directives: messages and the order within a thread alone"};
  const Option normal{"--normal", &a->normal, "Traces of runs that were well"};
  const Option least{"--least", &a->least_seconds,
                     "With --normal: seconds that a request has to lose to be accused; default: twice what "
                     "chance took from one in those runs"};
  const Option format{"--format",
                      Choice{{"chrome", "folded", "otlp"}, [a](size_t chosen) { a->format = chosen; }},
                      "chrome: Perfetto; folded: flame graphs; otlp: OpenTelemetry. Default: chrome"};
  const Option out{"--out", &a->out, "File to write to; default: standard output"};
  return {{.name = "show",
           .help = "Print the records of a trace",
           .options = {{"FILE", &a->file, "The trace", kRequired}, binary},
           .prints_json = true,
           .run = [a](Session& session) { return show_file(session, *a); }},
          {.name = "explain",
           .help = "Say which request was unlike the others, and which function made it so",
           .options = {files, normal, least, directives, rules_only, binary},
           .prints_json = true,
           .run = [a](Session& session) { return explain(session, *a); }},
          {.name = "export",
           .help = "Write traces as other tools read them",
           .options = {files, format, out, directives, rules_only, binary},
           .prints_bytes = true,
           .run = [a](Session&) { return export_traces(*a); }}};
}

/// Returns the commands that have daemons record.
std::vector<Command> recording_commands(const Arguments& a) {
  const Option where{"WHERE", &a->where,
                     "A server's name, number or host:port, 'metaserver', or a mount of this host: its "
                     "directory or pid:NUMBER",
                     kRequired};
  std::vector<Option> attached{
      {"WHERE", &a->attach.where,
       "A server's name, number or host:port, 'metaserver', or a mount of this host: its "
       "directory or pid:NUMBER; with --start verdict also 'culprit', whomever it names; with --signal "
       "pid:NUMBER, any process of Kintsugi",
       kRequired}};
  for (Option& each : attach_options(a->attach))
    attached.push_back(std::move(each));
  return {{.name = "attach",
           .help = "Trace a daemon, and wait until the recording has ended",
           .options = std::move(attached),
           .prints_json = true,
           .run = [a](Session& session) { return attach(session, a->attach); }},
          {.name = "status",
           .help = "Say whether a daemon is being traced",
           .options = {where},
           .prints_json = true,
           .run = connected(a, trace_status)},
          {.name = "detach",
           .help = "End the recording of a daemon",
           .options = {where},
           .prints_json = true,
           .run = connected(a, detach_trace)}};
}

}  // namespace

std::vector<Command> trace_commands() {
  const auto a = std::make_shared<TraceArguments>();
  std::vector<Command> commands = recording_commands(a);
  for (Command& each : reading_commands(a))
    commands.push_back(std::move(each));
  return {{.name = "trace",
           .help = "Record which functions of a daemon run, and when",
           .commands = std::move(commands)}};
}

}  // namespace kintsugi::cli
