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
#include "tracing/agent/slow_calls.h"
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
  if (options.event && options.event->kind == StartEvent::Kind::kAfter &&
      options.event->time >= options.limit)
    return {Code::kInvalidArgument, "the recording would begin when its time is over"};
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
  recorded_for_ = options.recorded_for;
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
  if (now.path.empty()) return Status{Code::kNotFound, fmt::format("nothing was recorded: {}", now.began)};
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
  if (status_.phase == Phase::kWaiting && session.started()) {
    status_.phase = Phase::kRecording;
    begin("");
  }
  status_.path = session.path();
  status_.functions = session.functions();
  status_.patched = session.patched();
  status_.met = session.met();
}

void Agent::begin(std::string why) {
  using std::chrono::milliseconds, std::chrono::system_clock;
  if (status_.began_unix_ms != 0) return;
  status_.began = std::move(why);
  status_.began_unix_ms =
      std::chrono::duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  if (recorded_for_) deadline_ = std::min(deadline_, steady_clock::now() + *recorded_for_);
}

void Agent::run(AttachOptions options) {
  const LeftOut left_out;
  ::pthread_setname_np(::pthread_self(), "trace-agent");
  const auto fail = [this](const Status& why) {
    log::warning("tracing: {}", why.to_string());
    Following::of_process().end();
    tell(Phase::kFailed, why);
  };
  // What takes longest is done before the event comes.
  const Result<const Image*> image = Image::of_process();
  if (!image) return fail(image.error());
  if (options.event) {
    tell(Phase::kWaiting);
    if (!wait_for_event(*options.event)) {
      Following::of_process().end();
      return tell(Phase::kEnded);
    }
    options.session.everything = true;
  }
  const Result<std::unique_ptr<Session>> session = Session::open(**image, options.session);
  if (!session) return fail(session.error());
  record(**session, options);
}

void Agent::record(Session& session, const AttachOptions& options) {
  log::info("tracing: {} functions are patched to begin with; start: {}; trace: {}", session.patched(),
            options.session.start, session.path());
  tell(Phase::kWaiting);
  const End end = wait_for_end(session);
  Following::of_process().end();
  const Status closed = session.close(end);
  if (session.refused() > 0)
    log::warning("tracing: {} functions could not be followed, for the kernel did not let code be changed",
                 session.refused());
  log::info("tracing: ended ({}): {} of {} functions were patched, {} were met", name_of(end),
            session.patched(), session.functions(), session.met());
  if (!closed.ok()) log::error("tracing: {}", closed.to_string());
  tell_counts(session);
  tell(closed.ok() ? Phase::kEnded : Phase::kFailed, closed);
}

bool Agent::look_later() {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, kLook, [this] { return !wanted_; });
}

bool Agent::wait_for_event(const StartEvent& event) {
  const steady_clock::time_point asked = steady_clock::now();
  SlowCalls& slow = SlowCalls::of_process();
  const bool is_slow = event.kind == StartEvent::Kind::kSlow;
  if (is_slow) slow.begin(event.method, event.time);
  std::optional<std::string> why;
  while (!why && look_later() && steady_clock::now() < deadline_)
    why = is_slow                                      ? slow.found()
          : asked + *event.time <= steady_clock::now() ? std::optional("its time had come")
                                                       : std::nullopt;
  std::string nothing = is_slow ? slow.nothing_found() : "its time has not come";
  if (is_slow) slow.end();
  const std::lock_guard lock(mutex_);
  if (why)
    begin(std::move(*why));
  else
    status_.began = std::move(nothing);
  return why.has_value();
}

End Agent::wait_for_end(Session& session) {
  while (true) {
    tell_counts(session);
    session.look_after();
    if (!look_later()) return End::kDetached;
    if (steady_clock::now() >= deadline_) return End::kDeadline;
    if (session.full()) return End::kFull;
  }
}

}  // namespace kintsugi::tracing
