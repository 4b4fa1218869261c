/// A metaserver with a file and two sessions that may have its lease.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <gtest/gtest.h>

#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {

inline constexpr uint64_t kWriter = 5, kReader = 6;

struct LeaseRig : MetaServerRig {
  explicit LeaseRig(MetaServerOptions options = {}) : MetaServerRig(1, 9, 3, options) {
    KINTSUGI_EXPECT_OK(put("/f"));
    inode = open("/f")->attributes().inode();
    for (const uint64_t session : {kWriter, kReader})
      KINTSUGI_EXPECT_OK(keep(session, [](auto& request) { request.set_all(true); }));
  }

  Status keep(uint64_t session, const std::function<void(proto::KeepSessionRequest&)>& fill) {
    proto::KeepSessionRequest request;
    request.set_session(session);
    fill(request);
    const auto kept = call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, request);
    return kept ? Status{} : kept.error();
  }
  /// A call that gives up before the metaserver does.
  template <class Response>
  Result<Response> call(rpc::Method method, const google::protobuf::MessageLite& request,
                        Duration limit = 4s) {
    Response response;
    const Status status = simulation.run(call_async(method, request, response, limit));
    if (!status.ok()) return status;
    return response;
  }
  asio::awaitable<Status> call_async(rpc::Method method, const google::protobuf::MessageLite& request,
                                     google::protobuf::MessageLite& response, Duration limit) {
    co_return co_await call_within(limit, method, request, response);
  }
  template <class Request>
  void in_background(rpc::Method method, Request request, std::optional<Status>& ended) {
    in_background(method, std::move(request), ended, ignored_);
  }
  template <class Request, class Response>
  void in_background(rpc::Method method, Request request, std::optional<Status>& ended, Response& answer) {
    const auto run = [](LeaseRig& rig, rpc::Method method, Request request, std::optional<Status>& ended,
                        Response& answer) -> asio::awaitable<void> {
      ended = co_await rig.call_async(method, request, answer, 30s);
    };
    asio::co_spawn(client_node.runtime().executor, run(*this, method, std::move(request), ended, answer),
                   asio::detached);
  }
  /// The session says every second that it is there, until `ended` or for so many seconds.
  void beat(uint64_t session, const std::optional<Status>& ended, int seconds) {
    for (int i = 0; i < seconds && !ended; ++i) {
      KINTSUGI_EXPECT_OK(keep(session, [](auto&) {}));
      simulation.run_for(1s);
    }
  }
  /// Whether the session got a lease, if it wanted one.
  Result<bool> get(uint64_t session, bool hold = false, bool lease = false) {
    return get_of(inode, session, hold, lease);
  }
  Result<bool> get_of(uint64_t inode, uint64_t session, bool hold, bool lease, Duration limit = 4s) {
    proto::GetInodeRequest request;
    request.set_inode(inode);
    request.set_session(session);
    request.set_hold(hold);
    request.set_lease(lease);
    const auto got = call<proto::InodeResponse>(rpc::Method::kGetInode, request, limit);
    if (!got) return got.error();
    return got->lease();
  }
  std::vector<uint64_t> recalls(uint64_t session) {
    proto::AwaitRecallsRequest request;
    request.set_session(session);
    const auto answer = call<proto::AwaitRecallsResponse>(rpc::Method::kAwaitRecalls, request);
    EXPECT_TRUE(answer) << answer.error();
    if (!answer) return {};
    return {answer->recall().begin(), answer->recall().end()};
  }
  Status grow(uint64_t session, uint64_t size, uint64_t number) {
    proto::WriteExtentsRequest request;
    request.set_inode(inode);
    request.mutable_change()->set_session(session);
    request.mutable_change()->set_number(number);
    request.set_size_at_least(size);
    const auto written = call<proto::WriteExtentsResponse>(rpc::Method::kWriteExtents, request);
    return written ? Status{} : written.error();
  }

  uint64_t inode = 0;

 private:
  proto::Empty ignored_;
};

}  // namespace kintsugi::metaserver
