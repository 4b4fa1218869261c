// diagnose: what is stuck or slow in the cluster, and who waits for it.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <set>

#include <nlohmann/json.hpp>
#include <poll.h>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "client/cli/source_slice.h"
#include "common/http/kept_connection.h"
#include "common/proto/measured_rates.h"
#include "common/proto/sight.pb.h"
#include "common/proto/verdict_advice.h"
#include "common/proto/verdicts.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

/// Where the monitor is, for when the metaserver does not say. Set by a local cluster's file `env`.
constexpr const char* kMonitorVariable = "KINTSUGI_MONITOR";
constexpr auto kWatchInterval = std::chrono::seconds(2);

struct DiagnoseArguments {
  bool watch = false, history = false, models = false, metrics = false;
  std::string server;   ///< the server whose metrics are shown; empty: all servers
  uint32_t since = 10;  ///< how many minutes of metrics are shown
  uint32_t slice = 0;
  std::string source = ".";
};

Result<proto::DiagnoseResponse> ask(BlockingClient& client, const DiagnoseArguments& arguments) {
  proto::DiagnoseRequest request;
  request.set_history(arguments.history);
  request.set_models(arguments.models);
  std::optional<runtime::Endpoint> known;
  if (const char* address = std::getenv(kMonitorVariable); address != nullptr && *address != '\0') {
    const auto parsed = runtime::Endpoint::parse(address);
    if (!parsed) return parsed.error().with_context(kMonitorVariable);
    known = *parsed;
  }
  return client.run(client.async().diagnose(std::move(request), known));
}

/// Where to look in the source, the likeliest place first: what the monitor chose, or else the verdict's own place and
/// then those of who waits for it.
void print_slice(const proto::Verdict& verdict, const DiagnoseArguments& arguments) {
  std::set<std::pair<std::string, uint32_t>> shown;
  const auto print = [&](const std::string& file, uint32_t line, const std::string& function) {
    if (file.empty() || line == 0 || !shown.emplace(file, line).second) return;
    fmt::print("  {}:{}{}\n", shown_name(file), line,
               function.empty() ? "" : ", in " + shown_message(function));
    const auto lines = source_lines(arguments.source, file, line, arguments.slice);
    fmt::print("{}", lines ? *lines : fmt::format("    ({})\n", lines.error().message()));
  };
  for (const proto::ChainLink& place : verdict.slice())
    print(place.file(), place.line(), place.function());
  print(verdict.file(), verdict.line(), verdict.function());
  for (auto link = verdict.chain().rbegin(); link != verdict.chain().rend(); ++link)
    print(link->file(), link->line(), link->function());
}

/// First what an operator wants to know, then the evidence for a developer.
void print_verdict(const proto::Verdict& verdict, const DiagnoseArguments& arguments) {
  fmt::print("{}\n  {}\n", proto::advise(verdict), proto::describe(verdict));
  for (int i = 0; i < verdict.chain_size(); ++i)
    fmt::print("  {}{}\n", i == 0 ? "" : "waits for ", proto::describe(verdict.chain(i)));
  for (const std::string& reason : verdict.why())
    fmt::print("  because {}\n", shown_message(reason));
  if (const auto rate = proto::measured_rate(verdict.kind(), verdict.confidence()))
    fmt::print("  such verdicts were right {} of {} times in campaigns\n", rate->right, rate->of);
  for (const std::string& frame : verdict.stack())
    fmt::print("  at {}\n", shown_message(frame));
  if (arguments.slice > 0) print_slice(verdict, arguments);
}

using Judged = bool (*)(const proto::Verdict&);

int count(const proto::DiagnoseResponse& answer, Judged is_so) {
  return static_cast<int>(std::ranges::count_if(answer.verdicts(), is_so));
}

/// Operations do not continue without it, if there are any.
bool is_wrong(const proto::Verdict& verdict) {
  return !verdict.masked() && verdict.kind() != proto::Verdict::RUNS_OUT;
}

bool runs_out(const proto::Verdict& verdict) {
  return verdict.kind() == proto::Verdict::RUNS_OUT;
}

bool is_full(const proto::Verdict& verdict) {
  return verdict.kind() == proto::Verdict::FULL;
}

std::string conclusion(const proto::DiagnoseResponse& answer) {
  const int wrong = count(answer, is_wrong), ending = count(answer, runs_out);
  const int masked = answer.verdicts_size() - wrong - ending;
  // A server that does not report may be stuck without anybody knowing.
  const bool all_report = answer.servers() > 0 && answer.servers_reporting() == answer.servers();
  std::string text = wrong > 0    ? counted(static_cast<uint64_t>(wrong), "culprit")
                     : all_report ? "nothing is stuck"
                                  : "nothing is known to be stuck";
  if (masked > 0)
    text += fmt::format(", {} without which operations continue",
                        counted(static_cast<uint64_t>(masked), "masked culprit"));
  if (ending > 0)
    text +=
        fmt::format(", {}", counted(static_cast<uint64_t>(ending), "resource runs out", "resources run out"));
  if (answer.servers() > 0)
    text += fmt::format("; {} of {} servers report", answer.servers_reporting(), answer.servers());
  if (answer.reduced()) text += "; no monitor answers, this is what heartbeats tell";
  return text;
}

/// Active alarms, then cleared ones: none is left out because it is only a moment old.
void print_history(const proto::DiagnoseResponse& answer) {
  int alarms = 0;
  for (const proto::Verdict& verdict : answer.verdicts()) {
    if (verdict.raised_wall_ns() == 0) continue;  // the monitor has not kept it as an alarm
    fmt::print("{}, active: {}\n", local_time(verdict.raised_wall_ns()), proto::describe(verdict));
    ++alarms;
  }
  for (const proto::Verdict& verdict : answer.history()) {
    fmt::print("{}, for {:.0f} s: {}\n", local_time(verdict.raised_wall_ns()),
               static_cast<double>(verdict.cleared_wall_ns() - verdict.raised_wall_ns()) / 1e9,
               proto::describe(verdict));
    ++alarms;
  }
  if (alarms == 0) fmt::print("no alarms so far\n");
}

/// How much of the times of each region its inputs explain.
void print_models(const proto::DiagnoseResponse& answer) {
  if (answer.models_size() == 0) {
    fmt::print(
        "the monitor has learnt no models: its setting `behaviour` is off, or it has seen too few "
        "executions\n");
    return;
  }
  fmt::print("{:>5}  {:>10}  {:8}  {}\n", "R²", "executions", "",
             "region, and what of it is explained by which inputs");
  for (const proto::LearntModel& model : answer.models())
    fmt::print(
        "{:>5.2f}  {:>10}  {:8}  {} of {}: {}{}\n", model.r2(), model.executions(),
        model.usable() ? "judged" : "not used", shown_name(model.process_kind()),
        shown_message(model.region()), shown_name(model.observation()),
        model.inputs().empty() ? "" : shown_message(fmt::format(" by {}", fmt::join(model.inputs(), ", "))));
}

void print_answer(const proto::DiagnoseResponse& answer, const DiagnoseArguments& arguments) {
  for (const proto::Verdict& verdict : answer.verdicts())
    print_verdict(verdict, arguments);
  fmt::print("{}\n", conclusion(answer));
  for (const proto::HeldBackMoves& moves : answer.held_back())
    fmt::print("server {}: {}; `kintsugi repair history` says why they failed\n", shown_name(moves.server()),
               shown_message(proto::describe(moves)));
  for (const proto::MaintainedServer& server : answer.in_maintenance())
    fmt::print("server {} is in maintenance until {}\n", shown_name(server.server()),
               time_in(server.seconds_left()));
  if (arguments.history) print_history(answer);
  if (arguments.models) print_models(answer);
}

/// The text by which --watch knows whether anything changed: it leaves out the times that grow.
std::string essence(proto::DiagnoseResponse answer) {
  std::string text = conclusion(answer);
  for (const proto::Verdict& verdict : answer.verdicts())
    text += fmt::format("\n{} {}", verdict.id(), proto::confidence_name(verdict.confidence()));
  for (const proto::HeldBackMoves& moves : answer.held_back())
    text += fmt::format("\n{} held back", moves.server_id());
  for (const proto::MaintainedServer& server : answer.in_maintenance())
    text += fmt::format("\n{} in maintenance", server.server_id());
  return text;
}

Status watch(Session& session, BlockingClient& client, const DiagnoseArguments& arguments) {
  std::string last;
  pollfd interruption{.fd = session.interruption_descriptor(), .events = POLLIN, .revents = 0};
  do {
    const auto answer = ask(client, arguments);
    const std::string now = answer ? essence(*answer) : describe(answer.error());
    if (session.interrupted()) break;
    if (session.json) {
      if (answer) fmt::print("{}\n", proto::to_json(*answer));
    } else if (now != last) {
      const auto wall = std::chrono::system_clock::now().time_since_epoch();
      fmt::print("{}\n", local_time(std::chrono::nanoseconds(wall).count()));
      if (answer) print_answer(*answer, arguments);
      if (!answer) fmt::print("{}\n", shown_message(now));
    }
    last = now;
    if (std::fflush(stdout) != 0) return {};  // the reader has closed the pipe; Session reports it
  } while (::poll(&interruption, 1, static_cast<int>(std::chrono::milliseconds(kWatchInterval).count())) ==
           0);
  return {};
}

/// Ok when nothing is wrong, or operations continue without whatever is.
Status judge(const proto::DiagnoseResponse& answer) {
  if (count(answer, proto::is_metaserver_silent) > 0) {
    return {
        Code::kUnavailable,
        "the metaserver does not answer: nothing can be stored or found until it is back; start it again"};
  }
  const int wrong = count(answer, is_wrong), holding = count(answer, proto::holds_up);
  if (wrong == 0) return {};
  if (count(answer, is_full) > 0) return {Code::kNoSpace, "there is no room, and writes fail"};
  const auto culprits = [](int number) { return counted(static_cast<uint64_t>(number), "culprit"); };
  if (holding > 0) return {Code::kUnavailable, fmt::format("operations wait for {}", culprits(holding))};
  return {Code::kUnavailable, fmt::format("{}; no operation waits now", culprits(wrong))};
}

/// Text as a part of a URL.
std::string url_escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.')
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

/// Which recorded metrics are unlike before. The monitor reads its recording for that, which takes a while.
Status compare_metrics(Session& session, BlockingClient& client, const DiagnoseArguments& arguments) {
  constexpr auto kLimit = std::chrono::seconds(120);
  KINTSUGI_ASSIGN(const proto::DiagnoseResponse answer, ask(client, arguments));
  auto monitor = runtime::Endpoint::parse(answer.monitor_http());
  if (!monitor)
    return {Code::kUnavailable, "no monitor with a console answers; it keeps the recorded metrics"};
  // A console that listens everywhere is where the monitor is.
  const auto rpc = runtime::Endpoint::parse(answer.monitor());
  if (rpc && monitor->is_wildcard()) monitor->host = rpc->host;
  const runtime::Runtime runtime = client.runtime().runtime();
  http::KeptConnection connection(runtime, *monitor);
  KINTSUGI_ASSIGN(const std::string body,
                  client.run(connection.get(fmt::format("/api/v1/unlike?since={}&server={}",
                                                        arguments.since * 60, url_escaped(arguments.server)),
                                            runtime.clock.now() + kLimit)));
  if (session.json) {
    fmt::print("{}", body);
    return {};
  }
  const auto document = nlohmann::json::parse(body, nullptr, false);
  if (!document.is_object()) return {Code::kCorrupt, "the monitor's answer is not understood"};
  if (const std::string problem = document.value("problem", ""); !problem.empty())
    return {Code::kUnavailable, shown_message(problem)};
  for (const auto& line : document.value("lines", std::vector<std::string>()))
    fmt::print("{}\n", shown_message(line));
  return {};
}

/// Fails when anything is wrong, after it printed everything.
Status diagnose(Session& session, BlockingClient& client, const DiagnoseArguments& arguments) {
  if (arguments.metrics) return compare_metrics(session, client, arguments);
  if (arguments.watch) return watch(session, client, arguments);
  KINTSUGI_ASSIGN(const proto::DiagnoseResponse answer, ask(client, arguments));
  if (session.json) {
    fmt::print("{}\n", proto::to_json(answer));
  } else {
    print_answer(answer, arguments);
  }
  return judge(answer);
}

}  // namespace

Command diagnose_command() {
  const auto a = std::make_shared<DiagnoseArguments>();
  return {.name = "diagnose",
          .help =
              "Say what is stuck or slow, where in the code, and who waits for it; the exit code is 1 when "
              "something is",
          .options =
              {{"--watch", &a->watch, "Keep running, and print what changes"},
               {"--history", &a->history, "Also print alarms, the active ones and those that were cleared"},
               {"--models", &a->models,
                "Also print how much of the times of regions the monitor can explain by their inputs"},
               {"--metrics", &a->metrics,
                "Instead, print which recorded metrics of the last minutes are unlike the two hours before"},
               {"--server", &a->server, "With --metrics: only this server"},
               {.names = "--since",
                .target = &a->since,
                .help = "With --metrics: so many minutes count as now; default: 10",
                .least = 1,
                .most = 360},
               {.names = "--slice",
                .target = &a->slice,
                .help = "Print so many lines of source code around each place",
                .most = 1000},
               {"--source", &a->source, "With --slice: where the source code is; default: here"}},
          .prints_json = true,
          .run = connected(a, diagnose)};
}

}  // namespace kintsugi::cli
