#include "client/lib/leases/repeated_calls.h"

#include <algorithm>

#include "common/runtime/backoff.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::client {
namespace {

constexpr Duration kFirstBackoff = 100ms, kLongestBackoff = 2s;
constexpr Duration kForEver = std::chrono::hours(24 * 365);

}  // namespace

bool is_without_answer(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kDeadlineExceeded;
}

bool is_refused(const Status& status) {
  return !status.ok() && !is_without_answer(status) && status.code() != Code::kCancelled;
}

RepeatedCalls::RepeatedCalls(Resources& resources, Duration io_timeout)
    : resources_(resources),
      io_timeout_(io_timeout == Duration{} ? kForEver : io_timeout),
      link_(resources.runtime, resources.options.metaserver, io_timeout_, resources.rpc,
            resources.background) {}

asio::awaitable<Status> RepeatedCalls::call(Context context, rpc::Method method, const Message& request,
                                            Message& response) {
  const TimePoint give_up = std::min(context.deadline, resources_.now() + io_timeout_);
  runtime::Backoff backoff(resources_.runtime.random, kFirstBackoff, kLongestBackoff);
  while (true) {
    Status status = co_await link_.call(context, method, request, response);
    if (!is_without_answer(status)) co_return status;
    const auto pause = backoff.next_before(resources_.now(), give_up);
    if (!pause) co_return status;
    const runtime::Wait wait(context, runtime::WaitKind::kTimer);
    if (!co_await resources_.background.sleep_for(*pause))
      co_return Status{Code::kCancelled, "the client is stopping"};
  }
}

}  // namespace kintsugi::client
