/// What operators change from the console: POST /api/v1/actions/NAME?server=ID, for some with &seconds=NUMBER, or
/// NAME?rate=NUMBER. The metaserver decides whether they may.
#pragma once

#include <string>

#include "common/http/http_server.h"
#include "common/rpc/rate_limit.h"
#include "common/rpc/secret.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "monitoring/daemon/monitor.h"

namespace kintsugi::monitoring {

/// Each user shows a token of their own as "Authorization: Bearer TOKEN", at a loopback address, too. The monitor
/// connects to the metaserver with that token and not with its secret: so the metaserver judges the token as if its
/// holder had connected, and its audit log names it. The monitor's own audit log has the address of whoever asked.
///
/// A password that a browser has learnt ("Basic") is no token here, since it is sent for pages of others as well.
///
/// Answers are one line of text: 200 what was done and what follows; 400 the query is none, or its number too
/// small or too large; 401 there is no token of the
/// cluster; 403 the metaserver refuses the token; 404 there is no such server; 409 not in its state; 429 kMost actions
/// run; 503 the metaserver does not answer, and it is not known whether it has done it.
class Actions final : public http::Changer {
 public:
  static constexpr Duration kLimit = std::chrono::seconds(5);  ///< longest wait for the metaserver
  static constexpr size_t kMost = 8;                           ///< actions that run at a time

  /// `cluster`: the cluster's secret. `monitor` and the parts of `runtime` outlive it.
  Actions(const runtime::Runtime& runtime, const Monitor& monitor, rpc::Secret cluster);

  /// One path for each action.
  void add_to(http::HttpServer& http);
  asio::awaitable<http::Response> change(http::Change change) override;
  /// Waits for those that run. REQUIRES: the HTTP server was stopped.
  asio::awaitable<void> stop();

  struct Query;

 private:
  struct Row;
  static const Row kRows[];

  static Result<Query> parse(const Row& row, std::string_view text);
  asio::awaitable<http::Response> decide(const Row& row, const http::Change& change);
  /// Sends the request of `row` over a connection that `token`, which is one of the cluster, opens.
  asio::awaitable<Status> ask_metaserver(const Row& row, const Query& query, const std::string& token) const;
  void tell_audit(const std::string& who, const std::string& what, const Status& outcome);
  std::string name_of(uint64_t server_id) const;

  runtime::Runtime runtime_;
  const Monitor& monitor_;
  const rpc::Secret cluster_;
  rpc::RateLimit failures_{60, std::chrono::minutes(1)};  ///< lines of the audit log about what was not done
  size_t running_ = 0;
  runtime::Event ended_;
};

}  // namespace kintsugi::monitoring
