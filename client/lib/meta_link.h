/// Calls to the metaserver, patient while it restarts.
#pragma once

#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <google/protobuf/message_lite.h>

#include "common/base/status.h"
#include "common/rpc/client.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// Says whether a call may reach the metaserver twice when its answer was lost.
enum class Repeat {
  kAllowed,  ///< the call only reads, or has no further effect the second time
  /// It is sent only once the metaserver is known to answer, and a lost answer is an error.
  kNever,
};

/// Every call is one coroutine, whatever its messages: they are the caller's, and live until the call has ended.
class MetaLink {
 public:
  using Message = google::protobuf::MessageLite;

  /// `group` ends the waiting when it stops. All outlive the link.
  MetaLink(const runtime::Runtime& runtime, runtime::Endpoint metaserver, Duration retry_limit,
           rpc::Client& rpc, runtime::TaskGroup& group);

  /// Fills `response`, after as many attempts as `repeat` and the retry limit allow; each takes at most `limit`. The
  /// metaserver's error; kUnavailable: it does not answer; kCancelled: the client is stopping.
  asio::awaitable<Status> call(Context context, rpc::Method method, const Message& request, Message& response,
                               Repeat repeat = Repeat::kAllowed, Duration limit = kCallLimit);
  /// A single attempt, for what is not worth waiting for: a metaserver that is away is an error at once.
  asio::awaitable<Status> call_once(Context context, rpc::Method method, const Message& request,
                                    Message& response, Duration limit);

  /// Limits of a single attempt. Work that visits a whole tree or moves chunks gets kLongCallLimit.
  static constexpr Duration kCallLimit = std::chrono::seconds(30);
  static constexpr Duration kLongCallLimit = std::chrono::minutes(10);

 private:
  /// True when the metaserver answers a ping, whatever it says.
  asio::awaitable<bool> answers(Context context);
  /// Waits from `began` on for as long as give_up() says.
  asio::awaitable<Status> wait_until_it_answers(Context context, TimePoint began);
  TimePoint give_up(const Context& context, TimePoint began) const;
  Status silence(std::string_view detail) const;
  Status no_metaserver(std::string_view detail) const;

  const runtime::Runtime& runtime_;
  const runtime::Endpoint metaserver_;
  const Duration retry_limit_;
  rpc::Client& rpc_;
  runtime::TaskGroup& group_;
  /// The latest call was answered, so the next one is sent without a test call first.
  bool has_answered_ = false;
  bool ever_answered_ = false;  ///< some call was answered: an absence is probably a restart
  bool silent_ = false;         ///< the latest attempt was neither refused nor answered
};

}  // namespace kintsugi::client
