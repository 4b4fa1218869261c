#include "tracing/agent/agent.h"

#include <cerrno>
#include <chrono>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include "common/base/signals_blocked.h"
#include "common/log/log.h"
#include "tracing/agent/image.h"
#include "tracing/agent/payload.h"
#include "tracing/records/trace_reader.h"

namespace kintsugi::tracing {
namespace {

using std::chrono::steady_clock;

/// The agent looks so often whether the recording is full or its time is over.
constexpr auto kLook = std::chrono::milliseconds(20);

}  // namespace

Agent& Agent::of_process() {
  // Never destroyed: its thread may run when the process ends.
  static Agent* const agent = new Agent();
  return *agent;
}

Status Agent::attach(AttachOptions options) {
  KINTSUGI_TRY(options.session.check());
  if (options.limit <= Duration{} || options.limit > AttachOptions::kMostTime)
    return {Code::kInvalidArgument, "a recording lasts at most a day"};
  const std::lock_guard lock(mutex_);
  Following& following = Following::of_process();
  const bool of_same_owner = options.follow && options.follow->owner == following.owner();
  if (of_same_owner && is_busy()) return {};
  // A call that was announced late begins nothing anew.
  if (of_same_owner) return {Code::kConflict, "its recording has ended"};
  if (is_busy())
    return {Code::kAlreadyExists,
            fmt::format("this process is being traced, for {:.1f} s more",
                        std::chrono::duration<double>(deadline_ - steady_clock::now()).count())};
  if (thread_.joinable()) thread_.join();
  status_ = AgentStatus{.phase = Phase::kPreparing};
  deadline_ = steady_clock::now() + options.limit;
  wanted_ = true;
  if (options.follow) options.follow->deadline = deadline_;
  following.begin(options.follow.value_or(FollowTerms{}));
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this, options = std::move(options)] { run(options); });
  } catch (const std::system_error& failure) {
    status_ = {};
    following.end();
    return status_from_errno(failure.code().value(), "a thread to record with");
  }
  return {};
}

Status Agent::detach(uint64_t owner) {
  const std::lock_guard lock(mutex_);
  if (!is_busy() || (owner != 0 && owner != Following::of_process().owner()))
    return {Code::kNotFound, "this process is not being traced"};
  wanted_ = false;
  changed_.notify_all();
  return {};
}

AgentStatus Agent::status() const {
  const std::lock_guard lock(mutex_);
  AgentStatus status = status_;
  if (is_busy()) status.left = std::max(Duration{}, Duration(deadline_ - steady_clock::now()));
  return status;
}

Result<std::string> Agent::read(uint64_t offset, size_t most_bytes) const {
  const AgentStatus now = status();
  const bool goes_on = now.phase >= Phase::kPreparing && now.phase <= Phase::kRecording;
  if (goes_on) return Status{Code::kConflict, "the recording has not ended"};
  if (now.phase != Phase::kEnded) return Status{Code::kNotFound, "this process was not traced"};
  const int file = ::open(now.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return status_from_errno(errno, now.path);
  std::string bytes(most_bytes, '\0');
  const ssize_t got = ::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
  const int error = errno;
  ::close(file);
  if (got < 0) return status_from_errno(error, now.path);
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

void Agent::tell(Phase phase, Status failure) {
  const std::lock_guard lock(mutex_);
  status_.phase = phase;
  status_.failure = std::move(failure);
}

void Agent::tell_counts(const Session& session) {
  const std::lock_guard lock(mutex_);
  if (status_.phase == Phase::kWaiting && session.started()) status_.phase = Phase::kRecording;
  status_.path = session.path();
  status_.functions = session.functions();
  status_.patched = session.patched();
  status_.met = session.met();
}

Result<std::unique_ptr<Session>> Agent::prepare(const SessionOptions& options) {
  KINTSUGI_ASSIGN(const Image* const image, Image::of_process());
  return Session::open(*image, options);
}

void Agent::run(AttachOptions options) {
  const LeftOut left_out;
  ::pthread_setname_np(::pthread_self(), "trace-agent");
  Result<std::unique_ptr<Session>> session = prepare(options.session);
  if (!session) {
    log::warning("tracing: {}", session.error().to_string());
    Following::of_process().end();
    return tell(Phase::kFailed, session.error());
  }
  Session& open = **session;
  log::info("tracing: {} functions are patched to begin with; start: {}; trace: {}", open.patched(),
            options.session.start, open.path());
  tell(Phase::kWaiting);
  const End end = wait_for_end(open, deadline_);
  Following::of_process().end();
  const Status closed = open.close(end);
  if (open.refused() > 0)
    log::warning("tracing: {} functions could not be followed, for the kernel did not let code be changed",
                 open.refused());
  log::info("tracing: ended ({}): {} of {} functions were patched, {} were met", name_of(end), open.patched(),
            open.functions(), open.met());
  if (!closed.ok()) log::error("tracing: {}", closed.to_string());
  tell_counts(open);
  tell(closed.ok() ? Phase::kEnded : Phase::kFailed, closed);
}

End Agent::wait_for_end(Session& session, steady_clock::time_point deadline) {
  while (true) {
    tell_counts(session);
    session.look_after();
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, kLook, [this] { return !wanted_; })) return End::kDetached;
    }
    if (steady_clock::now() >= deadline) return End::kDeadline;
    if (session.full()) return End::kFull;
  }
}

}  // namespace kintsugi::tracing
