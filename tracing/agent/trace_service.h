/// The call by which an operator has a daemon traced.
#pragma once

#include <cstdint>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/proto/trace.pb.h"
#include "common/rpc/server.h"
#include "common/runtime/context.h"
#include "tracing/agent/agent_status.h"

namespace kintsugi::tracing {

struct AttachOptions;

/// What this process says of an owner's recording and of those that it was followed into.
void describe(const AgentStatus& status, proto::TraceResponse& response);

/// What `--start all --follow` follows of a process.
enum class Followed : uint8_t {
  kRequests,  ///< those that come to it: it is a server
  kOwnWork,   ///< what it asks others for: it serves the kernel or a user
};

/// A handler for Server::handle: it asks the agent of the process. Who announces a call waits until everything is recorded, and whoever
/// attaches until a recording that is about to end has ended.
class TraceService {
 public:
  /// At most so many bytes of a trace come with one answer.
  static constexpr size_t kMostBytes = 512 << 10;

  /// `server` serves what a recording may begin with: "method:ReadChunk". It outlives this.
  explicit TraceService(const rpc::Server& server, Followed followed = Followed::kRequests)
      : server_(server), followed_(followed) {}

  asio::awaitable<Status> operator()(Context context, const proto::TraceRequest& request,
                                     proto::TraceResponse& response);

  /// REQUIRES: the server was not started.
  static void register_on(rpc::Server& server, Followed followed = Followed::kRequests) {
    server.handle(rpc::Method::kTrace, TraceService(server, followed));
  }

 private:
  Result<AttachOptions> attach_options(const proto::TraceRequest& request) const;
  static asio::awaitable<Status> follow(const proto::TraceRequest& request);
  /// kNotFound: the server has no such method; says which it has.
  Result<const void*> code_of_method(std::string_view name) const;

  const rpc::Server& server_;
  Followed followed_;
};

}  // namespace kintsugi::tracing
