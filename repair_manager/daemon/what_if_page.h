/// /api/v1/what-if: how long repairs would take if a server, or a rack, died now, as JSON. The console asks through the
/// monitor; `kintsugi repair what-if` computes the same by itself.
#pragma once

#include <functional>
#include <optional>
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

/// What the answer is made of, and where it comes from.
struct WhatIfFacts {
  using Stripes = std::optional<std::vector<proto::Stripe>>;
  std::vector<proto::ServerState> servers;
  Stripes stripes;  ///< stripes with chunks on the servers that are lost; none: their places are drawn

  /// The ids of those servers.
  static std::vector<uint64_t> lost(const WhatIfQuery& query, const std::vector<proto::ServerState>& servers);
};
struct WhatIfSource {
  std::function<std::vector<proto::ServerState>()> servers;
  /// Finds the stripes that have chunks on these servers, and tells them once; nothing: they are not to be had. When the
  /// daemon stops it may never tell them.
  std::function<void(std::vector<uint64_t> server_ids, std::function<void(WhatIfFacts::Stripes)> tell)>
      stripes;
};

/// The answer as a document; one with the field "problem" alone when there is none.
std::string what_if_document(const WhatIfQuery& query, const WhatIfFacts& facts);

/// Adds the page. The source is asked on the daemon's thread, and outlives the page's server.
void add_what_if_page(http::HttpServer& http, WhatIfSource source);

}  // namespace kintsugi::repair_manager
