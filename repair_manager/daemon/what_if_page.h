/// /api/v1/what-if: how long repairs would take if a server, or a rack, died now, as JSON. The console asks through the
/// monitor; `kintsugi repair what-if` computes the same by itself.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/http_server.h"
#include "common/proto/meta.pb.h"
#include "repair_manager/what_if/cluster.h"
#include "repair_manager/what_if/loss.h"

namespace kintsugi::repair_manager {

/// What is asked: "server=chunkserver-3&policy=rs-6-3-1024k&delay=900", or with "rack=" instead of "server=".
struct WhatIfQuery {
  std::string server, rack;  ///< one of them
  erasure::Policy policy;
  double delay_s = 0;  ///< setting repair.delay

  /// kInvalidArgument: a part is missing, unknown or wrong.
  static Result<WhatIfQuery> parse(std::string_view text);
};

/// The answer as a document; one with the field "problem" alone when there is none.
std::string what_if_document(const WhatIfQuery& query, const std::vector<proto::ServerState>& servers);

/// Adds the page. `servers` is asked on the daemon's thread, and outlives the page's server.
void add_what_if_page(http::HttpServer& http, std::function<std::vector<proto::ServerState>()> servers);

}  // namespace kintsugi::repair_manager
