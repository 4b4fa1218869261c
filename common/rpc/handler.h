/// A registered function as a Server keeps it: its address without its types.
///
/// Every handler is one type to the server, so that the coroutine that runs a call is compiled once and not
/// for each RPC.
#pragma once

#include <memory>
#include <type_traits>

#include <boost/asio/awaitable.hpp>
#include <google/protobuf/message_lite.h>

#include "common/base/status.h"
#include "common/rpc/stream.h"
#include "common/runtime/context.h"

namespace kintsugi::proto {
class Caller;
class Change;
}  // namespace kintsugi::proto

namespace kintsugi::rpc {

/// The user for whom a request asks, in the request. Null: requests of the method name none.
using CallerOf = proto::Caller* (*)(google::protobuf::MessageLite& request);

/// The number by which a change is known when it comes again, in the request. Null: the method has none.
using ChangeOf = const proto::Change* (*)(const google::protobuf::MessageLite& request);

struct UnaryHandler {
  using Message = google::protobuf::MessageLite;

  const Message* request = nullptr;  ///< the default instances, from which new messages are made
  const Message* response = nullptr;
  CallerOf caller = nullptr;
  ChangeOf change = nullptr;
  void* service = nullptr;  ///< null: nothing is registered
  asio::awaitable<Status> (*invoke)(void* service, Context, const Message& request,
                                    Message& response) = nullptr;
  std::shared_ptr<void> kept;  ///< the object at `service`, where the server owns it

  explicit operator bool() const { return service != nullptr; }
};

struct StreamHandler {
  using Message = google::protobuf::MessageLite;

  const Message* request = nullptr;
  CallerOf caller = nullptr;
  void* service = nullptr;
  asio::awaitable<Status> (*invoke)(void* service, Context, const Message& request, Stream& stream) = nullptr;
  std::shared_ptr<void> kept;

  explicit operator bool() const { return service != nullptr; }
};

namespace detail {

template <class Function>
struct HandlerTypes;
template <class Service, class Input, class Output>
struct HandlerTypes<asio::awaitable<Status> (Service::*)(Context, const Input&, Output&)> {
  using Request = Input;
  using Response = Output;  ///< type of the response; Stream for a streaming method
};
template <class Service, class Input, class Output>
struct HandlerTypes<asio::awaitable<Status> (Service::*)(Context, const Input&, Output&) const>
    : HandlerTypes<asio::awaitable<Status> (Service::*)(Context, const Input&, Output&)> {};

/// A request with the field `caller` is squashed without anybody's doing.
template <class Request>
constexpr CallerOf caller_of() {
  if constexpr (requires(Request& request) { request.mutable_caller(); }) {
    return [](google::protobuf::MessageLite& request) {
      return static_cast<Request&>(request).mutable_caller();
    };
  } else {
    return nullptr;
  }
}

template <class Request>
constexpr ChangeOf change_of() {
  if constexpr (requires(const Request& request) { request.change().session(); }) {
    return [](const google::protobuf::MessageLite& request) {
      return &static_cast<const Request&>(request).change();
    };
  } else {
    return nullptr;
  }
}

template <auto Function, class Service>
UnaryHandler unary_of(Service& service) {
  using Types = HandlerTypes<decltype(Function)>;
  using Message = UnaryHandler::Message;
  UnaryHandler handler;
  handler.request = &Types::Request::default_instance();
  handler.response = &Types::Response::default_instance();
  handler.caller = caller_of<typename Types::Request>();
  handler.change = change_of<typename Types::Request>();
  handler.service = &service;
  handler.invoke = [](void* self, Context context, const Message& request, Message& response) {
    return (static_cast<Service*>(self)->*Function)(context,
                                                    static_cast<const typename Types::Request&>(request),
                                                    static_cast<typename Types::Response&>(response));
  };
  return handler;
}

template <auto Function, class Service>
StreamHandler stream_of(Service& service) {
  using Types = HandlerTypes<decltype(Function)>;
  static_assert(std::is_same_v<typename Types::Response, Stream>);
  StreamHandler handler;
  handler.request = &Types::Request::default_instance();
  handler.caller = caller_of<typename Types::Request>();
  handler.service = &service;
  handler.invoke = [](void* self, Context context, const StreamHandler::Message& request, Stream& stream) {
    return (static_cast<Service*>(self)->*Function)(
        context, static_cast<const typename Types::Request&>(request), stream);
  };
  return handler;
}

}  // namespace detail
}  // namespace kintsugi::rpc
