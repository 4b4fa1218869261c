#include "client/cli/traced_command.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "client/cli/printable.h"
#include "client/cli/session.h"
#include "client/cli/traced_daemon.h"
#include "tracing/agent/own_recording.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;
using client::BlockingClient;

/// The command's own trace is this file of the directory. Those of servers have their address behind it.
constexpr const char* kOwnTrace = "/trace";

/// Traces that lie in one directory are read together, so nothing else may be in it.
Status make_directory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error && !fs::is_empty(directory, error) && !error)
    return {Code::kNotEmpty, fmt::format("{} is not empty, and traces of this command alone belong there",
                                         shown_name(directory))};
  return error ? status_from_errno(error.value(), directory) : Status{};
}

/// Ends all recordings of the command and collects their traces.
class Collecting {
 public:
  Collecting(Session& session, BlockingClient& client, uint64_t owner, const std::string& directory)
      : session_(session), client_(client), owner_(owner), out_(directory + kOwnTrace) {}
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;
  ~Collecting() {
    const proto::TraceResponse own = tracing::end_own_recording(owner_);
    if (session_.interrupted())
      give_back(own);
    else
      collect(own);
  }

 private:
  void collect(const proto::TraceResponse& own) const {
    // First the own one: on a host that keeps traces of many servers it is the oldest.
    const Status copied =
        own.path().empty() ? Status{static_cast<Code>(own.code()), own.failure()} : copy(own.path());
    tell(own, copied, end_followed(client_, own, out_));
  }
  /// The client of a session that was interrupted is of no more use, so another one asks.
  static void give_back(const proto::TraceResponse& own) {
    const auto client =
        Session::connect_to(std::getenv(kMetaVariable), CredentialFiles::of_environment(), kGiveBackLimit);
    if (client) end_followed(**client, own, "");
  }
  Status copy(const std::string& from) const {
    std::error_code error;
    fs::copy_file(from, out_, error);
    return error ? status_from_errno(error.value(), out_) : Status{};
  }
  /// On stderr, for the output is the command's.
  void tell(const proto::TraceResponse& own, const Status& copied,
            const std::vector<FollowedProcess>& followed) const {
    if (session_.json) {
      const Json trace{{"file", copied.ok() ? out_ : ""},
                       {"failure", copied.message()},
                       {"end", end_of(own)},
                       {"followed", to_json(followed)}};
      fmt::print(stderr, "{}\n", Json{{"trace", trace}}.compact());
      return;
    }
    fmt::print(stderr, "{}\n{}",
               copied.ok() ? "this command: trace " + shown_name(out_) + lack_of(own)
                           : "no trace of this command: " + shown_message(copied.message()),
               to_text(followed));
    // Servers that recorded for it had the same time.
    if (own.end() == proto::TraceResponse::DEADLINE)
      fmt::print(stderr, "recordings last {} s at most: what came later is missing\n",
                 tracing::kOwnRecordingLimit / std::chrono::seconds(1));
  }

  Session& session_;
  BlockingClient& client_;
  const uint64_t owner_;
  const std::string out_;
};

Status run_traced(Session& session, const std::string& directory, const Run& work) {
  KINTSUGI_TRY(make_directory(directory));
  KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
  // A user who may not have servers traced is told so before anything is done.
  const auto asked = TracedDaemon(*client, std::nullopt).ask(proto::TraceRequest::STATUS);
  if (!asked) return asked.error().with_context("--trace");
  const uint64_t owner = new_owner();
  KINTSUGI_TRY(tracing::begin_own_recording(owner, kMostHops));
  const Collecting collecting(session, *client, owner, directory);
  return work(session);
}

}  // namespace

std::vector<Command> with_trace(std::vector<Command> commands) {
  for (Command& command : commands) {
    const auto directory = std::make_shared<std::string>();
    command.options.push_back({"--trace", directory.get(),
                               "Record this command and the servers that its requests reach: into this "
                               "directory, which is made"});
    command.run = [directory, work = std::move(command.run)](Session& session) {
      return directory->empty() ? work(session) : run_traced(session, *directory, work);
    };
  }
  return commands;
}

}  // namespace kintsugi::cli
