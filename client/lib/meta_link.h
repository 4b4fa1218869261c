/// Calls to the metaserver, patient while it restarts.
#pragma once

#include <string>

#include <boost/asio/awaitable.hpp>
#include <google/protobuf/message_lite.h>

#include "common/base/status.h"
#include "common/rpc/client.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// Whether a call may reach the metaserver twice when its answer was lost.
enum class Repeat {
  kAllowed,  ///< it reads, or a second time changes nothing
  kNever,    ///< only sent once it is known that the metaserver answers; a lost answer is an error
};

class MetaLink {
 public:
  /// `group` ends the waiting when it stops. All outlive the link.
  MetaLink(const runtime::Runtime& runtime, runtime::Endpoint metaserver, Duration retry_limit,
           rpc::Client& rpc, runtime::TaskGroup& group);

  template <class Response>
  asio::awaitable<Result<Response>> call(Context context, rpc::Method method,
                                         const google::protobuf::MessageLite& request,
                                         Repeat repeat = Repeat::kAllowed, Duration limit = kCallLimit) {
    return call_typed<Response>(context, method, request.SerializeAsString(), repeat, limit);
  }

  /// For a single answer. Work that visits a whole tree or moves chunks gets kLongCallLimit.
  static constexpr Duration kCallLimit = std::chrono::seconds(30);
  static constexpr Duration kLongCallLimit = std::chrono::minutes(10);

 private:
  template <class Response>
  asio::awaitable<Result<Response>> call_typed(Context context, rpc::Method method, std::string request,
                                               Repeat repeat, Duration limit) {
    Result<std::string> bytes = co_await call_raw(context, method, std::move(request), repeat, limit);
    if (!bytes) co_return bytes.error();
    Response response;
    if (!response.ParseFromString(*bytes))
      co_return Status{Code::kCorrupt, "the metaserver's answer does not parse"};
    co_return response;
  }

  asio::awaitable<Result<std::string>> call_raw(Context context, rpc::Method method, std::string request,
                                                Repeat repeat, Duration limit);
  /// True when the metaserver answers a ping, whatever it says.
  asio::awaitable<bool> answers(Context context);
  asio::awaitable<Status> wait_until_it_answers(Context context, TimePoint give_up);

  const runtime::Runtime& runtime_;
  runtime::Endpoint metaserver_;
  Duration retry_limit_;
  rpc::Client& rpc_;
  runtime::TaskGroup& group_;
  bool has_answered_ = false;
  bool ever_answered_ = false;
};

}  // namespace kintsugi::client
