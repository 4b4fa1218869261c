#include "client/lib/meta_link.h"

#include <algorithm>

#include "common/proto/types.pb.h"

namespace kintsugi::client {
namespace {

constexpr Duration kFirstBackoff = 50ms;
constexpr Duration kLongestBackoff = 1s;
constexpr Duration kPingLimit = 3s;
/// A metaserver that never answered this client is more likely absent than restarting: say so soon.
constexpr Duration kFirstContactLimit = 3s;
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

asio::awaitable<bool> MetaLink::answers(Context context) {
  const Context limited = context.with_deadline(runtime_.clock.now() + kPingLimit);
  std::string nothing;
  auto pong = co_await rpc_.call_raw(limited, metaserver_, rpc::Method::kPing, nothing);
  if (pong) co_return true;
  const Code code = pong.error().code();
  co_return code != Code::kUnavailable&& code != Code::kDeadlineExceeded&& code != Code::kCancelled;
}

asio::awaitable<Status> MetaLink::wait_until_it_answers(Context context, TimePoint give_up) {
  Duration backoff = kFirstBackoff;
  while (true) {
    const bool there = co_await answers(context);
    if (there) co_return Status{};
    if (runtime_.clock.now() + backoff >= give_up) {
      co_return Status{Code::kUnavailable,
                       fmt::format("the metaserver at {} does not answer", metaserver_.to_string())};
    }
    const bool slept = co_await group_.sleep_for(backoff);
    if (!slept) co_return Status{Code::kCancelled, "the client is stopping"};
    backoff = std::min(backoff * 2, kLongestBackoff);
  }
}

asio::awaitable<Result<std::string>> MetaLink::call_raw(Context context, rpc::Method method,
                                                        std::string request, Repeat repeat, Duration limit) {
  const Duration patience = ever_answered_ ? retry_limit_ : std::min(retry_limit_, kFirstContactLimit);
  const TimePoint give_up = std::min(context.deadline, runtime_.clock.now() + patience);
  if (repeat == Repeat::kNever && !has_answered_)
    KINTSUGI_CO_TRY(co_await wait_until_it_answers(context, give_up));

  Duration backoff = kFirstBackoff;
  int unavailable_answers = 0;
  while (true) {
    const Context limited = context.with_deadline(runtime_.clock.now() + limit);
    auto answer = co_await rpc_.call_raw(limited, metaserver_, method, request);
    if (answer) {
      has_answered_ = ever_answered_ = true;
      co_return answer;
    }
    const Code code = answer.error().code();
    if (code == Code::kUnavailable) has_answered_ = false;
    if (repeat == Repeat::kNever || code != Code::kUnavailable) co_return answer;
    const bool there = co_await answers(context);
    if (there && ++unavailable_answers >= kMaxUnavailableAnswers) co_return answer;
    if (runtime_.clock.now() + backoff >= give_up) {
      if (there) co_return answer;
      co_return Status{Code::kUnavailable, fmt::format("the metaserver at {} does not answer: {}",
                                                       metaserver_.to_string(), answer.error().message())};
    }
    const bool slept = co_await group_.sleep_for(backoff);
    if (!slept) co_return Status{Code::kCancelled, "the client is stopping"};
    backoff = std::min(backoff * 2, kLongestBackoff);
  }
}

}  // namespace kintsugi::client
