/// The call by which an operator has a daemon traced.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/proto/trace.pb.h"
#include "common/rpc/server.h"
#include "common/runtime/context.h"

namespace kintsugi::tracing {

struct AgentStatus;

/// What this process says of its recording and of those that it was followed into.
void describe(const AgentStatus& status, proto::TraceResponse& response);

/// A handler for Server::handle: it asks the agent of the process. Only who announces a call waits, until everything is recorded.
class TraceService {
 public:
  /// At most so many bytes of a trace come with one answer.
  static constexpr size_t kMostBytes = 512 << 10;

  /// `server` serves what a recording may begin with: "method:ReadChunk". It outlives this.
  explicit TraceService(const rpc::Server& server) : server_(server) {}

  asio::awaitable<Status> operator()(Context context, const proto::TraceRequest& request,
                                     proto::TraceResponse& response);

  /// REQUIRES: the server was not started.
  static void register_on(rpc::Server& server) { server.handle(rpc::Method::kTrace, TraceService(server)); }

 private:
  Status attach(const proto::TraceRequest& request) const;
  static asio::awaitable<Status> follow(const proto::TraceRequest& request);
  /// kNotFound: the server has no such method; says which it has.
  Result<const void*> code_of_method(std::string_view name) const;

  const rpc::Server& server_;
};

}  // namespace kintsugi::tracing
