#include "client/cli/traced_daemon.h"

#include <cerrno>
#include <chrono>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "client/cli/daemon_address.h"
#include "client/cli/printable.h"
#include "tracing/records/trace_reader.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using proto::TraceRequest;
using proto::TraceResponse;

/// How often a daemon that is to end its recording is asked whether it has, and how long.
constexpr auto kEndedInterval = std::chrono::milliseconds(20);
constexpr int kMostAsked = 250, kMostPatience = 25;

bool is_busy(const TraceResponse& answer) {
  return answer.phase() >= TraceResponse::PREPARING && answer.phase() <= TraceResponse::RECORDING;
}

/// Ends the recording of one process and says what became of it. `patient`: what has it begin may be under way still.
Result<TraceResponse> end_recording(const TracedDaemon& daemon, uint64_t owner, bool patient) {
  for (int asked = 0; asked < kMostAsked; ++asked) {
    // One whose time was over has none to end.
    if (const auto ended = daemon.ask(TraceRequest::DETACH);
        !ended && ended.error().code() != Code::kNotFound)
      return ended.error();
    KINTSUGI_ASSIGN(TraceResponse answer, daemon.ask(TraceRequest::STATUS));
    if (answer.owner() != owner && (!patient || asked == kMostPatience))
      return Status{Code::kNotFound, "it was not asked, or is being traced by somebody else"};
    if (answer.owner() == owner && !is_busy(answer)) return answer;
    std::this_thread::sleep_for(kEndedInterval);
  }
  return Status{Code::kDeadlineExceeded, "its recording does not end"};
}

/// Walks from process to process.
class Walk {
 public:
  Walk(BlockingClient& client, const TraceResponse& origin, const std::string& out)
      : client_(client), owner_(origin.owner()), out_(out) {
    see(origin);
    take(origin);
  }

  std::vector<FollowedProcess> run() {
    go_on();
    if (missing_) {
      // Nobody else knows into whom a process followed requests that answers no more.
      if (const auto servers = client_.run(client_.async().list_servers()); servers)
        for (const proto::ServerState& server : servers->servers())
          if (seen_.insert(server.address()).second) open_.push_back({.address = server.address()});
      is_search_ = true;
      go_on();
    }
    return std::move(found_);
  }

 private:
  /// False: this recording was seen before. Paths tell recordings of one process apart; another process, in another container or on
  /// another machine, may have the same one.
  bool see(const TraceResponse& answer) {
    return answer.path().empty() || seen_recordings_.emplace(answer.process(), answer.path()).second;
  }

  void take(const TraceResponse& answer) {
    for (const proto::FollowedPeer& peer : answer.followed()) {
      if (!seen_.insert(peer.address()).second) continue;
      FollowedProcess process{.address = peer.address()};
      if (!peer.failure().empty()) process.failure = {static_cast<Code>(peer.code()), peer.failure()};
      open_.push_back(std::move(process));
    }
  }

  void go_on() {
    for (; !open_.empty();) {
      FollowedProcess process = std::move(open_.back());
      open_.pop_back();
      if (visit(process)) found_.push_back(std::move(process));
    }
  }

  /// False: it has nothing to do with this.
  bool visit(FollowedProcess& process) {
    const auto address = runtime::Endpoint::parse(process.address);
    if (!address) {
      process.failure = address.error();
      return true;
    }
    const TracedDaemon daemon = TracedDaemon(client_, *address).for_owner(owner_);
    // One that refused, or did not answer in time, may record all the same.
    auto answer = end_recording(daemon, owner_, process.failure.ok() && !is_search_);
    if (!answer) {
      missing_ |= answer.error().code() != Code::kNotFound;
      if (process.failure.ok()) process.failure = answer.error();
      return !is_search_;
    }
    process.answer = std::move(*answer);
    take(process.answer);
    // The first process is reached by a request that comes back to it.
    if (!see(process.answer)) return false;
    process.failure = {};
    if (process.answer.phase() == TraceResponse::FAILED)
      process.failure = {static_cast<Code>(process.answer.code()), process.answer.failure()};
    if (!process.failure.ok() || out_.empty()) return true;
    process.failure = daemon.copy_trace(out_ + "." + process.address);
    if (process.failure.ok()) process.file = out_ + "." + process.address;
    return true;
  }

  BlockingClient& client_;
  const uint64_t owner_;
  const std::string& out_;
  std::vector<FollowedProcess> open_, found_;
  std::set<std::string> seen_;  ///< addresses
  std::set<std::pair<uint64_t, std::string>> seen_recordings_;
  bool missing_ = false;    ///< a process did not answer
  bool is_search_ = false;  ///< processes are asked that perhaps have nothing to do with this
};

}  // namespace

Result<TracedDaemon> TracedDaemon::find(BlockingClient& client, const std::string& where) {
  KINTSUGI_ASSIGN(const std::optional<runtime::Endpoint> at, find_daemon(client, where));
  return TracedDaemon(client, at, shown_name(where));
}

TracedDaemon TracedDaemon::for_owner(uint64_t owner) const {
  TracedDaemon same = *this;
  same.owner_ = owner;
  return same;
}

Result<TraceResponse> TracedDaemon::ask(TraceRequest request) const {
  request.set_owner(owner_);
  auto answer = client_->run(client_->async().trace(at_, std::move(request)));
  if (!answer) return named(answer.error());
  return answer;
}

Result<TraceResponse> TracedDaemon::ask(TraceRequest::Action action) const {
  TraceRequest request;
  request.set_action(action);
  return ask(std::move(request));
}

Result<TraceResponse> TracedDaemon::own_status() const {
  KINTSUGI_ASSIGN(TraceResponse answer, ask(TraceRequest::STATUS));
  // A daemon that was started again tells what it does for others.
  if (answer.owner() != owner_)
    return named({Code::kConflict, "it knows nothing of this recording any more"});
  return answer;
}

Status TracedDaemon::named(const Status& error) const {
  return name_.empty() ? error : error.with_context(name_);
}

Status TracedDaemon::copy_trace(const std::string& path) const {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out) return status_from_errno(errno, path);
  TraceRequest request;
  request.set_action(TraceRequest::READ);
  while (true) {
    KINTSUGI_ASSIGN(const TraceResponse answer, ask(request));
    if (answer.data().empty()) break;
    out.write(answer.data().data(), static_cast<std::streamsize>(answer.data().size()));
    request.set_offset(request.offset() + answer.data().size());
  }
  if (!out.flush()) return {Code::kIoError, fmt::format("{} cannot be written", path)};
  return {};
}

std::string_view end_of(const TraceResponse& answer) {
  return answer.end() == TraceResponse::NONE ? "" : tracing::name_of(static_cast<tracing::End>(answer.end()));
}

std::string lack_of(const TraceResponse& answer) {
  if (answer.end() != TraceResponse::FULL && answer.end() != TraceResponse::DETACHED_BY_OTHER) return {};
  return fmt::format("; {}, so what came later is missing", end_of(answer));
}

std::string to_text(const std::vector<FollowedProcess>& followed) {
  std::string text;
  for (const FollowedProcess& process : followed)
    text +=
        process.failure.ok()
            ? fmt::format("followed to {}: {} requests; trace {}{}\n", process.address,
                          process.answer.requests(),
                          process.file.empty() ? "on its machine: " + shown_name(process.answer.path())
                                               : shown_name(process.file),
                          lack_of(process.answer))
            : fmt::format("no trace of {}: {}\n", process.address, shown_message(process.failure.message()));
  return text;
}

Json to_json(const std::vector<FollowedProcess>& followed) {
  Json all = Json::array();
  for (const FollowedProcess& process : followed)
    all.push_back({{"address", process.address},
                   {"path", process.answer.path()},
                   {"file", process.file},
                   {"requests", process.answer.requests()},
                   {"end", end_of(process.answer)},
                   {"failure", process.failure.message()}});
  return all;
}

uint64_t new_owner() {
  std::random_device random;
  return uint64_t{random()} << 32 | random() | 1;
}

std::vector<FollowedProcess> end_followed(BlockingClient& client, const TraceResponse& origin,
                                          const std::string& out) {
  return Walk(client, origin, out).run();
}

}  // namespace kintsugi::cli
