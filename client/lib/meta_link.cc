#include "client/lib/meta_link.h"

#include <algorithm>

#include "common/proto/types.pb.h"
#include "common/runtime/backoff.h"
#include "common/runtime/span.h"

namespace kintsugi::client {
namespace {

constexpr Duration kFirstBackoff = 50ms;
constexpr Duration kLongestBackoff = 1s;
constexpr Duration kPingLimit = 3s;
/// A metaserver that never answered this client is more likely absent than restarting, so the error comes soon.
constexpr Duration kFirstContactLimit = 3s;
/// An attempt that took so long was not refused: the machine is there, and its metaserver was stopped or is busy.
constexpr Duration kSilent = 1s;
/// "Unavailable" from a metaserver that answers is its verdict (too few servers, say), not an absence.
constexpr int kMaxUnavailableAnswers = 3;

}  // namespace

MetaLink::MetaLink(const runtime::Runtime& runtime, runtime::Endpoint metaserver, Duration retry_limit,
                   rpc::Client& rpc, runtime::TaskGroup& group)
    : runtime_(runtime),
      metaserver_(std::move(metaserver)),
      retry_limit_(retry_limit),
      rpc_(rpc),
      group_(group) {}

Status MetaLink::silence(std::string_view detail) const {
  return {Code::kUnavailable, fmt::format("the metaserver at {} does not answer{}{}", metaserver_.to_string(),
                                          detail.empty() ? "" : ": ", detail)};
}

Status MetaLink::no_metaserver(std::string_view detail) const {
  return {Code::kNotSupported,
          fmt::format(
              "the daemon at {} is no metaserver ({}): KINTSUGI_META has to be the metaserver's host:port",
              metaserver_.to_string(), detail)};
}

asio::awaitable<Status> MetaLink::call_once(Context context, rpc::Method method, const Message& request,
                                            Message& response, Duration limit) {
  return rpc_.call(context.with_deadline(runtime_.clock.now() + limit), metaserver_, method, request,
                   response);
}

asio::awaitable<bool> MetaLink::answers(Context context) {
  const proto::Empty request;
  proto::Empty response;
  const Status pong = co_await call_once(context, rpc::Method::kPing, request, response, kPingLimit);
  switch (pong.code()) {
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kCancelled: co_return false;
    default: co_return true;
  }
}

TimePoint MetaLink::give_up(const Context& context, TimePoint began) const {
  const bool expected = ever_answered_ || silent_;
  return std::min(context.deadline,
                  began + (expected ? retry_limit_ : std::min(retry_limit_, kFirstContactLimit)));
}

asio::awaitable<Status> MetaLink::wait_until_it_answers(Context context, TimePoint began) {
  runtime::Backoff backoff(runtime_.random, kFirstBackoff, kLongestBackoff);
  while (true) {
    const TimePoint asked = runtime_.clock.now();
    if (co_await answers(context)) break;
    const TimePoint now = runtime_.clock.now();
    silent_ = now - asked >= kSilent;
    const auto pause = backoff.next_before(now, give_up(context, began));
    if (!pause) co_return silence("");
    const runtime::Wait wait(context, runtime::WaitKind::kTimer);
    if (!co_await group_.sleep_for(*pause)) co_return Status{Code::kCancelled, "the client is stopping"};
  }
  co_return Status{};
}

asio::awaitable<Status> MetaLink::call(Context context, rpc::Method method, const Message& request,
                                       Message& response, Repeat repeat, Duration limit) {
  const TimePoint began = runtime_.clock.now();
  if (repeat == Repeat::kNever && !has_answered_)
    KINTSUGI_CO_TRY(co_await wait_until_it_answers(context, began));

  runtime::Backoff backoff(runtime_.random, kFirstBackoff, kLongestBackoff);
  int unavailable_answers = 0;
  while (true) {
    const TimePoint asked = runtime_.clock.now();
    const Status answer = co_await call_once(context, method, request, response, limit);
    if (answer.ok()) has_answered_ = ever_answered_ = true;
    if (answer.code() == Code::kUnavailable) has_answered_ = false;
    if (answer.code() == Code::kNotSupported && !ever_answered_) co_return no_metaserver(answer.message());
    // Only what is kUnavailable may not have reached the metaserver: any other error is its answer, or came too late.
    if (repeat == Repeat::kNever || answer.code() != Code::kUnavailable) co_return answer;
    const bool there = co_await answers(context);
    if (there && ++unavailable_answers >= kMaxUnavailableAnswers) co_return answer;
    const TimePoint now = runtime_.clock.now();
    silent_ = !there && now - asked >= kSilent;
    const auto pause = backoff.next_before(now, give_up(context, began));
    if (!pause) co_return there ? answer : silence(answer.message());
    const runtime::Wait wait(context, runtime::WaitKind::kTimer);
    if (!co_await group_.sleep_for(*pause)) co_return Status{Code::kCancelled, "the client is stopping"};
  }
}

}  // namespace kintsugi::client
