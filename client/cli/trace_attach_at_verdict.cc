#include "client/cli/trace_attach_at_verdict.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <poll.h>

#include "client/cli/daemon_address.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "client/cli/trace_times.h"
#include "common/proto/sight.pb.h"
#include "common/proto/verdicts.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using proto::TraceRequest;
using proto::TraceResponse;
using std::chrono::milliseconds, std::chrono::steady_clock, std::chrono::system_clock;

/// The monitor judges once a second.
constexpr auto kVerdictInterval = milliseconds(500);
/// Servers that record because of one verdict.
constexpr size_t kMostNamedServers = 8;

/// A server that a verdict names.
struct Named {
  std::string address;  ///< empty: it is the metaserver, which clients know
  std::string name, verdict;

  std::optional<runtime::Endpoint> endpoint() const {
    const auto parsed = runtime::Endpoint::parse(address);
    return parsed ? std::optional(*parsed) : std::nullopt;
  }
};

bool counts(const proto::Verdict& verdict) {
  return verdict.confidence() != proto::Verdict::UNSURE && verdict.kind() != proto::Verdict::RUNS_OUT;
}

std::vector<Named> named_by(const proto::DiagnoseResponse& answer) {
  std::vector<Named> named;
  std::set<uint64_t> seen;
  for (const proto::Verdict& verdict : answer.verdicts()) {
    if (!counts(verdict)) continue;
    for (const uint64_t process : {verdict.process(), verdict.peer_process()}) {
      if (process == 0 || !seen.insert(process).second) continue;
      const auto line = std::ranges::find(answer.processes(), process, &proto::ProcessLine::process);
      const bool is_metaserver = line != answer.processes().end() && line->kind() == "metaserver";
      if (line == answer.processes().end() || (line->address().empty() && !is_metaserver)) continue;
      named.push_back({is_metaserver ? "" : line->address(), line->name(), proto::describe(verdict)});
    }
  }
  if (named.size() > kMostNamedServers) named.resize(kMostNamedServers);
  return named;
}

/// Its recordings are ended when the command is interrupted.
class AtVerdict {
 public:
  AtVerdict(Session& session, BlockingClient& client, const AttachArguments& arguments, TraceRequest request)
      : session_(session),
        client_(client),
        out_(arguments.out),
        request_(std::move(request)),
        owner_(new_owner()),
        deadline_(steady_clock::now() + milliseconds(request_.limit_ms())) {
    request_.set_start("all");
  }

  /// The verdict that names `only`; with none, any verdict. Nothing: none did until the time was over.
  Result<std::vector<Named>> wait(const std::optional<std::string>& only) {
    bool monitor_was_there = false;
    while (true) {
      auto answer = client_.run(client_.async().diagnose(proto::DiagnoseRequest()));
      const bool is_there = answer && !answer->reduced();
      if (!is_there && !monitor_was_there)
        return answer ? Status{Code::kUnavailable, "verdicts are the monitor's, and it does not answer"}
                      : answer.error();
      monitor_was_there = true;
      std::vector<Named> named = is_there ? named_by(*answer) : std::vector<Named>();
      if (only) std::erase_if(named, [&](const Named& each) { return each.address != *only; });
      if (!named.empty() || !pause() || steady_clock::now() >= deadline_) return named;
    }
  }

  /// Has them record, and returns once all have ended.
  std::vector<FollowedProcess> record(const std::vector<Named>& named) {
    const auto left = std::max<steady_clock::duration>(deadline_ - steady_clock::now(), milliseconds(1));
    request_.set_limit_ms(static_cast<uint64_t>(std::max<int64_t>(left / milliseconds(1), 1)));
    std::vector<FollowedProcess> recordings;
    for (const Named& each : named) {
      FollowedProcess& recording = recordings.emplace_back();
      recording.address = each.address.empty() ? "metaserver" : each.address;
      take(recording, daemon(client_, each).ask(request_));
    }
    while (std::ranges::any_of(recordings, is_busy) && pause())
      for (size_t i = 0; i < named.size(); ++i)
        if (is_busy(recordings[i])) take(recordings[i], daemon(client_, named[i]).own_status());
    if (session_.interrupted()) {
      give_back(named);
      return recordings;
    }
    for (size_t i = 0; i < named.size(); ++i)
      copy(recordings[i], named[i]);
    return recordings;
  }

 private:
  static bool is_busy(const FollowedProcess& recording) {
    return recording.failure.ok() && recording.answer.phase() != TraceResponse::ENDED;
  }
  static void take(FollowedProcess& recording, Result<TraceResponse> answer) {
    if (!answer) {
      recording.failure = answer.error();
      return;
    }
    recording.answer = std::move(*answer);
    if (recording.answer.phase() == TraceResponse::FAILED)
      recording.failure = {static_cast<Code>(recording.answer.code()), recording.answer.failure()};
  }
  /// False: the command was interrupted.
  bool pause() const {
    pollfd interruption{.fd = session_.interruption_descriptor(), .events = POLLIN, .revents = 0};
    return ::poll(&interruption, 1, static_cast<int>(kVerdictInterval.count())) == 0;
  }
  void copy(FollowedProcess& recording, const Named& of) const {
    if (!recording.failure.ok() || out_.empty()) return;
    const std::string file = out_ + "." + recording.address;
    recording.failure = daemon(client_, of).copy_trace(file);
    if (recording.failure.ok()) recording.file = file;
  }
  /// The client of a session that was interrupted is of no more use, so another one asks.
  void give_back(const std::vector<Named>& named) const {
    const auto client =
        Session::connect_to(std::getenv(kMetaVariable), CredentialFiles::of_environment(), kGiveBackLimit);
    if (!client) return;
    for (const Named& each : named)
      (void)daemon(**client, each).ask(TraceRequest::DETACH);
  }
  TracedDaemon daemon(BlockingClient& client, const Named& named) const {
    return TracedDaemon(client, named.endpoint()).for_owner(owner_);
  }

  Session& session_;
  BlockingClient& client_;
  const std::string& out_;
  TraceRequest request_;
  const uint64_t owner_;
  const steady_clock::time_point deadline_;
};

void tell(Session& session, const std::vector<Named>& named, int64_t began_unix_ms,
          const std::vector<FollowedProcess>& recordings) {
  if (session.json) {
    TraceResponse all;
    all.set_phase(TraceResponse::ENDED);
    all.set_began(named.empty() ? "no verdict named it meanwhile" : named.front().verdict);
    if (!named.empty()) all.set_began_unix_ms(began_unix_ms);
    return show_recording(session, all, recordings);
  }
  if (named.empty()) return fmt::print("Nothing was recorded: no verdict named it meanwhile.\n");
  fmt::print("Began {}: {}\n", time_of_day(began_unix_ms), shown_message(named.front().verdict));
  for (size_t i = 0; i < recordings.size(); ++i) {
    const FollowedProcess& each = recordings[i];
    const std::string name = fmt::format("{} ({})", shown_name(named[i].name), each.address);
    if (!each.failure.ok())
      fmt::print("no trace of {}: {}\n", name, shown_message(each.failure.message()));
    else
      fmt::print(
          "{}: trace {}{}\n", name,
          each.file.empty() ? "on its machine: " + shown_name(each.answer.path()) : shown_name(each.file),
          lack_of(each.answer));
  }
}

}  // namespace

Status attach_at_verdict(Session& session, BlockingClient& client, const AttachArguments& arguments) {
  if (arguments.follow)
    return {Code::kInvalidArgument, "a verdict is no request: what is followed is method:NAME, or all"};
  KINTSUGI_ASSIGN(TraceRequest request, attach_request(arguments));
  std::optional<std::string> only;
  if (arguments.where != kCulprit) {
    KINTSUGI_ASSIGN(const std::optional<runtime::Endpoint> at, find_daemon(client, arguments.where));
    only = at ? at->to_string() : "";
  }
  AtVerdict event(session, client, arguments, std::move(request));
  KINTSUGI_ASSIGN(const std::vector<Named> named, event.wait(only));
  const auto now = system_clock::now().time_since_epoch();
  const std::vector<FollowedProcess> recordings =
      named.empty() ? std::vector<FollowedProcess>() : event.record(named);
  if (session.interrupted()) return {};
  tell(session, named, std::chrono::duration_cast<milliseconds>(now).count(), recordings);
  const auto failed = std::ranges::find_if(recordings, [](const auto& each) { return !each.failure.ok(); });
  const bool all_failed =
      std::ranges::all_of(recordings, [](const auto& each) { return !each.failure.ok(); });
  return !recordings.empty() && all_failed ? failed->failure.with_context(failed->address) : Status{};
}

}  // namespace kintsugi::cli
