/// /api/v1/what-if: how long repairs would take if a server, or a rack, died now. A repair manager computes it; the
/// monitor knows where one is, and passes the question on.
#pragma once

#include <string>
#include <string_view>

#include "common/http/http_server.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "monitoring/daemon/monitor.h"
#include "monitoring/daemon/sampled_processes.h"

namespace kintsugi::monitoring {

class WhatIfApi {
 public:
  static constexpr Duration kLimit = std::chrono::seconds(20);  ///< longest wait for a repair manager

  /// `monitor` and the parts of `runtime` outlive it.
  WhatIfApi(const runtime::Runtime& runtime, const Monitor& monitor);

  /// The page. Its server is stopped before stop() is called.
  void add_page(http::HttpServer& http);
  asio::awaitable<void> stop();

  /// The path that a repair manager is asked for. kInvalidArgument: `query` is not "server=NAME" or "rack=NAME" of letters,
  /// digits, "-", "_" and ".".
  static Result<std::string> path(std::string_view query, const std::string& policy, double delay_s);

 private:
  struct Answer;
  http::Response ask(std::string_view query, const std::stop_token& stop);
  asio::awaitable<void> fetch(runtime::Endpoint from, std::string path, std::shared_ptr<Answer> answer);

  runtime::Runtime runtime_;
  const Monitor& monitor_;
  const ThisMachine here_;
  /// A question is not answered yet. Plots are written by the same threads, so there is one at a time.
  bool asks_ = false;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::monitoring
