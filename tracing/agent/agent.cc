#include "tracing/agent/agent.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
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

/// It has all functions from its beginning on, overwrites nothing, and whoever leaves can say who it is.
bool can_be_shared(const AttachOptions& options) {
  return options.owner != 0 && options.session.mode == Mode::kLinear && !options.event &&
         options.session.start == kEveryFunction && options.session.start_code == nullptr;
}

bool has_values(std::span<const RecordedValues> recorded, const RecordedValues& wanted) {
  return std::ranges::any_of(recorded, [&](const RecordedValues& each) {
    return each.function == wanted.function && (each.places & wanted.places) == wanted.places;
  });
}

/// A recording that began so has all that the other one wants.
bool may_share(const AttachOptions& first, const AttachOptions& other) {
  return can_be_shared(first) && can_be_shared(other) &&
         std::ranges::all_of(other.session.recorded, [&](const RecordedValues& wanted) {
           return has_values(first.session.recorded, wanted);
         });
}

End end_in_file(End end) {
  return end == End::kDetachedByOther ? End::kDetached : end;
}

void follow(const AttachOptions& options, steady_clock::time_point now) {
  if (!options.follow) return;
  FollowTerms terms = *options.follow;
  terms.deadline = now + options.limit;
  Following::of_process().begin(options.owner, std::move(terms));
}

}  // namespace

Agent& Agent::of_process() {
  // Never destroyed: its thread may run when the process ends.
  static Agent* const agent = new Agent();
  return *agent;
}

Status AttachOptions::check() const {
  KINTSUGI_TRY(session.check());
  if (limit <= Duration{} || limit > kMostTime)
    return {Code::kInvalidArgument, "a recording lasts at most a day"};
  if (event && event->kind == StartEvent::Kind::kAfter && event->time >= limit)
    return {Code::kInvalidArgument, "the recording would begin when its time is over"};
  return {};
}

Status Agent::attach(AttachOptions options) {
  KINTSUGI_TRY(options.check());
  const std::lock_guard lock(mutex_);
  // A call that was announced late begins nothing anew.
  if (const Owner* const known = owners_.find(options.owner))
    return known->ended ? Status{Code::kConflict, "its recording has ended"} : Status{};
  if (ends_) return {Code::kUnavailable, "the recording before this one is about to end"};
  return status_.is_busy() ? join(options) : start(std::move(options));
}

Status Agent::join(const AttachOptions& options) {
  const steady_clock::time_point now = steady_clock::now();
  if (!may_share(first_, options))
    return {Code::kAlreadyExists,
            fmt::format("this process is being traced, for {:.1f} s more",
                        std::chrono::duration<double>(owners_.last_deadline() - now).count())};
  Owner owner{.number = options.owner, .deadline = now + options.limit, .recorded_for = options.recorded_for};
  const bool has_begun = status_.began_unix_ms != 0;
  if (has_begun && owner.recorded_for) owner.deadline = std::min(owner.deadline, now + *owner.recorded_for);
  KINTSUGI_TRY(owners_.join(owner));
  follow(options, now);
  return {};
}

Status Agent::start(AttachOptions options) {
  const steady_clock::time_point now = steady_clock::now();
  KINTSUGI_TRY(owners_.join(
      {.number = options.owner, .deadline = now + options.limit, .recorded_for = options.recorded_for}));
  if (thread_.joinable()) thread_.join();
  status_ = AgentStatus{.phase = Phase::kPreparing};
  follow(options, now);
  first_ = std::move(options);
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this, copy = first_] { run(copy); });
  } catch (const std::system_error& failure) {
    Following::of_process().end(first_.owner);
    const Status why = status_from_errno(failure.code().value(), "a thread to record with");
    owners_.end_all({.phase = Phase::kFailed, .failure = why});
    status_ = {};
    return why;
  }
  return {};
}

Status Agent::detach(uint64_t owner) {
  const std::lock_guard lock(mutex_);
  if (!owners_.leave(owner)) return {Code::kNotFound, "this process is not being traced"};
  changed_.notify_all();
  return {};
}

AgentStatus Agent::status(uint64_t owner) const {
  const std::lock_guard lock(mutex_);
  const Owner* const known = owners_.find(owner);
  if (known != nullptr && known->ended) return *known->ended;
  AgentStatus status = status_;
  status.owner = known != nullptr ? owner : 0;
  status.owners = static_cast<uint32_t>(owners_.active());
  const steady_clock::time_point deadline = known != nullptr ? known->deadline : owners_.last_deadline();
  if (status.is_busy()) status.left = std::max(Duration{}, Duration(deadline - steady_clock::now()));
  return status;
}

Result<std::string> Agent::read(uint64_t owner, uint64_t offset, size_t most_bytes) const {
  const AgentStatus now = status(owner);
  if (now.owner != owner)
    return Status{
        Code::kNotFound,
        fmt::format("nothing is known of this recording any more: the process was started again, or "
                    "{} others have ended since",
                    Owners::kMostEnded)};
  if (now.is_busy()) return Status{Code::kConflict, "the recording has not ended"};
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

void Agent::tell(Phase phase) {
  const std::lock_guard lock(mutex_);
  status_.phase = phase;
}

void Agent::close_to_all() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  Following::of_process().end(0);
}

void Agent::finish(Phase phase, const Status& failure, End end) {
  const std::lock_guard lock(mutex_);
  status_.phase = phase;
  status_.failure = failure;
  status_.end = end;
  owners_.end_all(status_);
  ends_ = false;
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
  owners_.began(steady_clock::now());
}

void Agent::run(const AttachOptions& options) {
  const LeftOut left_out;
  ::pthread_setname_np(::pthread_self(), "trace-agent");
  const auto fail = [this](const Status& why) {
    log::warning("tracing: {}", why.to_string());
    close_to_all();
    finish(Phase::kFailed, why);
  };
  // What takes longest is done before the event comes.
  const Result<const Image*> image = Image::of_process();
  if (!image) return fail(image.error());
  SessionOptions wanted = options.session;
  if (options.event) {
    tell(Phase::kWaiting);
    if (!wait_for_event(*options.event)) {
      close_to_all();
      return finish(Phase::kEnded);
    }
    wanted.everything = true;
  }
  const Result<std::unique_ptr<Session>> session = Session::open(**image, wanted);
  if (!session) return fail(session.error());
  log::info("tracing: {} functions are patched to begin with; start: {}; trace: {}", (*session)->patched(),
            wanted.start, (*session)->path());
  record(**session);
}

void Agent::record(Session& session) {
  tell(Phase::kWaiting);
  const End end = wait_for_end(session);
  close_to_all();
  const Status closed = session.close(end_in_file(end));
  if (session.refused() > 0)
    log::warning("tracing: {} functions could not be followed, for the kernel did not let code be changed",
                 session.refused());
  log::info("tracing: ended ({}): {} of {} functions were patched, {} were met", name_of(end),
            session.patched(), session.functions(), session.met());
  if (!closed.ok()) log::error("tracing: {}", closed.to_string());
  tell_counts(session);
  finish(closed.ok() ? Phase::kEnded : Phase::kFailed, closed, end);
}

void Agent::look_later() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kLook, [this] { return owners_.departure(steady_clock::now()).has_value(); });
}

bool Agent::wait_for_event(const StartEvent& event) {
  const steady_clock::time_point asked = steady_clock::now();
  SlowCalls& slow = SlowCalls::of_process();
  const bool is_slow = event.kind == StartEvent::Kind::kSlow;
  if (is_slow) slow.begin(event.method, event.time);
  std::optional<std::string> why;
  // Such a recording has one owner.
  while (!why && !next_to_leave()) {
    look_later();
    why = is_slow                                      ? slow.found()
          : asked + *event.time <= steady_clock::now() ? std::optional("its time had come")
                                                       : std::nullopt;
  }
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
    if (session.full()) return End::kFull;
    if (const std::optional<End> end = let_leave(session)) return *end;
    look_later();
  }
}

std::optional<Owners::Departure> Agent::next_to_leave() {
  const std::lock_guard lock(mutex_);
  const auto leaving = owners_.departure(steady_clock::now());
  if (leaving && leaving->last) ends_ = true;
  return leaving;
}

std::optional<End> Agent::let_leave(const Session& session) {
  while (const std::optional<Owners::Departure> leaving = next_to_leave()) {
    if (leaving->last) return leaving->why;
    Following::of_process().end(leaving->number);
    const Result<std::string> copy = session.copy(end_in_file(leaving->why));
    if (!copy)
      log::warning("tracing: what was recorded for one who left is lost: {}", copy.error().to_string());
    AgentStatus told = status(leaving->number);
    told.phase = copy ? Phase::kEnded : Phase::kFailed;
    told.path = copy ? *copy : "";
    told.failure = copy ? Status{} : copy.error();
    told.end = leaving->why;
    told.left = {};
    told.owners = 0;
    const std::lock_guard lock(mutex_);
    owners_.end(leaving->number, std::move(told));
  }
  return std::nullopt;
}

}  // namespace kintsugi::tracing
