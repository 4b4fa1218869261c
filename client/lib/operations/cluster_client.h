/// What the operations of one client share: its resources, and the numbers by which the metaserver knows its changes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <google/protobuf/message_lite.h>

#include "client/lib/meta_link.h"
#include "client/lib/options.h"
#include "client/lib/resources.h"
#include "common/base/status.h"
#include "common/rpc/secret.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"

namespace kintsugi::client {

/// Behind Client, which is a group of operations for each subject.
class ClusterClient {
 public:
  using Message = google::protobuf::MessageLite;

  ClusterClient(const runtime::Runtime& runtime, Options options, rpc::Secret secret);

  Resources& resources() { return resources_; }
  /// The root of what is begun here: recorded, below nothing, and without a deadline.
  Context context() const { return resources_.context(); }

  /// Calls the metaserver. It owns the request, so that the functions that fill one need not be coroutines.
  template <class Response>
  asio::awaitable<Result<Response>> ask(rpc::Method method, std::unique_ptr<const Message> request,
                                        Repeat repeat = Repeat::kAllowed,
                                        Duration limit = MetaLink::kCallLimit,
                                        std::optional<Context> within = {}) {
    Response response;
    KINTSUGI_CO_TRY(
        co_await resources_.meta.call(within.value_or(context()), method, *request, response, repeat, limit));
    co_return response;
  }
  /// Makes a call whose response holds nothing but the outcome.
  asio::awaitable<Status> tell(rpc::Method method, std::unique_ptr<const Message> request,
                               Repeat repeat = Repeat::kAllowed, Duration limit = MetaLink::kCallLimit);

  /// Says in a request for whom it is made, and gives a change the number by which the metaserver knows it when it
  /// comes again.
  template <class Request>
  void sign(Request& request) {
    if constexpr (requires { request.mutable_caller(); }) resources_.sign(request);
    if constexpr (requires { request.mutable_change(); }) {
      request.mutable_change()->set_session(session_);
      request.mutable_change()->set_number(++last_change_);
    }
  }
  template <class Request>
  std::unique_ptr<Request> request_for(std::string path) {
    auto request = std::make_unique<Request>();
    request->set_path(std::move(path));
    sign(*request);
    return request;
  }

  /// The operations of Client.
  void cancel();
  asio::awaitable<void> stop();

 private:
  Resources resources_;
  const uint64_t session_;    ///< identifies changes by path; the metaserver keeps no leases for it
  uint64_t last_change_ = 0;  ///< number of the latest change by path
};

}  // namespace kintsugi::client
