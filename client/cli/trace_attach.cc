#include "client/cli/trace_attach.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "client/cli/format.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "client/cli/trace_attach_at_verdict.h"
#include "client/cli/trace_attach_by_signal.h"
#include "client/cli/trace_directives.h"
#include "client/cli/trace_times.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using proto::TraceRequest;
using proto::TraceResponse;

/// A daemon is asked so often whether its recording has ended.
constexpr auto kAskInterval = std::chrono::milliseconds(50);

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

/// Has the daemon give its code back now rather than at the deadline. The client of a session that was interrupted is
/// of no more use, so another one asks.
Status give_back(const AttachArguments& arguments, uint64_t owner) {
  KINTSUGI_ASSIGN(const auto client, Session::connect_to(std::getenv(kMetaVariable),
                                                         CredentialFiles::of_environment(), kGiveBackLimit));
  KINTSUGI_ASSIGN(const TracedDaemon found, TracedDaemon::find(*client, arguments.where));
  const TracedDaemon daemon = found.for_owner(owner);
  const auto detached = daemon.ask(TraceRequest::DETACH);
  if (arguments.follow) {
    // Its recording may have ended already; those of others have not.
    const auto answer = daemon.own_status();
    if (answer)
      (void)end_followed(*client, *answer, "");
    else if (answer.error().code() != Code::kConflict)
      return answer.error();
  }
  return detached ? Status{} : detached.error();
}

/// Ends the recordings of followed processes, copies the trace if that was asked for, and prints what came of it.
Status take_recording(Session& session, BlockingClient& client, const AttachArguments& arguments,
                      const TracedDaemon& daemon, const TraceResponse& answer) {
  std::vector<FollowedProcess> followed;
  if (arguments.follow) followed = end_followed(client, answer, arguments.out);
  if (answer.phase() == TraceResponse::FAILED)
    return daemon.named({static_cast<Code>(answer.code()), answer.failure()});
  const bool is_there = !answer.path().empty();
  if (is_there && !arguments.out.empty()) KINTSUGI_TRY(daemon.copy_trace(arguments.out));
  show_recording(session, answer, followed);
  if (session.json) return {};
  if (answer.began_unix_ms() != 0 && arguments.start != "all" && !arguments.follow)
    fmt::print("Began {}: {}\n", time_of_day(answer.began_unix_ms()),
               shown_message(answer.began().empty() ? arguments.start + " was called" : answer.began()));
  if (!is_there)
    fmt::print("Nothing was recorded: {}.\n", shown_message(answer.began()));
  else if (!arguments.follow && arguments.start != "all" && answer.began_unix_ms() == 0)
    fmt::print("Nothing was recorded: {} was not called meanwhile.\n", shown_message(arguments.start));
  if (arguments.follow && answer.requests() == 0)
    fmt::print("No request was followed: none came of {}.\n", shown_message(arguments.start));
  return {};
}

Status attach_one(Session& session, BlockingClient& client, const AttachArguments& arguments) {
  KINTSUGI_ASSIGN(TraceRequest request, attach_request(arguments));
  KINTSUGI_ASSIGN(const TracedDaemon found, TracedDaemon::find(client, arguments.where));
  const uint64_t owner = new_owner();
  const TracedDaemon daemon = found.for_owner(owner);
  KINTSUGI_ASSIGN(TraceResponse answer, daemon.ask(std::move(request)));
  while (answer.phase() != TraceResponse::ENDED && answer.phase() != TraceResponse::FAILED) {
    std::this_thread::sleep_for(kAskInterval);
    auto asked = daemon.own_status();
    if (session.interrupted()) return give_back(arguments, owner);
    // When the first server dies the others are ended all the same.
    if (!asked && arguments.follow) {
      const std::vector<FollowedProcess> ended = end_followed(client, answer, arguments.out);
      if (!session.json) fmt::print("{}", to_text(ended));
    }
    KINTSUGI_ASSIGN(answer, std::move(asked));
  }
  return take_recording(session, client, arguments, daemon, answer);
}

}  // namespace

void show_recording(Session& session, const TraceResponse& answer,
                    const std::vector<FollowedProcess>& followed) {
  const double left = static_cast<double>(answer.left_ms()) / 1000;
  if (session.json)
    return print_json({{"phase", name_of(answer.phase())},
                       {"path", answer.path()},
                       {"failure", answer.failure()},
                       {"seconds_left", left},
                       {"functions", answer.functions()},
                       {"patched", answer.patched()},
                       {"met", answer.met()},
                       {"began", answer.began()},
                       {"began_unix_ms", answer.began_unix_ms()},
                       {"owners", answer.owners()},
                       {"end", end_of(answer)},
                       {"requests", answer.requests()},
                       {"followed", to_json(followed)}});
  const std::string shared = answer.owners() > 1 ? fmt::format(", for {} commands", answer.owners()) : "";
  fmt::print("{}{}{}{}{}\n", name_of(answer.phase()), shared, answer.failure().empty() ? "" : ": ",
             shown_message(answer.failure()), lack_of(answer));
  if (!answer.path().empty())
    fmt::print("{} of {} functions patched, {} met; trace on its machine: {}\n", answer.patched(),
               answer.functions(), answer.met(), shown_name(answer.path()));
  if (answer.requests() > 0) fmt::print("{} requests were followed\n", answer.requests());
  fmt::print("{}", to_text(followed));
}

std::vector<Option> attach_options(AttachArguments& a) {
  return {
      {"--start", &a.start,
       "What begins the recording: a function, method:NAME, slow:METHOD:TIME (a request that takes longer), "
       "slow:METHOD (longer than 99.9 % of those before), after:TIME, at:HH:MM, verdict, or all for every "
       "function from now on; default: all"},
      {"--for", &a.lasts,
       "How long, with the wait for the beginning; the daemon ends by itself then. Default: 10s"},
      {"--record-for", &a.recorded_for,
       "End so long after the recording began; default: only when --for is over"},
      {"--out", &a.out,
       "File that the trace is copied to; those of servers that were followed to, or that a verdict names, "
       "get their address behind the name"},
      {"--follow", &a.follow,
       "Follow requests into the servers that they reach, which record meanwhile, too: "
       "those of the method, or with --start all every one that comes; of a mount "
       "what applications ask it for"},
      {"--signal", &a.by_signal,
       "Ask a process of this host that answers no calls, pid:NUMBER, by a signal; takes --for and --out"},
      {"--circular", &a.circular,
       "Keep the newest records when the memory is full; without it that ends "
       "the recording"},
      {"--directives", &a.directives,
       "File of directives that explain and export will take: the values that they need are recorded, too"},
      {"--memory", Bytes{&a.bytes}, "Memory for records, 1m to 1g; default: 64m"}};
}

Status attach(Session& session, const AttachArguments& arguments) {
  if (arguments.by_signal) return attach_by_signal(session, arguments);
  const bool at_verdict = arguments.start == kAtVerdict;
  if (arguments.where == kCulprit && !at_verdict)
    return {Code::kInvalidArgument, "culprit is the server that a verdict names: it takes --start verdict"};
  KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
  return at_verdict ? attach_at_verdict(session, *client, arguments)
                    : attach_one(session, *client, arguments);
}

}  // namespace kintsugi::cli
