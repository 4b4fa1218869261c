#include "common/runtime/fault_points.h"

#include <algorithm>
#include <thread>

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/runtime/turn_place.h"

namespace kintsugi::runtime {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(FaultPoint::kCount)> kPoints{
    "serve-call",   "serve-stream", "answer",       "call",    "send-chunk",  "disk-read",
    "disk-write",   "disk-sync",    "store-commit", "own-sum", "forward-sum", "rebuild",
    "start-repair", "heartbeat",    "wake",         "release", "complete",    "deadlock"};
constexpr std::array<std::string_view, static_cast<size_t>(FaultAction::kCount)> kActions{
    "hang", "delay", "error", "corrupt", "drop", "repeat", "cpu-loop", "memory-walk", "leak", "leak-socket"};

template <class Enum, size_t kSize>
Result<Enum> find(const std::array<std::string_view, kSize>& names, std::string_view name,
                  std::string_view what) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    return Status{Code::kInvalidArgument,
                  fmt::format("there is no {} '{}'; there are {}", what, name, fmt::join(names, ", "))};
  return static_cast<Enum>(found - names.begin());
}

/// Keeps the thread from doing anything else, as a loop that does not end would.
void spin_until(const Clock& clock, TimePoint end) {
  volatile uint64_t turns = 0;
  // A clock that stands still while code runs would never get there.
  const TimePoint began = clock.now();
  for (uint64_t i = 0; clock.now() < end; ++i) {
    turns = turns + 1;
    if (i > 100'000 && clock.now() == began) return;
  }
}

/// Competes with the process for memory. Its end is a time of the machine's clock, for it is no part of the daemon.
void walk_memory(uint64_t bytes, Duration lasts) {
  std::thread([bytes, lasts] {
    const auto end =
        std::chrono::steady_clock::now() + lasts;  // NOLINT: it runs beside the daemon's own thread
    std::vector<uint64_t> memory(std::max<uint64_t>(1, bytes / sizeof(uint64_t)));
    uint64_t at = 1;
    while (std::chrono::steady_clock::now() < end) {  // NOLINT
      for (int i = 0; i < 1'000'000; ++i) {
        at = at * 6364136223846793005ULL + 1442695040888963407ULL;
        ++memory[(at >> 20) % memory.size()];
      }
    }
  }).detach();
}

}  // namespace

std::string_view name_of(FaultPoint point) {
  return kPoints[static_cast<size_t>(point)];
}

std::string_view name_of(FaultAction action) {
  return kActions[static_cast<size_t>(action)];
}

Result<FaultPoint> fault_point_of(std::string_view name) {
  return find<FaultPoint>(kPoints, name, "fault point");
}

Result<FaultAction> fault_action_of(std::string_view name) {
  return find<FaultAction>(kActions, name, "fault");
}

namespace {

/// The detail of the place is a method or another name of which there are few.
bool has_method(FaultPoint point) {
  return can_only_be_lost(point) || point == FaultPoint::kServeCall || point == FaultPoint::kServeStream ||
         point == FaultPoint::kAnswer || point == FaultPoint::kCall;
}

}  // namespace

bool FaultPoints::is_set(uint64_t number) const {
  return std::ranges::any_of(faults_, [&](const Listed& each) { return each.number == number; });
}

bool can_only_be_lost(FaultPoint point) {
  return point == FaultPoint::kWake || point == FaultPoint::kRelease || point == FaultPoint::kComplete ||
         point == FaultPoint::kDeadlock;
}

FaultPoints::~FaultPoints() {
  for (const Lost& lost : lost_)
    if (lost.timer != TimerId::kNone) clock_.cancel(lost.timer);
}

std::vector<std::pair<uint64_t, Fault>> FaultPoints::meet(FaultPoint point, std::string_view detail,
                                                          const Met& met) {
  ++passes_[static_cast<size_t>(point)];
  if (has_method(point)) {
    const std::pair place{point, std::string(detail)};
    if (methods_.size() < kMaxMethods || methods_.contains(place)) ++methods_[place];
  }
  std::vector<std::pair<uint64_t, Fault>> now;
  for (Listed& each : faults_) {
    if (each.fault.point != point || detail.find(each.fault.detail) == std::string_view::npos) continue;
    if (each.passed++ < each.fault.skip) continue;
    if (each.fault.times != 0 && each.happened >= each.fault.times) continue;
    if (++each.happened == 1) each.first = met;
    now.emplace_back(each.number, each.fault);
  }
  return now;
}

asio::awaitable<FaultOutcome> FaultPoints::pass(FaultPoint point, std::string_view detail,
                                                std::source_location where) {
  // Of a deadlock, each of those in the circle is as much to blame as the others.
  const Site* const runs = point == FaultPoint::kDeadlock ? nullptr : TurnPlace::here().site();
  const auto now = meet(point, detail, {where, runs != nullptr ? runs->name : std::string_view()});
  FaultOutcome outcome;
  for (const auto& [number, fault] : now) {
    FaultOutcome one = co_await happen(number, fault);
    if (outcome.status.ok()) outcome.status = std::move(one.status);
    outcome.corrupt |= one.corrupt;
    outcome.drop |= one.drop;
    outcome.repeat |= one.repeat;
  }
  co_return outcome;
}

bool FaultPoints::loses(const Deed& deed, const std::function<void()>& carry_out,
                        std::source_location where) {
  const auto now = meet(deed.point, deed.name, {where, deed.region});
  if (now.empty()) return false;
  const auto& [number, fault] = now.front();
  const auto lost = lost_.insert(lost_.end(), {.fault = number, .deed = carry_out});
  if (fault.action == FaultAction::kDelay)
    lost->timer = clock_.call_at(clock_.now() + fault.delay, [this, lost] {
      lost->timer = TimerId::kNone;
      make_up(lost);
    });
  return true;
}

void FaultPoints::make_up(std::list<Lost>::iterator lost) {
  if (lost->timer != TimerId::kNone) clock_.cancel(lost->timer);
  asio::post(executor_, std::move(lost->deed));
  lost_.erase(lost);
}

asio::awaitable<FaultOutcome> FaultPoints::happen(uint64_t number, Fault fault) {
  FaultOutcome outcome;
  const TimePoint end = clock_.now() + fault.delay;
  switch (fault.action) {
    case FaultAction::kHang:
      while (is_set(number))
        co_await changed_.wait();
      break;
    case FaultAction::kDelay:
      while (is_set(number) && co_await changed_.wait_until(end)) {
      }
      break;
    case FaultAction::kError:
      outcome.status = {fault.code, fmt::format("as asked for at {}", name_of(fault.point))};
      break;
    case FaultAction::kCorrupt: outcome.corrupt = true; break;
    case FaultAction::kDrop: outcome.drop = true; break;
    case FaultAction::kRepeat: outcome.repeat = true; break;
    case FaultAction::kCpuLoop:
      if (keep_busy_)
        co_await keep_busy_(fault.delay);
      else
        spin_until(clock_, end);
      break;
    case FaultAction::kMemoryWalk: walk_memory(fault.bytes, fault.delay); break;
    case FaultAction::kLeak:
      leaked_.push_back(std::make_unique<char[]>(fault.bytes));  // zeroed, so it takes memory
      break;
    case FaultAction::kLeakSocket:
      if (const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); socket >= 0)
        leaked_sockets_.push_back(socket);
      break;
    case FaultAction::kCount: break;
  }
  co_return outcome;
}

Result<uint64_t> FaultPoints::set(Fault fault) {
  if (faults_.size() >= kMaxFaults)
    return Status{Code::kLimitExceeded, fmt::format("at most {} faults are set at once", kMaxFaults)};
  faults_.push_back({.number = next_, .fault = std::move(fault)});
  return next_++;
}

Status FaultPoints::remove(uint64_t number) {
  if (std::erase_if(faults_, [&](const Listed& each) { return each.number == number; }) == 0)
    return {Code::kNotFound, fmt::format("there is no fault {}", number)};
  for (auto lost = lost_.begin(); lost != lost_.end();)
    if (const auto here = lost++; here->fault == number) make_up(here);
  changed_.notify_all();
  return {};
}

void FaultPoints::clear() {
  faults_.clear();
  leaked_.clear();
  for (const int socket : leaked_sockets_)
    ::close(socket);
  leaked_sockets_.clear();
  while (!lost_.empty())
    make_up(lost_.begin());
  changed_.notify_all();
}

std::vector<FaultPoints::Listed> FaultPoints::list() const {
  return {faults_.begin(), faults_.end()};
}

}  // namespace kintsugi::runtime
