/// A daemon that is asked to trace itself, and the processes that its requests were followed into.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cli/json.h"
#include "client/lib/blocking_client.h"
#include "common/base/status.h"
#include "common/proto/trace.pb.h"
#include "common/runtime/network.h"

namespace kintsugi::cli {

class TracedDaemon {
 public:
  /// `where`: as people name daemons. Errors begin with it.
  static Result<TracedDaemon> find(client::BlockingClient& client, const std::string& where);
  /// None: the metaserver. `name`: what errors begin with, if it is not empty.
  TracedDaemon(client::BlockingClient& client, std::optional<runtime::Endpoint> at, std::string name = "")
      : client_(&client), at_(std::move(at)), name_(std::move(name)) {}
  /// Asks for this owner from now on: several may have the daemon record, and each asks for what is its own.
  TracedDaemon for_owner(uint64_t owner) const;

  Result<proto::TraceResponse> ask(proto::TraceRequest request) const;
  Result<proto::TraceResponse> ask(proto::TraceRequest::Action action) const;
  /// What it says of the owner's recording. kConflict: it knows nothing of it any more.
  Result<proto::TraceResponse> own_status() const;
  /// Writes the owner's trace, or that which ended last, to a file.
  Status copy_trace(const std::string& path) const;
  /// The error of this daemon.
  Status named(const Status& error) const;

 private:
  client::BlockingClient* client_;
  std::optional<runtime::Endpoint> at_;
  std::string name_;
  uint64_t owner_ = 0;  ///< 0: nobody in particular
};

/// A process that a request was followed into, or should have been.
struct FollowedProcess {
  std::string address;
  proto::TraceResponse answer;  ///< what it says of its recording
  std::string file;             ///< the file to which its trace was copied; empty: none
  Status failure;               ///< why it has no trace, or why that was not copied
};

/// Why the recording ended, in words; empty: it has not.
std::string_view end_of(const proto::TraceResponse& answer);
/// Says of a trace what it lacks; empty: nothing, for whoever had it recorded ended that, or nobody says why it ended.
std::string lack_of(const proto::TraceResponse& answer);
/// Returns a line for each.
std::string to_text(const std::vector<FollowedProcess>& followed);
Json to_json(const std::vector<FollowedProcess>& followed);

/// A command that is interrupted waits no longer than this for recordings to end.
inline constexpr auto kGiveBackLimit = std::chrono::seconds(2);
/// A request of ours passes through four processes; one that goes round is stopped.
inline constexpr uint32_t kMostHops = 8;
/// A number that nobody else has, by which all recordings of a command are known.
uint64_t new_owner();

/// Has all processes end their recordings that requests were followed into, by those whom `origin` names and by those whom they name in
/// turn. Their traces are copied to `out` with ".ADDRESS" behind it, unless it is empty. Who does not answer has a failure.
std::vector<FollowedProcess> end_followed(client::BlockingClient& client, const proto::TraceResponse& origin,
                                          const std::string& out);

}  // namespace kintsugi::cli
